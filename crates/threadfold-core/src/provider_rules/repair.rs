//! Repairs a history that was truncated at any point, so that every provider accepts it.
//!
//! Repair appends: a call without a result gets an error result. Messages before the first defect
//! are never changed. Where something after it must change, thinking is dropped from there on,
//! because a provider binds it to everything before it. Every change is reported.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::id::CallId;
use crate::turn::{ConversationMessage, MessagePart, Role};
use crate::work::visit;

mod parts;

use parts::{ChangedParts, Parts};

/// The result of an interrupted call, for the model.
const INTERRUPTED: &str = "interrupted; its outcome is not known";

/// A repaired history.
#[derive(Clone, Debug, PartialEq)]
pub struct RepairedHistory {
    /// The messages.
    pub messages: Vec<ConversationMessage>,
    /// The repairs, in order; empty if the history was valid.
    pub repairs: Vec<Repair>,
    /// How many messages at the beginning are unchanged.
    pub untouched: usize,
}

/// One change to a history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// A call had no result; an error result was added.
    ResultAdded {
        /// The call.
        call: CallId,
    },
    /// A result did not follow its call, and was moved there.
    ResultMoved {
        /// The call.
        call: CallId,
    },
    /// A result had no call, or its call already had a result.
    ResultDropped {
        /// The call that the result names.
        call: Option<CallId>,
        /// The index of the message in the history.
        message: usize,
    },
    /// Two calls had the same id.
    CallRenamed {
        /// The old id.
        from: CallId,
        /// The new id.
        to: CallId,
    },
    /// A native item cannot be sent: it is unpaired, duplicated or not valid text.
    ItemDropped {
        /// The provider.
        provider: Arc<str>,
        /// The index of the message in the history.
        message: usize,
    },
    /// An image was too large to send.
    ImageDropped {
        /// The index of the message in the history.
        message: usize,
    },
    /// Thinking was dropped, because something before it changed.
    ThinkingDropped {
        /// The index of the message in the history.
        message: usize,
    },
}

impl Repair {
    /// Shifts message indexes by `count`, for a caller that repaired only the end of a history.
    pub fn move_by(&mut self, count: usize) {
        match self {
            Self::ResultDropped { message, .. }
            | Self::ItemDropped { message, .. }
            | Self::ImageDropped { message }
            | Self::ThinkingDropped { message } => *message += count,
            Self::ResultAdded { .. } | Self::ResultMoved { .. } | Self::CallRenamed { .. } => {}
        }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResultAdded { call } => {
                write!(f, "added a result for call `{call}`, which had none")
            }
            Self::ResultMoved { call } => {
                write!(f, "moved the result of call `{call}` to its call")
            }
            Self::ResultDropped { call: Some(call), message } => {
                write!(f, "dropped message {message}: no open call `{call}` for this result")
            }
            Self::ResultDropped { call: None, message } => {
                write!(f, "dropped message {message}: a result without a call")
            }
            Self::CallRenamed { from, to } => {
                write!(f, "renamed a second call `{from}` to `{to}`")
            }
            Self::ItemDropped { provider, message } => {
                write!(f, "dropped an item of `{provider}` from message {message}")
            }
            Self::ImageDropped { message } => {
                write!(f, "dropped an image that is too large from message {message}")
            }
            Self::ThinkingDropped { message } => {
                write!(f, "dropped thinking from message {message}")
            }
        }
    }
}

/// Returns a history that every provider accepts once it is rendered.
///
/// ```
/// use threadfold_core::{ConversationMessage, Role, ToolCall, repair};
///
/// let mut asked = ConversationMessage::new(Role::Assistant);
/// asked.tool_calls.push(ToolCall::new("c1", "Bash", "{}"));
/// let history = [ConversationMessage::text(Role::User, "look"), asked];
/// let repaired = repair(&history);
/// assert_eq!(repaired.messages[..2], history);
/// assert_eq!(repaired.messages[2].to_text(), "interrupted; its outcome is not known");
/// assert_eq!(repaired.repairs[0].to_string(), "added a result for call `c1`, which had none");
/// ```
pub fn repair(history: &[ConversationMessage]) -> RepairedHistory {
    let mut work = Repairer {
        history,
        taken: BTreeSet::new(),
        calls: BTreeSet::new(),
        parts: Parts::default(),
        messages: Vec::with_capacity(history.len()),
        repairs: Vec::new(),
        changed: ChangedParts::default(),
    };
    for at in 0..history.len() {
        visit();
        work.take(at);
    }
    let same = history.iter().zip(&work.messages).take_while(|(before, after)| before == after);
    RepairedHistory { untouched: same.count(), messages: work.messages, repairs: work.repairs }
}

/// Returns a history without content that a provider binds to the request that produced it.
///
/// Used when a conversation is sent again with another prompt, other tools or another model.
/// Removes thinking and the items produced with OpenAI's reasoning; their text and calls stay, in a
/// form that every provider accepts.
///
/// ```
/// use threadfold_core::{ConversationMessage, MessagePart, Role, without_bound_content};
///
/// let mut answer = ConversationMessage::text(Role::Assistant, "It is done.");
/// answer.content.insert(0, MessagePart::thinking("hm", "signed"));
/// let sent = without_bound_content(vec![ConversationMessage::text(Role::User, "look"), answer]);
/// assert_eq!(sent[1], ConversationMessage::text(Role::Assistant, "It is done."));
/// ```
pub fn without_bound_content(mut messages: Vec<ConversationMessage>) -> Vec<ConversationMessage> {
    for message in &mut messages {
        message.content.iter_mut().for_each(MessagePart::drop_native);
        parts::drop_bound(&mut message.content, ChangedParts::ALL);
    }
    messages
}

struct Repairer<'a> {
    history: &'a [ConversationMessage],
    /// The results that are already in place.
    taken: BTreeSet<usize>,
    calls: BTreeSet<CallId>,
    parts: Parts,
    messages: Vec<ConversationMessage>,
    repairs: Vec<Repair>,
    /// The providers for which something changed that was not only appended.
    changed: ChangedParts,
}

/// A call that waits for its result.
struct OpenCall {
    /// Its id in the history.
    from: CallId,
    /// Its new id.
    to: CallId,
    /// Its result is in place.
    is_answered: bool,
    /// A result further on may still belong to it.
    is_open: bool,
}

impl Repairer<'_> {
    fn take(&mut self, at: usize) {
        let message = &self.history[at];
        if self.taken.contains(&at) {
            return;
        }
        if message.role == Role::Tool {
            let call = message.tool_call_id.clone();
            self.change(Repair::ResultDropped { call, message: at });
            return;
        }
        let mut message = message.clone();
        let before = self.changed;
        let waiting = match message.role {
            Role::Assistant => self.name_calls(&mut message),
            Role::System | Role::User | Role::Tool => Vec::new(),
        };
        let is_renamed = waiting.iter().any(|it| it.from != it.to);
        // Calls follow thinking, so thinking survives a rename; reasoning is bound to the call
        // after it.
        let renamed =
            if is_renamed { ChangedParts::behind_all(&message) } else { ChangedParts::default() };
        self.mend(&mut message, at, before.or(renamed));
        self.messages.push(message);
        self.answer(waiting, at);
    }

    fn change(&mut self, repair: Repair) {
        self.changed = ChangedParts::ALL;
        self.repairs.push(repair);
    }

    /// Gives each call a unique id.
    fn name_calls(&mut self, message: &mut ConversationMessage) -> Vec<OpenCall> {
        let mut waiting = Vec::new();
        for ordinal in 0..message.tool_calls.len() {
            let from = message.tool_calls[ordinal].call_id.clone();
            let (mut to, mut count) = (from.clone(), 1);
            while !self.calls.insert(to.clone()) {
                count += 1;
                to = format!("{from}-{count}").into();
            }
            if from != to {
                message.rename_call(ordinal, to.clone());
                self.change(Repair::CallRenamed { from: from.clone(), to: to.clone() });
            }
            waiting.push(OpenCall { from, to, is_answered: false, is_open: true });
        }
        waiting
    }

    /// Removes from a message what cannot be sent, and what is bound to content that changed.
    fn mend(&mut self, message: &mut ConversationMessage, at: usize, before: ChangedParts) {
        let dropped = self.parts.drop_unsendable(message, at);
        self.repairs.extend(dropped.repairs);
        let changed = before.or(dropped.first);
        // The text stays, but not as an item that its provider binds to the thinking before it.
        if let Some(first) = changed.first() {
            message.content.iter_mut().skip(first).for_each(MessagePart::drop_native);
        }
        if parts::drop_bound(&mut message.content, changed) {
            self.repairs.push(Repair::ThinkingDropped { message: at });
        }
        self.changed = self.changed.or(dropped.first.behind());
    }

    /// Places the results of the calls in message `at`: those that follow it directly, those
    /// further on, and new ones for the rest.
    fn answer(&mut self, mut waiting: Vec<OpenCall>, at: usize) {
        let next = (at + 1..self.history.len()).find(|&it| self.history[it].role != Role::Tool);
        let next = next.unwrap_or(self.history.len());
        for result in at + 1..next {
            self.place(&mut waiting, result);
        }
        for result in next..self.history.len() {
            // A later call with the same id claims the results after it.
            let calls = &self.history[result].tool_calls;
            for it in &mut waiting {
                it.is_open &= !calls.iter().any(|call| call.call_id == it.from);
            }
            if !waiting.iter().any(|it| it.is_open) {
                break;
            }
            if let Some(call) = self.place(&mut waiting, result) {
                self.change(Repair::ResultMoved { call });
            }
        }
        for call in waiting.into_iter().filter(|it| !it.is_answered) {
            // A result in the middle of the history shifts what follows; at the end it only
            // appends.
            if next < self.history.len() {
                self.changed = ChangedParts::ALL;
            }
            self.repairs.push(Repair::ResultAdded { call: call.to.clone() });
            self.messages.push(interrupted(call.to));
        }
    }

    /// Moves a result to the call that waits for it, if there is one.
    fn place(&mut self, waiting: &mut [OpenCall], at: usize) -> Option<CallId> {
        let message = &self.history[at];
        let named = message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool)?;
        if self.taken.contains(&at) {
            return None;
        }
        let call = waiting.iter_mut().find(|it| it.is_open && it.from == *named)?;
        (call.is_answered, call.is_open) = (true, false);
        let call = call.to.clone();
        let mut message = message.clone();
        message.tool_call_id = Some(call.clone());
        self.taken.insert(at);
        self.mend(&mut message, at, self.changed);
        self.messages.push(message);
        Some(call)
    }
}

/// Returns the result for a call with an unknown outcome.
fn interrupted(call: CallId) -> ConversationMessage {
    let mut message = ConversationMessage::new(Role::Tool);
    message.content.push(MessagePart::text(INTERRUPTED));
    message.tool_call_id = Some(call);
    message.is_error = true;
    message
}

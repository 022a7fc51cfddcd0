//! A history that was cut anywhere, made into one that every provider takes.
//!
//! Repair appends: a call without a result gets one that says so. What stands before the first
//! defect is never touched. Where something behind it must change, thinking is dropped from
//! there on, for a provider holds it to what stood before; and every change is told.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::id::CallId;
use crate::turn::{ConversationMessage, MessagePart, Role};

mod parts;

use parts::{Changed, Parts};

/// What the model is told of a call that was interrupted.
pub const INTERRUPTED: &str = "interrupted; its outcome is not known";

/// A history that was repaired.
#[derive(Clone, Debug, PartialEq)]
pub struct Repaired {
    /// The messages.
    pub messages: Vec<ConversationMessage>,
    /// What was done, in order; empty if nothing was wrong.
    pub repairs: Vec<Repair>,
    /// How many messages at the beginning are as they were.
    pub untouched: usize,
}

/// One thing that was done to a history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// A call had no result; one was added that says so.
    ResultAdded {
        /// The call.
        call: CallId,
    },
    /// A result stood too far behind its call, and was moved to it.
    ResultMoved {
        /// The call.
        call: CallId,
    },
    /// A result had no call, or its call had one already.
    ResultDropped {
        /// The call that it names.
        call: Option<CallId>,
        /// Which message of the history it was.
        message: usize,
    },
    /// Two calls had one name.
    CallRenamed {
        /// The name.
        from: CallId,
        /// The name it has now.
        to: CallId,
    },
    /// A provider's own item cannot be sent: it stands alone, or twice, or is not text.
    ItemDropped {
        /// The provider.
        provider: Arc<str>,
        /// Which message of the history it was in.
        message: usize,
    },
    /// An image was too large to be sent.
    ImageDropped {
        /// Which message of the history it was in.
        message: usize,
    },
    /// Thinking was dropped, for something before it changed.
    ThinkingDropped {
        /// Which message of the history it was in.
        message: usize,
    },
}

impl Repair {
    /// Counts messages from further before: for one who repaired the end of a history alone.
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
            Self::ResultAdded { call } => write!(f, "call `{call}` had no result: one was added"),
            Self::ResultMoved { call } => {
                write!(f, "the result of call `{call}` was moved to its call")
            }
            Self::ResultDropped { call: Some(call), message } => {
                write!(f, "message {message} was dropped: nothing waits for a result of `{call}`")
            }
            Self::ResultDropped { call: None, message } => {
                write!(f, "message {message} was dropped: a result of no call")
            }
            Self::CallRenamed { from, to } => {
                write!(f, "a second call `{from}` was renamed to `{to}`")
            }
            Self::ItemDropped { provider, message } => {
                write!(f, "an item of `{provider}` was dropped from message {message}")
            }
            Self::ImageDropped { message } => {
                write!(f, "an image that was too large was dropped from message {message}")
            }
            Self::ThinkingDropped { message } => {
                write!(f, "thinking was dropped from message {message}")
            }
        }
    }
}

/// Returns a history that every provider takes, once it is rendered for it.
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
/// assert_eq!(repaired.repairs[0].to_string(), "call `c1` had no result: one was added");
/// ```
pub fn repair(history: &[ConversationMessage]) -> Repaired {
    let mut work = Work {
        history,
        taken: BTreeSet::new(),
        calls: BTreeSet::new(),
        parts: Parts::default(),
        messages: Vec::with_capacity(history.len()),
        repairs: Vec::new(),
        changed: Changed::default(),
    };
    for at in 0..history.len() {
        work.take(at);
    }
    let same = history.iter().zip(&work.messages).take_while(|(before, after)| before == after);
    Repaired { untouched: same.count(), messages: work.messages, repairs: work.repairs }
}

/// Returns a history without what a provider holds to the request that it was made in.
///
/// For a conversation that is sent anew with another prompt, other tools or another model.
/// Thinking goes, and so do the items that were made with OpenAI's reasoning; what they said
/// stays as words and calls that every provider takes.
///
/// ```
/// use threadfold_core::{ConversationMessage, MessagePart, Role, unbound};
///
/// let mut answer = ConversationMessage::text(Role::Assistant, "It is done.");
/// answer.content.insert(0, MessagePart::thinking("hm", "signed"));
/// let sent = unbound(vec![ConversationMessage::text(Role::User, "look"), answer]);
/// assert_eq!(sent[1], ConversationMessage::text(Role::Assistant, "It is done."));
/// ```
pub fn unbound(mut messages: Vec<ConversationMessage>) -> Vec<ConversationMessage> {
    for message in &mut messages {
        message.content.iter_mut().for_each(MessagePart::forget_form);
        parts::drop_bound(&mut message.content, Changed::ALL);
    }
    messages
}

struct Work<'a> {
    history: &'a [ConversationMessage],
    /// The results that stand where they belong by now.
    taken: BTreeSet<usize>,
    calls: BTreeSet<CallId>,
    parts: Parts,
    messages: Vec<ConversationMessage>,
    repairs: Vec<Repair>,
    /// For whom something changed that was not only appended.
    changed: Changed,
}

/// A call that waits for its result.
struct Waiting {
    /// Its name in the history.
    from: CallId,
    /// Its name from now on.
    to: CallId,
    /// It has its result by now.
    is_answered: bool,
    /// A result that stands further behind may still be its own.
    is_open: bool,
}

impl Work<'_> {
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
        // Calls stand behind thinking, but reasoning belongs to the call that follows it.
        let renamed = if is_renamed { Changed::behind_all(&message) } else { Changed::default() };
        self.mend(&mut message, at, before.or(renamed));
        self.messages.push(message);
        self.answer(waiting, at);
    }

    fn change(&mut self, repair: Repair) {
        self.changed = Changed::ALL;
        self.repairs.push(repair);
    }

    /// Gives each call a name of its own.
    fn name_calls(&mut self, message: &mut ConversationMessage) -> Vec<Waiting> {
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
            waiting.push(Waiting { from, to, is_answered: false, is_open: true });
        }
        waiting
    }

    /// Takes out of a message what cannot be sent, and what is held to something that changed.
    fn mend(&mut self, message: &mut ConversationMessage, at: usize, before: Changed) {
        let dropped = self.parts.drop_unsendable(message, at);
        self.repairs.extend(dropped.repairs);
        let changed = before.or(dropped.first);
        // Words stay, but not as an item that its provider holds to the thinking before it.
        if let Some(first) = changed.first() {
            message.content.iter_mut().skip(first).for_each(MessagePart::forget_form);
        }
        if parts::drop_bound(&mut message.content, changed) {
            self.repairs.push(Repair::ThinkingDropped { message: at });
        }
        self.changed = self.changed.or(dropped.first.behind());
    }

    /// Puts results behind the calls of the message at `at`: those that stand there, those that
    /// stand further behind, and for the rest new ones.
    fn answer(&mut self, mut waiting: Vec<Waiting>, at: usize) {
        let next = (at + 1..self.history.len()).find(|&it| self.history[it].role != Role::Tool);
        let next = next.unwrap_or(self.history.len());
        for result in at + 1..next {
            self.place(&mut waiting, result);
        }
        for result in next..self.history.len() {
            // A later call of the same name has the results behind it for itself.
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
            if next < self.history.len() {
                self.changed = Changed::ALL;
            }
            self.repairs.push(Repair::ResultAdded { call: call.to.clone() });
            self.messages.push(interrupted(call.to));
        }
    }

    /// Puts a result behind the call that waits for it, if one does.
    fn place(&mut self, waiting: &mut [Waiting], at: usize) -> Option<CallId> {
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

/// Returns the result of a call of which nothing is known.
fn interrupted(call: CallId) -> ConversationMessage {
    let mut message = ConversationMessage::new(Role::Tool);
    message.content.push(MessagePart::text(INTERRUPTED));
    message.tool_call_id = Some(call);
    message.is_error = true;
    message
}

//! Converts events of `GET /api/event`.

use serde_json::value::RawValue;
use threadfold_core::{
    ConversationId, Json, Payload, PermissionRequested, PermissionResolved, RemoveReason,
};

use super::assistant::{StepEvent, convert_delta};
use super::blocks;
use super::calls::{CallOutcome, TypedCommand};
use super::messages::{self, Compaction, convert_prompt, show, switch_words};
use super::sessions;
use super::stored::show_waiting;
use super::wire::{Delta, EventData, EventHead, Form, Location, Model, Prompt, Shell, Time};
use crate::opencode::emitter::Emitter;
use crate::opencode::memory::{OpenMessage, WaitingItem};
use crate::opencode::messages::emit_usage;
use crate::opencode::queries;

/// Converts one event. Returns nothing if it is not an event of version 2, and otherwise whether it
/// is understood.
pub(in crate::opencode) fn convert(
    emitter: &mut Emitter<'_>,
    kind: &str,
    head: &EventHead<'_>,
    data: &RawValue,
) -> Option<bool> {
    // Most events are deltas; they have a smaller type of their own.
    if let "session.text.delta" | "session.reasoning.delta" = kind {
        let delta: Delta<'_> = serde_json::from_str(data.get()).ok()?;
        let kind = if kind == "session.text.delta" { "text" } else { "reasoning" };
        convert_delta(emitter, kind, &delta);
        return Some(true);
    }
    if !is_event(kind) {
        return None;
    }
    let data: EventData<'_> = serde_json::from_str(data.get()).ok()?;
    if data.info.is_some() || (kind == "permission.asked" && data.action.is_none()) {
        return None;
    }
    if kind == "form.created" {
        return Some(convert_form(emitter, &data).is_some());
    }
    let Some(session) = data.session.as_deref() else { return Some(false) };
    if let ("session.created", Some(parent)) = (kind, data.parent.as_deref()) {
        emitter.memory.parents.insert(session.into(), parent.into());
    }
    // Another session of the same server: known, and not ours.
    let Some(conversation) = emitter.conversation_of(session) else { return Some(true) };
    let event = Event { head, data: &data, session, conversation };
    event.convert(emitter, kind);
    Some(true)
}

/// Returns whether version 2 has events of this type.
fn is_event(kind: &str) -> bool {
    let Some(rest) = kind.strip_prefix("session.") else {
        return matches!(
            kind,
            "permission.asked"
                | "permission.replied"
                | "form.created"
                | "form.replied"
                | "form.cancelled"
        );
    };
    let (family, _) = rest.split_once('.').unwrap_or((rest, ""));
    match family {
        "text" | "reasoning" => {
            matches!(rest, "text.started" | "text.ended" | "reasoning.started" | "reasoning.ended")
        }
        "tool" => matches!(
            rest,
            "tool.input.started"
                | "tool.input.delta"
                | "tool.input.ended"
                | "tool.called"
                | "tool.progress"
                | "tool.success"
                | "tool.failed"
        ),
        "step" => matches!(rest, "step.started" | "step.streamed" | "step.ended" | "step.failed"),
        "inbox" => matches!(
            rest,
            "inbox.enqueued" | "inbox.delivered" | "inbox.cancelled" | "inbox.delivery.changed"
        ),
        "execution" => matches!(
            rest,
            "execution.started"
                | "execution.succeeded"
                | "execution.failed"
                | "execution.interrupted"
        ),
        "compaction" => matches!(
            rest,
            "compaction.started" | "compaction.delta" | "compaction.ended" | "compaction.failed"
        ),
        "revert" => matches!(rest, "revert.staged" | "revert.cleared" | "revert.committed"),
        "shell" => matches!(rest, "shell.started" | "shell.ended"),
        _ => matches!(
            rest,
            "created"
                | "renamed"
                | "metadata.updated"
                | "agent.selected"
                | "model.selected"
                | "permissions"
                | "moved"
                | "viewed"
                | "deleted"
                | "archived"
                | "unarchived"
                | "forked"
                | "retry.scheduled"
                | "synthetic"
                | "skill.activated"
                | "instructions.updated"
                | "usage.updated"
                | "usage.recorded"
        ),
    }
}

/// An event of a session.
struct Event<'a> {
    head: &'a EventHead<'a>,
    data: &'a EventData<'a>,
    session: &'a str,
    conversation: ConversationId,
}

impl Event<'_> {
    fn convert(&self, emitter: &mut Emitter<'_>, kind: &str) {
        let rest = kind.strip_prefix("session.").unwrap_or(kind);
        if let "step" | "text" | "reasoning" | "tool" = rest.split('.').next().unwrap_or("") {
            return self.convert_step(emitter, rest);
        }
        match rest {
            "created" | "forked" | "renamed" | "moved" => self.convert_metadata(emitter, rest),
            "usage.updated" => {
                sessions::emit_metadata(emitter, &self.conversation, &[], self.data.cost);
            }
            "inbox.enqueued" => self.enqueue(emitter),
            "inbox.delivered" => self.deliver(emitter),
            "inbox.cancelled" => self.cancel(emitter),
            "execution.started" => queries::start(emitter, &self.conversation),
            "execution.succeeded" | "execution.failed" | "execution.interrupted" => {
                self.end_execution(emitter, rest);
            }
            "synthetic" | "agent.selected" | "model.selected" | "skill.activated" => {
                self.convert_own_message(emitter, rest);
            }
            "shell.started" | "shell.ended" => self.convert_shell(emitter),
            "compaction.started" | "compaction.ended" | "compaction.failed" => {
                self.convert_compaction(emitter, rest);
            }
            "revert.staged" => {
                let to = self.data.revert.as_ref().and_then(|it| it.message.as_deref());
                sessions::revert(emitter, self.session, &self.conversation, to);
            }
            "revert.cleared" => sessions::revert(emitter, self.session, &self.conversation, None),
            "revert.committed" => {
                if let Some(to) = self.data.to.as_deref() {
                    emitter.remove_since(&self.conversation, to);
                    sessions::revert(emitter, self.session, &self.conversation, None);
                }
            }
            "permission.asked" => self.ask(emitter),
            "permission.replied" | "form.replied" | "form.cancelled" => self.answer(emitter),
            // What is not part of the conversation, or is repeated by another event.
            _ => {}
        }
    }

    fn convert_step(&self, emitter: &mut Emitter<'_>, kind: &str) {
        let Some(step) = StepEvent::new(emitter, self.head, self.data, &self.conversation) else {
            return;
        };
        let content = self.data.content;
        match kind {
            "step.started" => step.start(emitter),
            "step.ended" | "step.failed" => step.end(emitter),
            "text.started" => step.start_text(emitter, "text"),
            "text.ended" => step.end_text(emitter, "text"),
            "reasoning.started" => step.start_text(emitter, "reasoning"),
            "reasoning.ended" => step.end_text(emitter, "reasoning"),
            "tool.input.started" => step.start_call(emitter),
            "tool.input.ended" => step.end_input(emitter),
            "tool.called" => step.begin_call(emitter),
            "tool.progress" => step.advance_call(emitter),
            "tool.success" => step.end_call(emitter, CallOutcome::Completed { content }),
            "tool.failed" => {
                step.end_call(emitter, CallOutcome::Failed { error: self.data.error, content });
            }
            // The model has finished, or a piece of an input that is repeated as a whole.
            _ => {}
        }
    }

    fn convert_metadata(&self, emitter: &mut Emitter<'_>, kind: &str) {
        let location: Option<Location<'_>> =
            self.data.location.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let texts = [
            ("title", self.data.title.as_deref()),
            ("cwd", location.as_ref().and_then(|it| it.directory.as_deref())),
            ("version", self.data.version.as_deref()),
        ];
        // The parent of a fork is the session that it copied, and not its caller.
        if kind != "forked" {
            sessions::emit_metadata(emitter, &self.conversation, &texts, None);
        }
    }

    fn enqueue(&self, emitter: &mut Emitter<'_>) {
        let (Some(id), Some(item)) = (self.data.inbox.as_deref(), &self.data.item) else { return };
        let (Some(kind), Some(payload)) = (item.kind.as_deref(), item.payload) else { return };
        let waiting = WaitingItem { kind: kind.into(), payload: payload.into() };
        emitter.side().inbox.insert(id.into(), waiting);
        if kind == "user" {
            let prompt: Prompt<'_> = serde_json::from_str(payload.get()).unwrap_or_default();
            show_waiting(emitter, &self.conversation, id, &prompt);
        }
    }

    /// Makes a message of what waited in the inbox.
    fn deliver(&self, emitter: &mut Emitter<'_>) {
        let Some(id) = self.data.inbox.as_deref() else { return };
        // A client that connected late has not received the prompt, but its place.
        let place = emitter.place(&self.conversation, id, self.head.seq());
        let Some(item) = emitter.side().inbox.remove(id) else { return };
        if !matches!(&*item.kind, "user" | "synthetic") {
            return;
        }
        let prompt: Prompt<'_> = serde_json::from_str(item.payload.as_str()).unwrap_or_default();
        convert_prompt(emitter, &place, &item.kind, &prompt, self.head.created());
    }

    fn cancel(&self, emitter: &mut Emitter<'_>) {
        let Some(id) = self.data.inbox.as_deref() else { return };
        if emitter.side().inbox.remove(id).is_some_and(|item| &*item.kind == "user") {
            emitter.emit_remove(&self.conversation, id.into(), RemoveReason::Deleted);
        }
    }

    fn end_execution(&self, emitter: &mut Emitter<'_>, kind: &str) {
        if let Some(message) = self.head.message() {
            emitter.place(&self.conversation, &message, self.head.seq());
        }
        let abandoned = emitter.side().open.take_conversation(&self.conversation);
        emitter.abandon_texts(abandoned);
        match kind {
            "execution.succeeded" => queries::complete(emitter, &self.conversation),
            _ => {
                let why = self.data.error.or(self.data.reason);
                queries::fail(emitter, &self.conversation, why);
            }
        }
        emitter.emit_idle(&self.conversation);
    }

    /// Converts an event that is a message: its id is that of the event.
    fn convert_own_message(&self, emitter: &mut Emitter<'_>, kind: &str) {
        let Some(id) = self.head.message() else { return };
        let place = emitter.place(&self.conversation, &id, self.head.seq());
        let created = self.head.created();
        let text = self.data.text.as_deref().unwrap_or("");
        let block = match kind {
            "synthetic" => {
                let prompt = Prompt {
                    text: self.data.text.clone(),
                    description: self.data.description.clone(),
                    metadata: self.data.metadata,
                    ..Prompt::default()
                };
                return convert_prompt(emitter, &place, kind, &prompt, created);
            }
            "agent.selected" => {
                let words = switch_words("agent", self.data.agent.as_deref());
                blocks::notice(&id, "switch", &words, created)
            }
            "model.selected" => {
                let model: Option<Model<'_>> =
                    self.data.model.and_then(|raw| serde_json::from_str(raw.get()).ok());
                let name = model.as_ref().and_then(|it| it.id.as_deref());
                blocks::notice(&id, "switch", &switch_words("model", name), created)
            }
            _ => messages::skill(&id, self.data.name.as_deref().unwrap_or(""), text, created),
        };
        show(emitter, &place, block);
    }

    /// Shows a command that a person typed. Its end does not name the message of its start.
    fn convert_shell(&self, emitter: &mut Emitter<'_>) {
        let shell: Option<Shell<'_>> =
            self.data.shell.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let Some(shell) = shell else { return };
        let Some(id) = shell.id.as_deref() else { return };
        let key = format!("shell:{id}");
        let status = shell.status.as_deref().unwrap_or("running");
        let mut time = Time { created: self.head.created(), ..Time::default() };
        let message = match emitter.side().begun.get(key.as_str()) {
            Some(begun) => {
                time.completed = time.created;
                time.created = begun.created;
                begun.id.clone()
            }
            None => {
                // A client that missed the start does not know the name of the message.
                let own = self.head.message().filter(|_| status == "running");
                let Some(message) = own else { return };
                let begun = OpenMessage { id: message.into(), created: time.created };
                emitter.side().begun.insert(key.as_str().into(), begun.clone());
                begun.id
            }
        };
        if status != "running" {
            emitter.side().begun.remove(key.as_str());
        }
        let place = emitter.place(&self.conversation, &message, self.head.seq());
        let typed = TypedCommand {
            shell: id,
            command: shell.command.as_deref().unwrap_or(""),
            status,
            exit: shell.exit,
            output: self.data.output,
            time,
        };
        typed.emit(emitter, &place);
    }

    /// Converts a compaction. Its end does not name the message of its start, but a session has one
    /// compaction at a time.
    fn convert_compaction(&self, emitter: &mut Emitter<'_>, kind: &str) {
        let key = format!("compaction:{}", self.session);
        let status = match kind {
            "compaction.ended" => "completed",
            "compaction.failed" => "failed",
            _ => "running",
        };
        let begun = emitter.side().begun.remove(key.as_str());
        let begun = match begun.filter(|_| status != "running") {
            Some(begun) => begun,
            None => {
                let given = self.data.input_id.as_deref().map(str::to_owned);
                // Only the start of a compaction can be its message; a client that missed it
                // does not know the message's name.
                let own = || self.head.message().filter(|_| status == "running");
                let Some(message) = given.or_else(own) else { return };
                OpenMessage { id: message.into(), created: self.head.created() }
            }
        };
        let (message, created) = (begun.id.clone(), begun.created);
        let place = emitter.place(&self.conversation, &message, self.head.seq());
        if status == "running" {
            emitter.side().begun.insert(key.as_str().into(), begun);
        }
        let (summary, error) = (self.data.text.as_deref(), self.data.error);
        Compaction { status, summary, error, created }.emit(emitter, &place);
        if let Some(tokens) = self.data.tokens {
            let model: Option<Model<'_>> =
                self.data.model.and_then(|raw| serde_json::from_str(raw.get()).ok());
            let model = model.as_ref().and_then(|it| it.id.as_deref());
            emit_usage(emitter, &self.conversation, &message, model, tokens);
        }
    }

    fn ask(&self, emitter: &mut Emitter<'_>) {
        let Some(id) = self.data.id.as_deref() else { return };
        let call = self.data.source.as_ref().and_then(|it| it.id.as_deref());
        let request = PermissionRequested {
            request_id: id.into(),
            tool_use_id: call.map(Into::into),
            question: self.data.action.as_deref().map(Json::string),
            options: self.data.resources.map(Json::from),
        };
        emitter.emit(&self.conversation, Payload::PermissionRequested(request));
    }

    fn answer(&self, emitter: &mut Emitter<'_>) {
        let Some(id) = self.data.request.as_deref().or(self.data.id.as_deref()) else { return };
        let answer = self.data.reply.or(self.data.answer).map(Json::from);
        let resolved = PermissionResolved { request_id: id.into(), answer };
        emitter.emit(&self.conversation, Payload::PermissionResolved(resolved));
    }
}

/// Converts a form: questions that a tool asks a person. It names its session itself.
fn convert_form(emitter: &mut Emitter<'_>, data: &EventData<'_>) -> Option<()> {
    let form: Form<'_> = serde_json::from_str(data.form?.get()).ok()?;
    let (id, session) = (form.id.as_deref()?, form.session.as_deref()?);
    let Some(conversation) = emitter.conversation_of(session) else { return Some(()) };
    let tool = form.metadata.as_ref().and_then(|it| it.tool.as_ref());
    let request = PermissionRequested {
        request_id: id.into(),
        tool_use_id: tool.and_then(|it| it.id.as_deref()).map(Into::into),
        question: form.fields.map(Json::from),
        options: None,
    };
    emitter.emit(&conversation, Payload::PermissionRequested(request));
    Some(())
}

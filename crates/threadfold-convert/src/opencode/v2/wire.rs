//! The JSON of OpenCode 2 as types: events of `GET /api/event`, and stored sessions and messages.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::borrowed::Str;

/// What an event has beside its type and its data.
#[derive(Debug, Default)]
pub(in crate::opencode) struct EventHead<'a> {
    pub(in crate::opencode) id: Option<&'a RawValue>,
    pub(in crate::opencode) created: Option<&'a RawValue>,
    pub(in crate::opencode) durable: Option<&'a RawValue>,
}

impl EventHead<'_> {
    /// Returns the id of the message that the event creates: its own, with another prefix.
    pub(super) fn message(&self) -> Option<String> {
        let id: Str<'_> = serde_json::from_str(self.id?.get()).ok()?;
        Some(format!("msg_{}", id.strip_prefix("evt_")?))
    }

    /// Returns when the event was created, in milliseconds.
    pub(super) fn created(&self) -> Option<f64> {
        serde_json::from_str(self.created?.get()).ok()
    }

    /// Returns the event's number in its session; only durable events have one.
    pub(super) fn seq(&self) -> Option<u64> {
        #[derive(Deserialize)]
        struct Durable {
            seq: u64,
        }
        let durable: Durable = serde_json::from_str(self.durable?.get()).ok()?;
        Some(durable.seq)
    }
}

/// The data of a delta. Most events are deltas.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::opencode) struct Delta<'a> {
    #[serde(borrow, rename = "assistantMessageID")]
    pub(super) message: Option<Str<'a>>,
    pub(super) ordinal: u64,
    #[serde(borrow)]
    pub(super) delta: Option<Str<'a>>,
}

/// The data of all other events, in one flat type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct EventData<'a> {
    #[serde(borrow, rename = "sessionID")]
    pub(super) session: Option<Str<'a>>,
    #[serde(borrow, rename = "assistantMessageID")]
    pub(super) message: Option<Str<'a>>,
    pub(super) ordinal: u64,
    /// A call, a question, a form or a skill.
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) description: Option<Str<'a>>,
    #[serde(borrow, alias = "native")]
    pub(super) state: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    pub(super) executed: bool,
    #[serde(borrow)]
    pub(super) model: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) agent: Option<Str<'a>>,
    pub(super) started: Option<f64>,
    #[serde(borrow)]
    pub(super) tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cost: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) title: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) location: Option<&'a RawValue>,
    #[serde(borrow, rename = "parentID")]
    pub(super) parent: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) version: Option<Str<'a>>,
    #[serde(borrow, rename = "inboxID")]
    pub(super) inbox: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) item: Option<InboxItem<'a>>,
    #[serde(borrow, rename = "inputID")]
    pub(super) input_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) shell: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) revert: Option<Revert<'a>>,
    #[serde(borrow)]
    pub(super) to: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) form: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) action: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) resources: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) source: Option<ToolReference<'a>>,
    #[serde(borrow, rename = "requestID")]
    pub(super) request: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) reply: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) answer: Option<&'a RawValue>,
    /// Why an execution was interrupted.
    #[serde(borrow)]
    pub(super) reason: Option<&'a RawValue>,
    /// An object of version 1, which has events of the same names.
    #[serde(borrow)]
    pub(super) info: Option<&'a RawValue>,
}

/// Something that waits in the inbox of a session.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InboxItem<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) payload: Option<&'a RawValue>,
}

/// The call that a question is about.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolReference<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
}

/// A form: questions to a person.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Form<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, rename = "sessionID")]
    pub(super) session: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) metadata: Option<FormMetadata<'a>>,
    #[serde(borrow)]
    pub(super) fields: Option<&'a RawValue>,
}

/// What asked the questions of a form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FormMetadata<'a> {
    #[serde(borrow)]
    pub(super) tool: Option<ToolReference<'a>>,
}

/// Where the revert of a session begins.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Revert<'a> {
    #[serde(borrow, rename = "messageID")]
    pub(super) message: Option<Str<'a>>,
}

/// A session, as the API, an export or a row of `session_v2` has it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Session<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, rename = "parentID", alias = "parent_id")]
    pub(super) parent: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) title: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) directory: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) location: Option<Location<'a>>,
    #[serde(borrow)]
    pub(super) version: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) cost: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) revert: Option<Revert<'a>>,
}

/// The working directory of a session.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Location<'a> {
    #[serde(borrow)]
    pub(super) directory: Option<Str<'a>>,
}

/// A stored message, of any type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    pub(super) time: Time,
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) description: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) agent: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Model<'a>>,
    #[serde(borrow)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) status: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) summary: Option<Str<'a>>,
    #[serde(borrow, rename = "shellID")]
    pub(super) shell: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) command: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) exit: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) location: Option<Location<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
}

/// Times, in milliseconds.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Time {
    pub(super) created: Option<f64>,
    pub(super) ran: Option<f64>,
    pub(super) completed: Option<f64>,
}

/// A model.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Model<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
}

/// A person's prompt: the payload in the inbox, or the stored message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Prompt<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) description: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) files: Option<Vec<Attachment<'a>>>,
    #[serde(borrow)]
    pub(super) agents: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) skills: Option<&'a RawValue>,
}

/// A file that was attached to a prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attachment<'a> {
    #[serde(borrow)]
    pub(super) data: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) mime: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
}

/// An item of an assistant's message: a text, a thought or a call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    pub(super) executed: bool,
    /// The state of a call, or what the provider needs of a text or thought.
    #[serde(borrow, alias = "native")]
    pub(super) state: Option<&'a RawValue>,
    pub(super) time: Time,
}

/// The state of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallState<'a> {
    #[serde(borrow)]
    pub(super) status: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
}

/// A shell that a person started, in events.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Shell<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) status: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) command: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) exit: Option<&'a RawValue>,
}

/// An error of a step, a call or a compaction.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Failure<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Str<'a>>,
}

/// The input of a call that starts a subagent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SubagentInput<'a> {
    #[serde(borrow)]
    pub(super) prompt: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) description: Option<Str<'a>>,
    #[serde(borrow, alias = "subagent_type")]
    pub(super) agent: Option<Str<'a>>,
    pub(super) background: bool,
}

/// The metadata of a call that starts a subagent, or of the message that reports its end.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SubagentMetadata<'a> {
    /// Sessions that were copied from version 1 keep its spelling.
    #[serde(borrow, rename = "sessionID", alias = "sessionId")]
    pub(super) session: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) status: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) source: Option<Str<'a>>,
    #[serde(borrow, rename = "childID")]
    pub(super) child: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) state: Option<Str<'a>>,
}

/// A stored record: an export, an answer of the API, or a row.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StoredRecord<'a> {
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cursor: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) info: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) messages: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) table: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) row: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) deleted: Option<Row<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) time: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) location: Option<&'a RawValue>,
    #[serde(borrow, rename = "projectID")]
    pub(super) project: Option<&'a RawValue>,
    /// Parts and messages of version 1 name their session.
    #[serde(borrow, rename = "sessionID")]
    pub(super) session: Option<&'a RawValue>,
}

/// A row of `session_message` or `session_inbox`: its columns are not in its JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Row<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    pub(super) seq: Option<u64>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) payload: Option<&'a RawValue>,
}

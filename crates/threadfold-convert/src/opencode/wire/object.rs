//! Objects that events carry and the store keeps: sessions, messages and parts.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::borrowed::Str;

/// A stored object, in any of its forms.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::opencode) struct StoredObject<'a> {
    /// A row of the database, with its table.
    #[serde(borrow)]
    pub(in crate::opencode) table: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) row: Option<&'a RawValue>,
    /// The table of version 2 that has the session as well: this row is later than its copy.
    #[serde(borrow)]
    pub(in crate::opencode) after: Option<Str<'a>>,
    /// An export: the session, and its messages.
    #[serde(borrow)]
    pub(in crate::opencode) info: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(in crate::opencode) messages: Option<Vec<Exchange<'a>>>,
    #[serde(borrow)]
    pub(in crate::opencode) parts: Option<Vec<&'a RawValue>>,
    /// Fields that show what a file of the older storage is.
    #[serde(borrow)]
    pub(in crate::opencode) role: Option<Str<'a>>,
    #[serde(borrow, rename = "messageID")]
    pub(in crate::opencode) message_id: Option<Str<'a>>,
    #[serde(borrow, rename = "projectID")]
    pub(in crate::opencode) project_id: Option<Str<'a>>,
}

/// A message with its parts.
#[derive(Debug, Deserialize)]
pub(in crate::opencode) struct Exchange<'a> {
    #[serde(borrow)]
    pub(in crate::opencode) info: &'a RawValue,
    #[serde(borrow, default)]
    pub(in crate::opencode) parts: Vec<&'a RawValue>,
}

/// A session.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::opencode) struct SessionInfo<'a> {
    #[serde(borrow)]
    pub(in crate::opencode) id: Option<Str<'a>>,
    #[serde(borrow, rename = "parentID", alias = "parent_id")]
    pub(in crate::opencode) parent_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) title: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) directory: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) version: Option<Str<'a>>,
    pub(in crate::opencode) cost: Option<f64>,
    #[serde(borrow)]
    pub(in crate::opencode) revert: Option<Revert<'a>>,
}

/// The message that a session was reverted to.
#[derive(Debug, Deserialize)]
pub(in crate::opencode) struct Revert<'a> {
    #[serde(borrow, rename = "messageID")]
    pub(in crate::opencode) message_id: Option<Str<'a>>,
}

/// A message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::opencode) struct MessageInfo<'a> {
    #[serde(borrow)]
    pub(in crate::opencode) id: Option<Str<'a>>,
    #[serde(borrow, rename = "sessionID", alias = "session_id")]
    pub(in crate::opencode) session_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) role: Option<Str<'a>>,
    #[serde(borrow, rename = "modelID")]
    pub(in crate::opencode) model_id: Option<Str<'a>>,
    pub(in crate::opencode) time: Option<Time>,
    #[serde(borrow)]
    pub(in crate::opencode) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(in crate::opencode) tokens: Option<&'a RawValue>,
}

/// Times, in milliseconds.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(in crate::opencode) struct Time {
    pub(in crate::opencode) created: Option<f64>,
    pub(in crate::opencode) start: Option<f64>,
    pub(in crate::opencode) end: Option<f64>,
}

/// A part of a message, of any type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::opencode) struct Part<'a> {
    #[serde(borrow)]
    pub(in crate::opencode) id: Option<Str<'a>>,
    #[serde(borrow, rename = "sessionID", alias = "session_id")]
    pub(in crate::opencode) session_id: Option<Str<'a>>,
    #[serde(borrow, rename = "messageID", alias = "message_id")]
    pub(in crate::opencode) message_id: Option<Str<'a>>,
    #[serde(borrow, rename = "type")]
    pub(in crate::opencode) kind: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) text: Option<Str<'a>>,
    pub(in crate::opencode) synthetic: Option<bool>,
    pub(in crate::opencode) ignored: Option<bool>,
    pub(in crate::opencode) time: Option<Time>,
    #[serde(borrow)]
    pub(in crate::opencode) metadata: Option<&'a RawValue>,
    #[serde(borrow, rename = "callID")]
    pub(in crate::opencode) call_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) tool: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) state: Option<ToolState<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) mime: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) filename: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) url: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) files: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(in crate::opencode) tail_start_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) tokens: Option<&'a RawValue>,
}

/// The state of a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::opencode) struct ToolState<'a> {
    #[serde(borrow)]
    pub(in crate::opencode) status: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(in crate::opencode) output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(in crate::opencode) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(in crate::opencode) title: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(in crate::opencode) attachments: Option<&'a RawValue>,
    pub(in crate::opencode) time: Option<Time>,
}

/// The child session in the metadata of a task call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::opencode) struct TaskMetadata<'a> {
    #[serde(borrow, rename = "sessionId", alias = "sessionID")]
    pub(in crate::opencode) session_id: Option<Str<'a>>,
}

/// The input of a task call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::opencode) struct TaskInput<'a> {
    #[serde(borrow)]
    pub(in crate::opencode) prompt: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) description: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) subagent_type: Option<Str<'a>>,
    pub(in crate::opencode) background: bool,
}

/// The input of a call that changes a file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::opencode) struct FileInput<'a> {
    #[serde(borrow, rename = "filePath", alias = "path")]
    pub(in crate::opencode) path: Option<Str<'a>>,
}

/// The metadata of a call that changes files.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::opencode) struct FileMetadata<'a> {
    #[serde(borrow, rename = "filepath")]
    pub(in crate::opencode) file_path: Option<Str<'a>>,
    /// The file existed before it was written.
    pub(in crate::opencode) exists: Option<bool>,
    #[serde(borrow, rename = "filediff")]
    pub(in crate::opencode) diff: Option<FileDiff<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) files: Vec<FileDetail<'a>>,
}

/// The difference of an edited file; only some versions have the text before.
#[derive(Debug, Deserialize)]
pub(in crate::opencode) struct FileDiff<'a> {
    #[serde(borrow)]
    pub(in crate::opencode) before: Option<Str<'a>>,
}

/// One of the files that a patch changed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::opencode) struct FileDetail<'a> {
    #[serde(borrow, rename = "filePath", alias = "file")]
    pub(in crate::opencode) path: Option<Str<'a>>,
    #[serde(borrow, alias = "type")]
    pub(in crate::opencode) status: Option<Str<'a>>,
    #[serde(borrow, rename = "movePath")]
    pub(in crate::opencode) move_path: Option<Str<'a>>,
}

/// A row of a table of messages or parts.
#[derive(Debug, Deserialize)]
pub(in crate::opencode) struct Row<'a> {
    #[serde(borrow)]
    pub(in crate::opencode) id: Str<'a>,
    #[serde(borrow)]
    pub(in crate::opencode) session_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) message_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::opencode) data: Option<&'a RawValue>,
}

/// The token counts of a message, under OpenCode's names.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(in crate::opencode) struct Tokens {
    pub(in crate::opencode) input: f64,
    pub(in crate::opencode) output: f64,
    pub(in crate::opencode) cache: CachedTokens,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(in crate::opencode) struct CachedTokens {
    pub(in crate::opencode) read: f64,
    pub(in crate::opencode) write: f64,
}

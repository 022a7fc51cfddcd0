//! Turns of a loop of ours: what was sent, what was answered, and what became of each call.

mod message;
mod part;

pub use message::{ConversationMessage, Role, ToolCall};
pub use part::{MessagePart, MessagePartBody, NativePart, ThinkingPart};

//! The interface of a wire format over which scripts are played.

use serde_json::Value;

use super::{
    play::Piece,
    script::{Block, Step},
    select::Turn,
};

/// A provider's wire format.
pub(crate) trait Protocol {
    /// The prefix of message ids.
    fn message_prefix(&self) -> &'static str;

    /// The prefix of tool-call ids.
    fn tool_prefix(&self) -> &'static str;

    /// Returns the messages of a request, in order.
    fn turns(&self, request: &Value) -> Vec<Turn>;

    /// Returns the events of a streamed answer.
    fn pieces(&self, answer: &Answer<'_>) -> Vec<Piece>;

    /// Returns the body of an answer that is not streamed.
    fn body(&self, answer: &Answer<'_>) -> Value;

    /// Returns the body of an error response.
    fn refusal(&self, status: u16, message: &str) -> Value;

    /// Returns the event that reports an error in a stream.
    fn error_event(&self, status: u16) -> Vec<u8>;
}

/// A step with everything that is generated when it is played.
pub(crate) struct Answer<'a> {
    pub(crate) step: &'a Step,
    pub(crate) message_id: String,
    /// The model that the request named.
    pub(crate) model: &'a str,
    /// An id for each block; only those of tool calls are used.
    pub(crate) tool_ids: Vec<String>,
    /// The whole request, for protocol-specific fields.
    pub(crate) request: &'a Value,
}

impl Answer<'_> {
    /// Returns the blocks with their index and tool-call id.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (usize, &Block, &str)> {
        self.step
            .blocks()
            .iter()
            .zip(&self.tool_ids)
            .enumerate()
            .map(|(index, (block, id))| (index, block, id.as_str()))
    }
}

/// Returns the text of a message's content, which is a string or a list of parts.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter(|it| it["type"] == "text" || it["type"] == "input_text")
            .filter_map(|it| it["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}

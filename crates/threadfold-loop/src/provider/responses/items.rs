//! Converts the items of a response to message parts and calls, so that they can be returned
//! verbatim.
//!
//! Each item is one part: the index of an item in the response is its index in the message.

use threadfold_core::{ConversationMessage, Fields, Json, MessagePart, Role, ToolCall};

use crate::provider::failure::Failure;
use crate::provider::json::{list, read, string, text};
use crate::provider::openai::NATIVE;

/// Returns the message that consists of these items.
pub(super) fn message_of(items: &[Json]) -> Result<ConversationMessage, Failure> {
    let mut message = ConversationMessage::new(Role::Assistant);
    for item in items {
        let fields: Fields = read(item)?;
        let part = match &*string(&fields, "type") {
            "message" => MessagePart::text(&words(&fields)?).with_native(NATIVE, item.clone()),
            "function_call" => {
                message.tool_calls.push(call_of(&fields)?);
                MessagePart::native(NATIVE, item.clone())
            }
            _ => MessagePart::native(NATIVE, item.clone()),
        };
        message.content.push(part);
    }
    Ok(message)
}

fn words(message: &Fields) -> Result<String, Failure> {
    let mut words = String::new();
    for part in list(message, "content")? {
        let part: Fields = read(&part)?;
        words += &text(&part, "text")?;
        words += &text(&part, "refusal")?;
    }
    Ok(words)
}

fn call_of(item: &Fields) -> Result<ToolCall, Failure> {
    let (id, name) = (text(item, "call_id")?, text(item, "name")?);
    if id.is_empty() || name.is_empty() {
        return Err(Failure::malformed("a call has no id or no name"));
    }
    let arguments = text(item, "arguments")?;
    let arguments = if arguments.trim().is_empty() { "{}" } else { &*arguments };
    Ok(ToolCall::new(id, &name, arguments))
}

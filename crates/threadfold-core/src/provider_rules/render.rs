//! Renders messages for a provider: the same messages always give the same bytes.
//!
//! Native items are returned verbatim. What a provider would refuse in any case (an empty text,
//! thinking without a signature, another provider's items) is always omitted.

use serde::Serialize;

use crate::block::ImagePart;
use crate::json::Json;
use crate::turn::{ConversationMessage, MessagePart, MessagePartBody, NativePart, ToolCall};

use super::request::Item;
use super::surrogate;

mod anthropic;
mod chat;
mod dialect;
mod responses;

pub use anthropic::render_anthropic;
pub use chat::render_chat;
pub use dialect::Dialect;
pub use responses::render_responses;

/// Replaces empty tool output.
const NO_OUTPUT: &str = "(no output)";

/// Replaces an image where only text is allowed.
const UNSHOWN_IMAGE: &str = "(an image, which cannot be shown here)";

/// Returns an item of a request. Fields are written in declaration order.
fn item<T: Serialize>(value: &T) -> Json {
    Json::of(value)
}

/// A part in the form that every provider supports.
enum PlainPart<'a> {
    Text(String),
    Image(&'a ImagePart),
}

/// Returns the non-empty texts and images of a message.
fn plain_parts(message: &ConversationMessage) -> impl Iterator<Item = PlainPart<'_>> {
    message.content.iter().filter_map(plain)
}

/// Returns the native item that `provider` produced for this text, if it can be sent back.
fn own_form(part: &MessagePart, provider: &str) -> Option<Json> {
    matches!(plain(part), Some(PlainPart::Text(_)))
        .then(|| part.native_form(provider))
        .flatten()
        .filter(|item| !surrogate::has_lone(item.as_str()))
}

fn plain(part: &MessagePart) -> Option<PlainPart<'_>> {
    match &part.body {
        MessagePartBody::Text(body) => {
            let text = body.text.to_str().into_owned();
            (!text.trim().is_empty()).then_some(PlainPart::Text(text))
        }
        MessagePartBody::Image(body) => image_url(body).map(|_| PlainPart::Image(body)),
        MessagePartBody::Thinking(_) | MessagePartBody::Native(_) | MessagePartBody::Other(_) => {
            None
        }
    }
}

/// Returns an image's URL, or a data URL with its content.
fn image_url(image: &ImagePart) -> Option<String> {
    match (&image.data, &image.url) {
        (Some(data), _) => {
            let media_type = image.media_type.as_deref().unwrap_or("image/png");
            Some(format!("data:{media_type};base64,{data}"))
        }
        (None, Some(url)) => Some(url.to_string()),
        (None, None) => None,
    }
}

/// Returns the type and the call id of a native item.
fn kind_and_call(native: &NativePart, call: &str) -> (String, String) {
    let item = Item::read(native.item.raw());
    (item.string("type"), item.string(call))
}

/// Returns true if the message makes this call.
fn makes_call(message: &ConversationMessage, call: &str) -> bool {
    message.tool_calls.iter().any(|it| it.call_id.as_str() == call)
}

/// Returns the calls that no native item represents.
fn other_calls<'a>(
    message: &'a ConversationMessage,
    represented: &'a [String],
) -> impl Iterator<Item = &'a ToolCall> {
    message
        .tool_calls
        .iter()
        .filter(|call| !represented.iter().any(|it| it == call.call_id.as_str()))
}

/// Returns the text of an OpenAI message item.
pub(super) fn text_of(native: &NativePart) -> String {
    let parts = Item::read(native.item.raw()).items("content");
    parts.iter().map(|part| part.string("text")).collect()
}

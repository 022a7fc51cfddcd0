//! Messages as a provider wants them: the same messages give the same bytes.
//!
//! A provider's own items go back as they came. What a provider would refuse in any case (an
//! empty text, thinking without its mark, another provider's items) is left out, each time.

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

/// What stands for a tool's output that is empty.
const NO_OUTPUT: &str = "(no output)";

/// What stands for a picture where only words can.
const UNSHOWN_IMAGE: &str = "(an image, which cannot be shown here)";

/// An item of a request, with its fields in the order that they are written.
fn item<T: Serialize>(value: &T) -> Json {
    Json::of(value)
}

/// A part as far as every provider knows it.
enum Plain<'a> {
    Text(String),
    Image(&'a ImagePart),
}

/// Returns the words and pictures of a message that are there at all.
fn plain_parts(message: &ConversationMessage) -> impl Iterator<Item = Plain<'_>> {
    message.content.iter().filter_map(plain)
}

/// Returns the item in which `provider` said these words, if it can go back.
fn own_form(part: &MessagePart, provider: &str) -> Option<Json> {
    matches!(plain(part), Some(Plain::Text(_)))
        .then(|| part.form(provider))
        .flatten()
        .filter(|item| !surrogate::has_lone(item.as_str()))
}

fn plain(part: &MessagePart) -> Option<Plain<'_>> {
    match &part.body {
        MessagePartBody::Text(body) => {
            let text = body.text.to_str().into_owned();
            (!text.trim().is_empty()).then_some(Plain::Text(text))
        }
        MessagePartBody::Image(body) => image_url(body).map(|_| Plain::Image(body)),
        MessagePartBody::Thinking(_) | MessagePartBody::Native(_) | MessagePartBody::Other(_) => {
            None
        }
    }
}

/// Returns where a picture is: its address, or itself as one.
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

/// Returns the kind and the call of a provider's own item.
fn kind_and_call(native: &NativePart, call: &str) -> (String, String) {
    let item = Item::read(native.item.raw());
    (item.word("type"), item.word(call))
}

/// Says whether a message makes the call of this name.
fn makes_call(message: &ConversationMessage, call: &str) -> bool {
    message.tool_calls.iter().any(|it| it.call_id.as_str() == call)
}

/// Returns the calls that no item of the provider's own stood for.
fn other_calls<'a>(
    message: &'a ConversationMessage,
    told: &'a [String],
) -> impl Iterator<Item = &'a ToolCall> {
    message.tool_calls.iter().filter(|call| !told.iter().any(|it| it == call.call_id.as_str()))
}

/// Returns the words of a message as OpenAI spelt it.
pub(super) fn words_of(native: &NativePart) -> String {
    let parts = Item::read(native.item.raw()).items("content");
    parts.iter().map(|part| part.word("text")).collect()
}

//! Renders messages for OpenAI's Chat Completions API.

use std::iter;

use serde::Serialize;

use crate::json::Json;
use crate::turn::{ConversationMessage, MessagePartBody, Role, ToolCall};

use super::super::surrogate;
use super::{NO_OUTPUT, PlainPart, UNSHOWN_IMAGE, image_url, item, kind_and_call, plain_parts};

/// The provider name of native items from servers with a Chat Completions API.
const NATIVE: &str = "openai-chat";

#[derive(Serialize)]
struct Message<'a> {
    role: Role,
    content: Option<Content>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// Returns the `messages` list for OpenAI's Chat Completions API.
///
/// The API has no thinking, so it is omitted. An image in a tool's output is replaced by a
/// placeholder.
pub fn render_chat(messages: &[ConversationMessage]) -> Json {
    item(&items(messages))
}

/// Returns the items for messages that follow others.
pub(super) fn items(messages: &[ConversationMessage]) -> Vec<Json> {
    messages.iter().filter_map(render).map(|message| item(&message)).collect()
}

fn render(message: &ConversationMessage) -> Option<Message<'_>> {
    let empty =
        Message { role: message.role, content: None, tool_calls: Vec::new(), tool_call_id: None };
    match message.role {
        Role::Tool => Some(Message {
            content: Some(Content::Text(output(message))),
            tool_call_id: Some(message.tool_call_id.as_ref().map_or("", |it| it.as_str())),
            ..empty
        }),
        Role::Assistant => {
            let text = message.to_text();
            let content = (!text.trim().is_empty()).then_some(Content::Text(text));
            let calls = message.tool_calls.iter().map(|it| call(message, it));
            let rendered = Message { content, tool_calls: calls.collect(), ..empty };
            let has_content = rendered.content.is_some() || !rendered.tool_calls.is_empty();
            has_content.then_some(rendered)
        }
        Role::System | Role::User => {
            let content = content(message)?;
            Some(Message { content: Some(content), ..empty })
        }
    }
}

/// Returns a call: the server's native form if there is one, because it may have extra fields.
fn call(message: &ConversationMessage, call: &ToolCall) -> Json {
    let id = call.call_id.as_str();
    let natives = message.content.iter().filter_map(|part| match &part.body {
        MessagePartBody::Native(native) if &*native.provider == NATIVE => Some(native),
        _ => None,
    });
    let own = natives.into_iter().find(|native| kind_and_call(native, "id").1 == id);
    let own = own.map(|native| &native.item).filter(|it| !surrogate::has_lone(it.as_str()));
    let function = Function { name: &call.name, arguments: &call.arguments };
    own.cloned().unwrap_or_else(|| item(&Call { id, r#type: "function", function }))
}

/// Returns a tool's output, which the API allows only as text.
fn output(message: &ConversationMessage) -> String {
    let text = message.to_text();
    let images = plain_parts(message).filter(|part| matches!(part, PlainPart::Image(_))).count();
    let words = (!text.trim().is_empty()).then_some(&*text);
    let lines: Vec<_> = words.into_iter().chain(iter::repeat_n(UNSHOWN_IMAGE, images)).collect();
    if lines.is_empty() { NO_OUTPUT.to_owned() } else { lines.join("\n") }
}

fn content(message: &ConversationMessage) -> Option<Content> {
    let parts: Vec<_> = plain_parts(message).collect();
    if parts.is_empty() {
        return None;
    }
    if parts.iter().all(|part| matches!(part, PlainPart::Text(_))) {
        return Some(Content::Text(message.to_text()));
    }
    let parts = parts.into_iter().filter_map(|part| match part {
        PlainPart::Text(text) => Some(Part::Text { text }),
        PlainPart::Image(image) => {
            image_url(image).map(|url| Part::ImageUrl { image_url: ImageUrl { url } })
        }
    });
    Some(Content::Parts(parts.collect()))
}

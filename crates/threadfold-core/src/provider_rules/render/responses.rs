//! Renders messages for OpenAI's Responses API.

use serde::Serialize;

use crate::json::Json;
use crate::turn::{ConversationMessage, MessagePart, MessagePartBody, Role};

use super::super::request::Item as RawItem;
use super::{
    NO_OUTPUT, PlainPart, image_url, item, kind_and_call, makes_call, other_calls, own_form, plain,
    plain_parts, text_of,
};

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message { role: Role, content: Vec<Part> },
    FunctionCall { call_id: &'a str, name: &'a str, arguments: &'a str },
    FunctionCallOutput { call_id: &'a str, output: Output },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    InputText { text: String },
    InputImage { image_url: String },
    OutputText { text: String },
}

/// Returns the `input` list for OpenAI's Responses API, for a request that is not stored.
///
/// Reasoning that is not encrypted could only be returned by id, so it is omitted. The items
/// produced with it are then sent without their ids, because the API refuses those ids without the
/// reasoning.
pub fn render_responses(messages: &[ConversationMessage]) -> Json {
    item(&items(messages))
}

/// Returns the items for messages that follow others.
pub(super) fn items(messages: &[ConversationMessage]) -> Vec<Json> {
    let mut rendered = Vec::new();
    for message in messages {
        match message.role {
            Role::System | Role::User => rendered.extend(input(message)),
            Role::Assistant => rendered.extend(assistant(message)),
            Role::Tool => rendered.push(item(&Item::FunctionCallOutput {
                call_id: message.tool_call_id.as_ref().map_or("", |it| it.as_str()),
                output: output(message),
            })),
        }
    }
    rendered
}

fn input(message: &ConversationMessage) -> Option<Json> {
    let content = parts(message);
    (!content.is_empty()).then(|| item(&Item::Message { role: message.role, content }))
}

/// Returns a tool's output: a string, or a list if it contains images.
fn output(message: &ConversationMessage) -> Output {
    let parts = parts(message);
    if parts.iter().any(|part| matches!(part, Part::InputImage { .. })) {
        return Output::Parts(parts);
    }
    Output::Text(if parts.is_empty() { NO_OUTPUT.to_owned() } else { message.to_text() })
}

fn parts(message: &ConversationMessage) -> Vec<Part> {
    let parts = plain_parts(message).filter_map(|part| match part {
        PlainPart::Text(text) => Some(Part::InputText { text }),
        PlainPart::Image(image) => image_url(image).map(|image_url| Part::InputImage { image_url }),
    });
    parts.collect()
}

fn assistant(message: &ConversationMessage) -> Vec<Json> {
    let mut items = Vec::new();
    let mut represented = Vec::new();
    // The API refuses reasoning without a following item, so trailing reasoning is truncated below.
    let mut length = 0;
    let is_readable = message.content.iter().all(|part| !is_reasoning_by_id(part));
    for part in &message.content {
        match &part.body {
            MessagePartBody::Native(native) if &*native.provider == "openai" => {
                let (kind, call) = kind_and_call(native, "call_id");
                match &*kind {
                    "message" if !is_readable => {
                        items.extend(model_text(text_of(native)));
                    }
                    _ if !is_readable => continue,
                    "reasoning" => {
                        items.push(native.item.clone());
                        continue;
                    }
                    "function_call" if makes_call(message, &call) => {
                        represented.push(call);
                        items.push(native.item.clone());
                    }
                    "message"
                    | "web_search_call"
                    | "file_search_call"
                    | "code_interpreter_call"
                    | "image_generation_call"
                    | "mcp_list_tools"
                    | "mcp_call" => items.push(native.item.clone()),
                    _ => continue,
                }
            }
            _ => match plain(part) {
                Some(PlainPart::Text(text)) => {
                    let own = own_form(part, "openai").filter(|_| is_readable);
                    items.extend(own.or_else(|| model_text(text)));
                }
                Some(PlainPart::Image(_)) | None => continue,
            },
        }
        length = items.len();
    }
    for call in other_calls(message, &represented) {
        items.push(item(&Item::FunctionCall {
            call_id: call.call_id.as_str(),
            name: &call.name,
            arguments: &call.arguments,
        }));
        length = items.len();
    }
    items.truncate(length);
    items
}

/// Returns text from the model as an item without an id.
fn model_text(text: String) -> Option<Json> {
    if text.trim().is_empty() {
        return None;
    }
    let content = vec![Part::OutputText { text }];
    Some(item(&Item::Message { role: Role::Assistant, content }))
}

fn is_reasoning_by_id(part: &MessagePart) -> bool {
    let MessagePartBody::Native(native) = &part.body else { return false };
    let item = RawItem::read(native.item.raw());
    &*native.provider == "openai"
        && item.string("type") == "reasoning"
        && item.string("encrypted_content").is_empty()
}

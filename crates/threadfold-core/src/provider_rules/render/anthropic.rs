//! Renders messages for Anthropic's Messages API.

use std::borrow::Cow;

use serde::Serialize;

use crate::block::ImagePart;
use crate::json::Json;
use crate::turn::{ConversationMessage, MessagePartBody, NativePart, Role};

use super::super::surrogate::without_lone_surrogates;
use super::{
    NO_OUTPUT, PlainPart, item, kind_and_call, makes_call, other_calls, own_form, plain,
    plain_parts,
};

/// The user message inserted before a history that starts with the assistant.
const CONTINUED: &str = "(continued)";

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: String,
    },
    Image {
        source: Source<'a>,
    },
    Thinking {
        thinking: String,
        signature: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Json,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: Vec<Json>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

#[derive(Serialize)]
struct Message {
    role: &'static str,
    content: Vec<Json>,
}

/// Returns the `messages` list for Anthropic's Messages API.
///
/// A system message among the messages is sent as the user's. Arguments that are not a JSON object
/// are wrapped in one.
///
/// ```
/// use threadfold_core::{ConversationMessage, Role, render_anthropic};
///
/// let hello = ConversationMessage::text(Role::User, "Hello");
/// assert_eq!(
///     render_anthropic(&[hello]).as_str(),
///     r#"[{"role":"user","content":[{"type":"text","text":"Hello"}]}]"#
/// );
/// ```
pub fn render_anthropic(messages: &[ConversationMessage]) -> Json {
    let mut rendered = render(messages);
    // Whether a first message must be inserted depends only on the first message, so appending to a
    // history never changes what was rendered before.
    let is_prompt = |message: &ConversationMessage| match message.role {
        Role::System | Role::User => plain_parts(message).next().is_some(),
        Role::Assistant => false,
        Role::Tool => true,
    };
    if messages.first().is_some_and(|first| !is_prompt(first)) {
        rendered.insert(0, Message { role: "user", content: vec![text(CONTINUED)] });
    }
    item(&rendered)
}

/// Returns the items for messages that follow others.
pub(super) fn items(messages: &[ConversationMessage]) -> Vec<Json> {
    render(messages).iter().map(item).collect()
}

fn render(messages: &[ConversationMessage]) -> Vec<Message> {
    let mut rendered: Vec<Message> = Vec::new();
    let mut last = None;
    for message in messages {
        let (role, content) = match message.role {
            Role::System | Role::User => ("user", user(message)),
            Role::Assistant => ("assistant", assistant(message)),
            Role::Tool => ("user", vec![result(message)]),
        };
        if content.is_empty() {
            continue;
        }
        // The API requires all results of one answer in one message.
        match rendered.last_mut() {
            Some(results) if last == Some(Role::Tool) && message.role == Role::Tool => {
                results.content.extend(content);
            }
            _ => rendered.push(Message { role, content }),
        }
        last = Some(message.role);
    }
    rendered
}

fn text(text: &str) -> Json {
    item(&Block::Text { text: text.to_owned() })
}

fn plain_block(part: PlainPart<'_>) -> Option<Json> {
    match part {
        PlainPart::Text(words) => Some(text(&words)),
        PlainPart::Image(part) => image(part),
    }
}

fn image(image: &ImagePart) -> Option<Json> {
    let media_type = image.media_type.as_deref().unwrap_or("image/png");
    let source = match (&image.data, &image.url) {
        (Some(data), _) => Source::Base64 { media_type, data },
        (None, Some(url)) => Source::Url { url },
        (None, None) => return None,
    };
    Some(item(&Block::Image { source }))
}

fn user(message: &ConversationMessage) -> Vec<Json> {
    plain_parts(message).filter_map(plain_block).collect()
}

fn result(message: &ConversationMessage) -> Json {
    let mut content = user(message);
    if content.is_empty() {
        content.push(text(NO_OUTPUT));
    }
    let tool_use_id = &*id(message.tool_call_id.as_ref().map_or("", |it| it.as_str()));
    item(&Block::ToolResult { tool_use_id, content, is_error: message.is_error })
}

fn assistant(message: &ConversationMessage) -> Vec<Json> {
    let mut blocks = Vec::new();
    let mut represented = Vec::new();
    // The API refuses a message that ends with thinking, so trailing thinking is truncated below.
    let mut length = 0;
    for part in &message.content {
        match &part.body {
            MessagePartBody::Thinking(body) => {
                let Some(signature) = body.signature.as_deref().filter(|it| !it.is_empty()) else {
                    continue;
                };
                let thinking = body.text.to_str().into_owned();
                blocks.push(item(&Block::Thinking { thinking, signature }));
                continue;
            }
            MessagePartBody::Native(native) if &*native.provider == "anthropic" => {
                match own(message, native, &mut represented) {
                    NativeRendering::Block => blocks.push(native.item.clone()),
                    NativeRendering::Thinking => {
                        blocks.push(native.item.clone());
                        continue;
                    }
                    NativeRendering::Omitted => continue,
                }
            }
            _ => match plain(part) {
                Some(PlainPart::Text(words)) => {
                    blocks.push(own_form(part, "anthropic").unwrap_or_else(|| text(&words)));
                }
                Some(PlainPart::Image(_)) | None => continue,
            },
        }
        length = blocks.len();
    }
    for call in other_calls(message, &represented) {
        let (id, name) = (&*id(call.call_id.as_str()), &*call.name);
        blocks.push(item(&Block::ToolUse { id, name, input: input(&call.arguments) }));
        length = blocks.len();
    }
    blocks.truncate(length);
    blocks
}

/// How a native Anthropic item is rendered.
enum NativeRendering {
    Block,
    Thinking,
    Omitted,
}

fn own(
    message: &ConversationMessage,
    native: &NativePart,
    represented: &mut Vec<String>,
) -> NativeRendering {
    let (kind, call) = kind_and_call(native, "id");
    match &*kind {
        "thinking" | "redacted_thinking" => NativeRendering::Thinking,
        "tool_use" if makes_call(message, &call) => {
            represented.push(call);
            NativeRendering::Block
        }
        "tool_use" | "tool_result" | "text" | "" => NativeRendering::Omitted,
        _ => NativeRendering::Block,
    }
}

/// Returns a call id of letters, digits, `_` and `-`. Anthropic accepts no other characters, but
/// other providers use them. A changed id gets a hash suffix, so that two different ids stay
/// different.
fn id(call: &str) -> Cow<'_, str> {
    let is_fine = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    if call.chars().all(is_fine) {
        return Cow::Borrowed(call);
    }
    let plain: String =
        call.chars().take(48).map(|it| if is_fine(it) { it } else { '_' }).collect();
    let mark = blake3::hash(call.as_bytes()).to_hex();
    Cow::Owned(format!("{plain}-{}", &mark[..8]))
}

/// Returns the arguments as a JSON object.
fn input(arguments: &str) -> Json {
    let valid = without_lone_surrogates(arguments);
    match Json::parse(&valid) {
        Ok(json) if json.as_str().starts_with('{') => json,
        _ if arguments.trim().is_empty() => item(&serde_json::Map::new()),
        _ => {
            #[derive(Serialize)]
            struct ResultWrapper<'a> {
                arguments: &'a str,
            }
            item(&ResultWrapper { arguments })
        }
    }
}

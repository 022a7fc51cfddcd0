//! Converts the result of an MCP tool to message parts.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;
use threadfold_core::{ImagePart, MessagePart, MessagePartBody};

use crate::builtin::{is_shown_image, shorten};
use crate::tool::ToolOutput;

/// The maximum size of a text.
const TEXT: usize = 256 * 1024;

/// Returns the output for the model.
pub(super) fn output(result: CallToolResult) -> ToolOutput {
    let mut content: Vec<MessagePart> = result.content.iter().map(part).collect();
    if let Some(value) = &result.structured_content
        && !result.content.iter().any(|it| contains_value(it, value))
    {
        content.push(text(&value.to_string()));
    }
    ToolOutput { content, is_error: result.is_error.unwrap_or(false) }
}

/// Returns the output for a result with unknown content types; `None` if it is not a result at all.
pub(super) fn output_of_unknown(result: &Value) -> Option<ToolOutput> {
    let content = result.get("content")?.as_array()?.iter().map(|it| {
        let known = serde_json::from_value::<ContentBlock>(it.clone());
        known.map_or_else(|_| text(&it.to_string()), |it| part(&it))
    });
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    Some(ToolOutput { content: content.collect(), is_error })
}

/// Returns true if a text equals the structured value. Servers usually send both.
fn contains_value(content: &ContentBlock, value: &Value) -> bool {
    let text = content.as_text().map(|it| it.text.as_str());
    text.is_some_and(|it| serde_json::from_str::<Value>(it).is_ok_and(|it| it == *value))
}

fn part(content: &ContentBlock) -> MessagePart {
    match content {
        ContentBlock::Text(it) => text(&it.text),
        ContentBlock::Image(it) => image(&it.mime_type, &it.data, "an image"),
        ContentBlock::Audio(it) => not_shown("audio", &it.mime_type, &it.data),
        ContentBlock::ResourceLink(it) => {
            let kind = it.mime_type.as_deref().unwrap_or("unknown type");
            text(&format!("[resource `{}`: {} ({kind})]", it.name, it.uri))
        }
        ContentBlock::Resource(it) => match &it.resource {
            ResourceContents::TextResourceContents { uri, text: content, .. } => {
                text(&format!("[resource {uri}]\n{content}"))
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let media_type = mime_type.as_deref().unwrap_or("application/octet-stream");
                image(media_type, blob, &format!("resource {uri}"))
            }
            other => text(&serde_json::to_string(other).unwrap_or_default()),
        },
        other => text(&serde_json::to_string(other).unwrap_or_default()),
    }
}

/// Returns an image if all providers accept it: one that they refuse would make the whole
/// conversation unusable.
fn image(media_type: &str, data: &str, what: &str) -> MessagePart {
    if !is_shown_image(media_type, data) {
        return not_shown(what, media_type, data);
    }
    let (media_type, data) = (Some(media_type.into()), Some(data.into()));
    MessagePart::from(MessagePartBody::Image(ImagePart { media_type, data, url: None }))
}

fn not_shown(what: &str, media_type: &str, data: &str) -> MessagePart {
    text(&format!("[{what} ({media_type}), {} bytes in base64, is not shown]", data.len()))
}

fn text(text: &str) -> MessagePart {
    MessagePart::text(&shorten(text, TEXT))
}

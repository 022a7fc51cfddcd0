//! Truncates tool output, when it is recorded and when a request would become too large.
//!
//! A provider refuses an oversized request, and would refuse it again on every resume. No tool
//! output, alone or together with others, may therefore make a request too large.

use threadfold_core::{CallId, ConversationMessage, Json, MessagePart, MessagePartBody, Role};

use crate::limits::Limits;
use crate::tool::ToolOutput;

/// The estimated overhead of a part besides its text.
const PART: usize = 32;
/// Smaller parts are not omitted, because the placeholder would be about as large.
const SMALL: usize = 512;

/// An output that was omitted from a request.
pub(super) struct Omission {
    /// The call that produced it.
    pub(super) call: Option<CallId>,
    /// Its size.
    pub(super) bytes: usize,
}

/// Truncates a tool's output. All text shares one limit, and all images another.
pub(super) fn truncate_output(output: ToolOutput, limits: &Limits) -> ToolOutput {
    let mut images = limits.images;
    let mut words = limits.output;
    let mut content = Vec::new();
    let (mut parts, mut bytes) = (0_usize, 0);
    for mut part in output.content {
        let size = size(&part);
        if let MessagePartBody::Image(_) = part.body {
            if size <= images {
                images -= size;
                content.push(part);
                continue;
            }
            let limit = limits.images;
            part = MessagePart::text(&format!(
                "[a picture of {size} bytes was omitted: of one output, {limit} bytes of \
                 pictures are kept]"
            ));
        }
        if words == 0 {
            (parts, bytes) = (parts + 1, bytes + size);
            continue;
        }
        let part = fitted(part, words);
        words = words.saturating_sub(self::size(&part) + PART);
        content.push(part);
    }
    if parts > 0 {
        let text = format!("[… {parts} more parts with {bytes} bytes omitted …]");
        content.push(MessagePart::text(&text));
    }
    ToolOutput { content, ..output }
}

fn fitted(part: MessagePart, limit: usize) -> MessagePart {
    let size = size(&part);
    match part.to_text() {
        _ if size <= limit => part,
        Some(text) => MessagePart::text(&truncate_text(&text, limit)),
        None => MessagePart::text(&format!("[a part of {size} bytes was omitted]")),
    }
}

/// Returns the text, truncated in the middle if it exceeds the limit.
pub(super) fn truncate_text(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let head = floor(text, limit / 2);
    let tail = ceil(text, text.len() - limit / 2);
    let omitted = tail - head;
    format!("{}\n… {omitted} bytes omitted …\n{}", &text[..head], &text[tail..])
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Omits at least `excess` bytes of tool output, the largest parts first.
pub(super) fn omit_largest(messages: &mut [ConversationMessage], excess: usize) -> Vec<Omission> {
    let mut parts: Vec<_> = messages
        .iter_mut()
        .filter(|message| message.role == Role::Tool)
        .flat_map(|message| {
            let call = message.tool_call_id.clone();
            message.content.iter_mut().map(move |part| (size(part), call.clone(), part))
        })
        .filter(|(size, ..)| *size > SMALL)
        .collect();
    parts.sort_by_key(|(size, ..)| std::cmp::Reverse(*size));
    let mut gone = 0;
    let mut omitted = Vec::new();
    for (bytes, call, part) in parts {
        if gone >= excess {
            break;
        }
        *part = MessagePart::text(&format!(
            "[{bytes} bytes were omitted: the request would have become too large]"
        ));
        gone += bytes;
        omitted.push(Omission { call, bytes });
    }
    omitted
}

/// Returns the approximate size of a part in bytes.
fn size(part: &MessagePart) -> usize {
    match &part.body {
        MessagePartBody::Text(body) if part.extra.is_empty() => body.text.len(),
        _ => Json::of(part).as_str().len(),
    }
}

//! How much of what tools gave is kept, and how much of it a request has room for.
//!
//! A provider refuses a request that is too large, and would refuse it on every resume. So nothing
//! that a tool gives, by itself or together with others, may make one.

use threadfold_core::{CallId, ConversationMessage, Json, MessagePart, MessagePartBody, Role};

use crate::limits::Limits;
use crate::tool::ToolOutput;

/// What a part takes beside its words.
const PART: usize = 32;
/// What is not worth leaving out of a request: the words that say so take as much.
const SMALL: usize = 512;

/// Something that a request had no room for.
pub(super) struct LeftOut {
    /// The call that gave it.
    pub(super) call: Option<CallId>,
    /// How much it was.
    pub(super) bytes: usize,
}

/// Returns as much of an output as is kept: all its words share one limit, and all its pictures
/// another.
pub(super) fn cut_short(output: ToolOutput, limits: &Limits) -> ToolOutput {
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
                "[a picture of {size} bytes was left out: of one output, {limit} bytes of \
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
        let text = format!("[… {parts} more parts with {bytes} bytes left out …]");
        content.push(MessagePart::text(&text));
    }
    ToolOutput { content, ..output }
}

fn fitted(part: MessagePart, limit: usize) -> MessagePart {
    let size = size(&part);
    match part.to_text() {
        _ if size <= limit => part,
        Some(text) => MessagePart::text(&cut_text(&text, limit)),
        None => MessagePart::text(&format!("[a part of {size} bytes was left out]")),
    }
}

/// Returns a text, or its beginning and its end if it is longer than may be kept.
pub(super) fn cut_text(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let head = floor(text, limit / 2);
    let tail = ceil(text, text.len() - limit / 2);
    let left_out = tail - head;
    format!("{}\n… {left_out} bytes left out …\n{}", &text[..head], &text[tail..])
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

/// Takes at least `excess` bytes out of what tools gave, the largest first, and says what.
pub(super) fn leave_out(messages: &mut [ConversationMessage], excess: usize) -> Vec<LeftOut> {
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
    let mut left_out = Vec::new();
    for (bytes, call, part) in parts {
        if gone >= excess {
            break;
        }
        *part = MessagePart::text(&format!(
            "[{bytes} bytes were left out: the request would have become too large]"
        ));
        gone += bytes;
        left_out.push(LeftOut { call, bytes });
    }
    left_out
}

/// Returns how many bytes a part takes, roughly.
fn size(part: &MessagePart) -> usize {
    match &part.body {
        MessagePartBody::Text(body) if part.extra.is_empty() => body.text.len(),
        _ => Json::of(part).as_str().len(),
    }
}

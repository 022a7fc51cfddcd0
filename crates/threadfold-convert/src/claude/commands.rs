//! Slash commands: their outputs, and the command that leaves the context.
//!
//! The stream reports an output as a message that no model gave, and the file as a line of the
//! harness. Both have the same `uuid`, so both become one block.

use threadfold_core::{Block, ContextChange, ContextChanged, Payload, SystemBlock};

use super::emitter::Emitter;
use super::wire::{Content, Line};

/// What the stream shows for a command without output.
const NOTHING: &str = "(no content)";

/// Returns the block of a streamed line that is the output of a command.
pub(super) fn streamed_output(emitter: &Emitter<'_>, line: &Line<'_>) -> Option<Block> {
    let message = line.message.as_ref()?;
    let is_output = emitter.is_stream
        && emitter.conversation.is_main()
        && message.model.as_deref() == Some("<synthetic>")
        && line.error.is_none()
        && !line.is_api_error_message;
    let text = match &message.content {
        Content::Text(text) => text,
        Content::Blocks(blocks) => match blocks.as_slice() {
            [only] => only.text.as_deref()?,
            _ => return None,
        },
        Content::None => return None,
    };
    let uuid = line.uuid.as_deref().filter(|_| is_output)?;
    Some(block(uuid, text))
}

/// Returns the block of a file's line that is the output of a command.
pub(super) fn stored_output(line: &Line<'_>, text: &str) -> Option<Block> {
    let inner =
        text.strip_prefix("<local-command-stdout>")?.strip_suffix("</local-command-stdout>")?;
    Some(block(line.uuid.as_deref()?, inner))
}

/// Emits that `/clear` left the context, if a file's line is that command.
///
/// It begins another session, whose file begins with it; alone that file has no context to leave.
pub(super) fn observe_clear(emitter: &mut Emitter<'_>, text: &str) {
    let is_command = text.starts_with("<command-") && !emitter.is_repeated;
    if is_command && text.contains("<command-name>/clear</command-name>") {
        emit_reset(emitter);
    }
}

/// Emits that `/clear` left the context, if a streamed line shows that.
///
/// Newer versions say so (`conversation_reset`); 2.1.160 names another session from its `init` on,
/// and the first message there is the output of the command, which is empty. A run that continues
/// a session under another id begins with a message of the model.
pub(super) fn observe_session(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let is_init = line.subtype.as_deref() == Some("init");
    let known = &mut emitter.memory.streamed_session;
    if let Some(session) = line.session_id.as_deref().filter(|_| is_init)
        && known.name.as_deref() != Some(session)
    {
        known.is_unexplained = known.name.is_some();
        known.name = Some(session.into());
        return;
    }
    let is_message = matches!(line.kind.as_deref(), Some("assistant" | "user" | "stream_event"));
    if is_message && std::mem::take(&mut known.is_unexplained) && is_empty_output(line) {
        emit_reset(emitter);
    }
}

fn is_empty_output(line: &Line<'_>) -> bool {
    let Some(message) = line.message.as_ref() else { return false };
    let is_nothing = match &message.content {
        Content::Text(text) => &**text == NOTHING,
        Content::Blocks(blocks) => {
            matches!(blocks.as_slice(), [only] if only.text.as_deref() == Some(NOTHING))
        }
        Content::None => false,
    };
    is_nothing && message.model.as_deref() == Some("<synthetic>")
}

/// Emits that the context was reset: the conversation starts again, without the blocks before.
pub(super) fn emit_reset(emitter: &mut Emitter<'_>) {
    emitter.emit(Payload::ContextChanged(ContextChanged {
        kind: ContextChange::Reset,
        head: None,
        summary: None,
        blocks: Vec::new(),
    }));
}

fn block(uuid: &str, text: &str) -> Block {
    // The stream trims the output; the file does not.
    let text = match text.trim() {
        "" => NOTHING,
        text => text,
    };
    Block::new(uuid, SystemBlock { subtype: "command".into(), message: Some(text.into()) })
}

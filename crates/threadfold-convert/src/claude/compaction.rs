//! Compactions: a summary replaces the earlier context, or single outputs leave it.

use threadfold_core::{Block, BlockId, ContextChange, ContextChanged, Payload, SystemBlock};

use super::emitter::Emitter;
use super::live::emit_notice;
use super::memory::key;
use super::wire::Line;

/// Emits the change of context, then the block that shows the boundary.
///
/// The change comes first, so that it does not mark the boundary itself as inactive.
pub(super) fn convert_boundary(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let first_preserved = line
        .compact_metadata
        .as_ref()
        .and_then(|metadata| metadata.preserved_segment.as_ref())
        .and_then(|segment| segment.head_uuid.as_deref());
    let head = first_preserved.and_then(|uuid| emitter.side().lines.get(&key(uuid))?.block.clone());
    emitter.emit(Payload::ContextChanged(ContextChanged {
        kind: ContextChange::Compaction,
        head,
        summary: None,
        blocks: Vec::new(),
    }));
    let id = line.uuid.as_deref().map_or_else(|| format!("line:{}", emitter.line), str::to_owned);
    let body = SystemBlock {
        subtype: "compaction".into(),
        message: Some("The context was compacted".into()),
    };
    emitter.emit_block(Block::new(id, body));
}

/// Emits that the listed outputs of tools left the context. Everything else stays in it.
pub(super) fn convert_microcompaction(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let metadata = line.microcompact_metadata.as_ref();
    let calls = metadata.map_or(&[][..], |it| &it.compacted_tool_ids);
    let names: Vec<String> =
        calls.iter().filter_map(|call| serde_json::from_str(call.get()).ok()).collect();
    if names.len() < calls.len() {
        emitter.report_loss("an output that left the context has no id that is a text");
    }
    let blocks: Vec<BlockId> = names.iter().map(|call| ["result:", call].concat().into()).collect();
    let words = match blocks.len() {
        1 => "1 tool output left the context".to_owned(),
        count => format!("{count} tool outputs left the context"),
    };
    emitter.emit(Payload::ContextChanged(ContextChanged {
        kind: ContextChange::Microcompaction,
        head: None,
        summary: None,
        blocks,
    }));
    emit_notice(emitter, line, "microcompaction", words);
}

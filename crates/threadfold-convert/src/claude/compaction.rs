//! Compactions: a summary stands for what went before.

use threadfold_core::{Block, ContextChange, ContextChanged, Payload, System};

use super::emitter::Emitter;
use super::memory::key;
use super::wire::Line;

/// Marks what went before, but for what was kept, and shows the boundary.
pub(super) fn boundary(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let kept = line
        .compact_metadata
        .as_ref()
        .and_then(|metadata| metadata.preserved_segment.as_ref())
        .and_then(|segment| segment.head_uuid.as_deref());
    let head = kept.and_then(|uuid| emitter.side().lines.get(&key(uuid))?.block.clone());
    emitter.emit(Payload::ContextChanged(ContextChanged {
        kind: ContextChange::Compaction,
        head,
        summary: None,
    }));
    let id = line.uuid.as_deref().map_or_else(|| format!("line:{}", emitter.line), str::to_owned);
    let body =
        System { subtype: "compaction".into(), message: Some("The context was compacted".into()) };
    emitter.emit_block(Block::new(id, body));
}

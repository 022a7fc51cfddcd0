//! Compactions: a summary replaces the earlier context.

use threadfold_core::{Block, ContextChange, ContextChanged, Payload, SystemBlock};

use super::emitter::Emitter;
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
    }));
    let id = line.uuid.as_deref().map_or_else(|| format!("line:{}", emitter.line), str::to_owned);
    let body = SystemBlock {
        subtype: "compaction".into(),
        message: Some("The context was compacted".into()),
    };
    emitter.emit_block(Block::new(id, body));
}

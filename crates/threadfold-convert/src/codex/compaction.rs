//! Compactions: a summary replaces what the model saw before.

use threadfold_core::{Block, BlockId, ContextChange, ContextChanged, Json, Payload, SystemBlock};

use super::emitter::Emitter;

/// Converts the record of a compaction, with the text that the model goes on with.
pub(super) fn convert_record(emitter: &mut Emitter<'_>, summary: Option<&str>) {
    emit(emitter, summary);
    emitter.thread().has_compaction_record = true;
}

/// Converts the item of a compaction, unless a record has reported it.
pub(super) fn convert_item(emitter: &mut Emitter<'_>) {
    if !std::mem::take(&mut emitter.thread().has_compaction_record) {
        emit(emitter, None);
    }
}

fn emit(emitter: &mut Emitter<'_>, summary: Option<&str>) {
    let id = emitter.thread().name("compaction", None);
    let mut block =
        Block::new(id.clone(), SystemBlock { subtype: "compaction".into(), message: None });
    if let Some(summary) = summary {
        block.metadata.insert("summary", Json::string(summary));
    }
    emitter.emit_block(block);
    emitter.emit(Payload::ContextChanged(ContextChanged {
        kind: ContextChange::Compaction,
        head: Some(id),
        summary: summary.map(Into::into),
        blocks: Vec::new(),
    }));
}

/// Emits that the thread went back to the end of a block: everything after it is off the path.
pub(super) fn emit_back(emitter: &mut Emitter<'_>, kind: ContextChange, head: Option<BlockId>) {
    emitter.emit(Payload::ContextChanged(ContextChanged {
        kind,
        head,
        summary: None,
        blocks: Vec::new(),
    }));
}

//! Files that patches changed, whichever view reports the patch.

use super::emitter::Emitter;
use super::wire::{Change, Item, ItemKind};
use crate::files::FileChange;

/// Emits the files that an item changed, if it is a patch that was applied.
pub(super) fn emit_of_item(emitter: &mut Emitter<'_>, call: &str, item: &Item<'_>) {
    let is_applied = item.kind == ItemKind::FileChange
        && item.text("status").is_none_or(|status| status == "completed")
        && item.get("success").is_none_or(|success| success.get() != "false");
    if is_applied {
        emit(emitter, call, &item.changes());
    }
}

/// Emits the files that a patch changed.
pub(super) fn emit(emitter: &mut Emitter<'_>, call: &str, changes: &[Change<'_>]) {
    for change in changes {
        match (&*change.kind, &change.moved_to) {
            ("add", _) => emitter.emit(FileChange::Created.payload(&change.path, call, None)),
            ("delete", _) => emitter.emit(FileChange::Deleted.payload(&change.path, call, None)),
            (_, Some(to)) => {
                emitter.emit(FileChange::Deleted.payload(&change.path, call, None));
                emitter.emit(FileChange::Created.payload(to, call, None));
            }
            (_, None) => emitter.emit(FileChange::Modified.payload(&change.path, call, None)),
        }
    }
}

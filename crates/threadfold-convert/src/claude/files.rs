//! Files that calls changed: what the structured results of the editing tools report.
//!
//! The tool is recognized by the form of its result, because results do not name their tool.

use super::emitter::Emitter;
use super::wire::{Content, FileResult, Line};
use crate::files::FileChange;

/// Emits the file that the call of a result line changed.
pub(super) fn emit_changed(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let Some(raw) = line.tool_use_result else { return };
    let Some(Content::Blocks(blocks)) = line.message.as_ref().map(|message| &message.content)
    else {
        return;
    };
    // The structured result does not name its call, so a line with several cannot be attributed.
    let mut results = blocks.iter().filter(|it| it.kind.as_deref() == Some("tool_result"));
    let (Some(result), None) = (results.next(), results.next()) else { return };
    let Some(call) = result.tool_use_id.as_deref() else { return };
    if result.is_error.unwrap_or(false) || !raw.get().starts_with('{') {
        return;
    }
    let Ok(changed) = serde_json::from_str::<FileResult<'_>>(raw.get()) else { return };
    if let Some((path, change)) = changed.file() {
        emitter.emit(change.payload(path, call, None));
    }
}

impl FileResult<'_> {
    /// Returns the file that the result is about, if the tool changed it.
    fn file(&self) -> Option<(&str, FileChange)> {
        if let Some(notebook) = self.notebook_path.as_deref() {
            let has_failed = self.error.as_deref().is_some_and(|it| !it.is_empty());
            return (!has_failed).then_some((notebook, FileChange::Modified));
        }
        let path = self.file_path.as_deref()?;
        // Tools that only look at a file report no difference.
        self.structured_patch?;
        let is_null = |raw: &&serde_json::value::RawValue| matches!(raw.get(), "null" | "\"\"");
        let was_absent = self.old_string.as_deref() == Some("")
            && self.original_file.as_ref().is_none_or(is_null);
        let is_new = self.kind.as_deref() == Some("create") || was_absent;
        Some((path, if is_new { FileChange::Created } else { FileChange::Modified }))
    }
}

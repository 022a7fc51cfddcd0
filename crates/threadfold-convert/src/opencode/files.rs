//! Files that calls of tools changed, in version 1 and 2.

use threadfold_core::{ConversationId, Json};

use super::emitter::Emitter;
use super::time::iso;
use super::wire::{FileDetail, FileInput, FileMetadata};
use crate::files::{FileChange, within};

/// A completed call of a tool that changes files.
pub(super) struct FileCall<'a> {
    pub(super) tool: &'a str,
    pub(super) call: &'a str,
    pub(super) input: Option<&'a str>,
    pub(super) metadata: Option<&'a str>,
    /// What the model was told.
    pub(super) output: Option<&'a str>,
    /// When the call ended, in milliseconds.
    pub(super) ended: Option<f64>,
}

impl FileCall<'_> {
    /// Emits the files that the call changed; nothing if its tool changes none.
    pub(super) fn emit(&self, emitter: &mut Emitter<'_>, conversation: &ConversationId) {
        if !matches!(self.tool, "write" | "edit" | "multiedit" | "patch" | "apply_patch") {
            return;
        }
        let input: FileInput<'_> = read(self.input).unwrap_or_default();
        let metadata: FileMetadata<'_> = read(self.metadata).unwrap_or_default();
        let ended = self.ended.and_then(iso);
        let folder = emitter.memory.folder.clone();
        let mut changes = Vec::new();
        match metadata.files.as_slice() {
            // The input has the whole path, and the list the path within the folder.
            [only] if input.path.is_some() => {
                let path = input.path.as_deref().unwrap_or_default().to_owned();
                changes.push((path, kind_of(only).unwrap_or(FileChange::Modified)));
            }
            [] => {
                let path = input.path.as_deref().or(metadata.file_path.as_deref());
                changes.extend(path.map(|path| (path.to_owned(), self.kind(&metadata))));
            }
            files => files.iter().for_each(|file| list(file, &mut changes)),
        }
        for (path, change) in changes {
            let path = within(folder.as_deref(), &path);
            emitter.emit(conversation, change.payload(&path, self.call, ended.clone()));
        }
    }

    /// Returns what a call for one file did to it.
    fn kind(&self, metadata: &FileMetadata<'_>) -> FileChange {
        let is_told = self.output.is_some_and(|it| it.contains("Created file successfully"));
        let was_empty = metadata.diff.as_ref().is_some_and(|it| it.before.as_deref() == Some(""));
        match self.tool {
            "write" if metadata.exists == Some(false) || is_told => FileChange::Created,
            "edit" if was_empty => FileChange::Created,
            _ => FileChange::Modified,
        }
    }
}

/// Adds what a patch did to one of its files.
fn list(file: &FileDetail<'_>, changes: &mut Vec<(String, FileChange)>) {
    let Some(path) = file.path.as_deref() else { return };
    match (kind_of(file), file.move_path.as_deref()) {
        (_, Some(to)) => {
            changes.push((path.to_owned(), FileChange::Deleted));
            changes.push((to.to_owned(), FileChange::Created));
        }
        (Some(kind), None) => changes.push((path.to_owned(), kind)),
        (None, None) => changes.push((path.to_owned(), FileChange::Modified)),
    }
}

fn kind_of(file: &FileDetail<'_>) -> Option<FileChange> {
    match file.status.as_deref()? {
        "add" | "added" => Some(FileChange::Created),
        "delete" | "deleted" => Some(FileChange::Deleted),
        _ => Some(FileChange::Modified),
    }
}

/// Remembers the folder of the session: paths of version 2 are relative to it.
pub(super) fn remember_folder(emitter: &mut Emitter<'_>, folder: &Json) {
    if let Some(folder) = folder.to_text() {
        emitter.memory.folder = Some(folder.into());
    }
}

fn read<'a, T: serde::Deserialize<'a>>(text: Option<&'a str>) -> Option<T> {
    serde_json::from_str(text?).ok()
}

//! Replaces a file's content atomically: a reader sees the old or the new content.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions, Permissions};
use threadfold_core::CallKey;

use super::call_mark;
use super::folder::{Folder, OpenError, explain, shown};
use crate::tool::ToolError;

/// Whether the file gets the mark of the call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Yes,
    No,
}

/// Replaces the content of the file at `path`.
///
/// The result is a new file under the old name, with the old one's mode; other hard links to the
/// old file keep the old content. A link to a file within the folder is followed. A failure before
/// the rename changes nothing.
pub(super) fn replace(
    folder: &Folder,
    path: &str,
    content: &[u8],
    key: &CallKey,
    mark: Mark,
) -> Result<(), ToolError> {
    let explained = |error: io::Error| explain(path, &error);
    let target = target(folder, path)?;
    let Some(name) = target.file_name() else {
        return Err(OpenError::Folder.explain(path));
    };
    let parent = parent(folder.dir(), &target).map_err(explained)?;
    let mode = mode(&parent, Path::new(name), path)?;

    let draft = draft_name(key);
    // What earlier calls did to the file stays known.
    let marks = parent.open(name).map(|file| call_mark::read(&file)).unwrap_or_default();
    let marks = (marks, (mark == Mark::Yes).then_some(key));
    let written = write_draft(&parent, &draft, content, mode, marks)
        .and_then(|()| parent.rename(&draft, &parent, name));
    if let Err(error) = written {
        parent.remove_file(&draft).ok();
        return Err(explained(error));
    }
    sync(&parent).map_err(|error| {
        ToolError::unknown(format!("`{}` was written but may not be durable: {error}", shown(path)))
    })
}

/// Follows the links at `path`, if it exists.
fn target(folder: &Folder, path: &str) -> Result<PathBuf, ToolError> {
    let relative = folder.relative(path)?;
    if path.ends_with('/') {
        return Err(OpenError::Folder.explain(path));
    }
    match folder.dir().canonicalize(&relative) {
        Ok(target) => Ok(target),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let link = folder.dir().symlink_metadata(&relative);
            if link.is_ok_and(|it| it.is_symlink()) {
                let name = shown(path);
                return Err(ToolError::failed(format!(
                    "`{name}` is a broken link; write to its target instead"
                )));
            }
            Ok(relative)
        }
        Err(error) => Err(explain(path, &error)),
    }
}

fn parent(dir: &Dir, target: &Path) -> io::Result<Dir> {
    match target.parent().filter(|it| !it.as_os_str().is_empty()) {
        Some(parent) => {
            dir.create_dir_all(parent)?;
            dir.open_dir(parent)
        }
        None => dir.try_clone(),
    }
}

/// Returns the mode of the existing file.
fn mode(parent: &Dir, name: &Path, path: &str) -> Result<Option<Permissions>, ToolError> {
    match parent.symlink_metadata(name) {
        Ok(found) if found.is_dir() => Err(OpenError::Folder.explain(path)),
        Ok(found) if !found.is_file() => Err(OpenError::Special.explain(path)),
        Ok(found) => Ok(Some(found.permissions())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(explain(path, &error)),
    }
}

/// Returns the temporary name of the new content. It is derived from the call, so that a retry
/// replaces what a killed attempt left behind.
fn draft_name(key: &CallKey) -> String {
    let hash = blake3::hash(key.as_str().as_bytes()).to_hex();
    format!(".threadfold-{}.tmp", &hash[..16])
}

fn write_draft(
    parent: &Dir,
    draft: &str,
    content: &[u8],
    mode: Option<Permissions>,
    (marks, key): (Vec<u8>, Option<&CallKey>),
) -> io::Result<()> {
    match parent.remove_file(draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Some(mode) = &mode {
        use cap_std::fs::{OpenOptionsExt, PermissionsExt};
        options.mode(mode.mode() & 0o777);
    }
    let mut file = parent.open_with(draft, &options)?;
    file.write_all(content)?;
    if let Some(mode) = mode {
        file.set_permissions(mode)?;
    }
    call_mark::set(&file, marks, key);
    file.sync_all()
}

#[cfg(unix)]
fn sync(dir: &Dir) -> io::Result<()> {
    dir.open(".")?.sync_all()
}

#[cfg(not(unix))]
fn sync(_: &Dir) -> io::Result<()> {
    Ok(())
}

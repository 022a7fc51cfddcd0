//! The folder that the file tools cannot leave.
//!
//! A path is never checked first and used later: the kernel resolves it beneath the folder's handle
//! in one step (`openat2` on Linux, a walk along handles elsewhere; `cap-std` does both). A link
//! that is swapped in between therefore makes no difference.

use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use super::clip::shorten;
use crate::tool::ToolError;

/// The maximum length of a path in bytes. No system supports longer ones.
const PATH: usize = 4_096;

/// A folder that tools work in and cannot leave.
///
/// Paths are relative to it, or absolute below its own path. A link that stays within the folder is
/// followed; one that leads out is refused, and so is every absolute link.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: Arc<Dir>,
    path: Arc<Path>,
    /// The path that it was opened with, which may contain links.
    named: Arc<Path>,
    changing: Arc<Mutex<()>>,
}

impl Folder {
    /// Opens the folder at `path`, which must exist.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let named = std::path::absolute(path.as_ref())?;
        let path = named.canonicalize()?;
        let dir = Dir::open_ambient_dir(&path, ambient_authority())?;
        let changing = Arc::default();
        Ok(Self { dir: Arc::new(dir), path: path.into(), named: named.into(), changing })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until no other call changes a file, so that what this call read is still true when it
    /// writes.
    pub(super) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns `path` relative to the folder. It may still lead anywhere: only paths resolved
    /// through [`dir`](Self::dir) stay within the folder.
    pub(super) fn relative(&self, path: &str) -> Result<PathBuf, ToolError> {
        if path.contains('\0') {
            return Err(ToolError::failed("a path cannot contain a NUL character"));
        }
        if path.len() > PATH {
            let length = path.len();
            return Err(ToolError::failed(format!(
                "a path of {length} bytes is too long; the maximum is {PATH}"
            )));
        }
        let given = Path::new(path);
        let inner = [&self.path, &self.named].iter().find_map(|it| given.strip_prefix(it).ok());
        let inner = inner.unwrap_or(given);
        if inner.has_root() || matches!(inner.components().next(), Some(Component::Prefix(_))) {
            return Err(out_of_folder(path));
        }
        let is_self = inner.as_os_str().is_empty();
        Ok(if is_self { PathBuf::from(".") } else { inner.to_owned() })
    }

    /// Opens a file for reading. Anything but a regular file is refused before it could block.
    pub(super) fn open_file(&self, path: &str) -> Result<(File, Metadata), ToolError> {
        let relative = self.relative(path)?;
        open_file_in(&self.dir, &relative).map_err(|it| it.explain(path))
    }
}

/// Why a file was not opened.
pub(super) enum OpenError {
    Io(io::Error),
    Folder,
    Special,
}

impl OpenError {
    pub(super) fn explain(self, path: &str) -> ToolError {
        let name = shown(path);
        match self {
            Self::Io(error) => explain(path, &error),
            Self::Folder => {
                ToolError::failed(format!("`{name}` is a folder; `list` shows what is in it"))
            }
            Self::Special => ToolError::failed(format!(
                "`{name}` is a pipe, a socket or a device, which these tools do not open"
            )),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Opens a regular file beneath `dir` for reading.
pub(super) fn open_file_in(dir: &Dir, path: &Path) -> Result<(File, Metadata), OpenError> {
    regular(&dir.metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // The file may have been replaced by a pipe since the check; opening that must not block.
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        use rustix::fs::OFlags;
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32);
    }
    let file = dir.open_with(path, &options)?;
    let metadata = file.metadata()?;
    regular(&metadata)?;
    Ok((file, metadata))
}

fn regular(metadata: &Metadata) -> Result<(), OpenError> {
    if metadata.is_dir() {
        Err(OpenError::Folder)
    } else if metadata.is_file() {
        Ok(())
    } else {
        Err(OpenError::Special)
    }
}

/// Explains an error about `path` to the model, with a hint.
pub(super) fn explain(path: &str, error: &io::Error) -> ToolError {
    let name = shown(path);
    let message = match error.kind() {
        // An error from the system has a number; the folder's own refusal has none.
        ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            return out_of_folder(path);
        }
        ErrorKind::NotFound => format!("`{name}` does not exist; `list` shows what does"),
        ErrorKind::PermissionDenied => format!("the system denies access to `{name}`"),
        ErrorKind::IsADirectory => format!("`{name}` is a folder"),
        ErrorKind::NotADirectory => format!("a part of the path `{name}` is a file, not a folder"),
        _ => format!("`{name}`: {error}"),
    };
    ToolError::failed(message)
}

fn out_of_folder(path: &str) -> ToolError {
    let name = shown(path);
    ToolError::failed(format!(
        "`{name}` is outside the folder; use a path within it, such as `src/main.rs`"
    ))
}

pub(super) fn shown(path: &str) -> String {
    shorten(&path.escape_debug().to_string(), 300)
}

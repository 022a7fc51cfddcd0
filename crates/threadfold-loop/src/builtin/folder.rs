//! The folder that the tools for files cannot leave.
//!
//! A path is never checked and then used: the kernel resolves it beneath the folder's handle, in
//! one step (`openat2` on Linux, a walk along handles elsewhere; `cap-std` does both). So it does
//! not matter what a link pointed to a moment ago.

use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use super::clip::shorten;
use crate::tool::ToolError;

/// The longest path that is taken, in bytes; no system has longer ones.
const PATH: usize = 4_096;

/// A folder that tools work in, and cannot leave.
///
/// Paths are taken as relative to it, and absolute ones if they begin with its own. A link that
/// stays within is followed; one that leads out is refused, and so is every absolute link.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: Arc<Dir>,
    path: Arc<Path>,
    /// As it was named, which may be by way of links.
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

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until no other call changes a file: what one of them read is still so when it writes.
    pub(super) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns `path` as one relative to the folder. It may still lead anywhere: only what is
    /// resolved through [`dir`](Self::dir) stays within.
    pub(super) fn relative(&self, path: &str) -> Result<PathBuf, ToolError> {
        if path.contains('\0') {
            return Err(ToolError::failed("a path cannot hold a NUL character; leave it out"));
        }
        if path.len() > PATH {
            let length = path.len();
            return Err(ToolError::failed(format!(
                "a path of {length} bytes is too long; the longest has {PATH}"
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

    /// Opens a file for reading. What is no file is refused before it could block.
    pub(super) fn open_file(&self, path: &str) -> Result<(File, Metadata), ToolError> {
        let relative = self.relative(path)?;
        open_file_in(&self.dir, &relative).map_err(|it| it.told(path))
    }
}

/// Why a file was not opened.
pub(super) enum NotOpened {
    Io(io::Error),
    Folder,
    Special,
}

impl NotOpened {
    pub(super) fn told(self, path: &str) -> ToolError {
        let name = shown(path);
        match self {
            Self::Io(error) => explain(path, &error),
            Self::Folder => {
                ToolError::failed(format!("`{name}` is a folder; `list` shows what is in it"))
            }
            Self::Special => ToolError::failed(format!(
                "`{name}` is neither a file nor a folder but a pipe, a socket or a device; \
                 these tools leave it alone"
            )),
        }
    }
}

impl From<io::Error> for NotOpened {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Opens a regular file beneath `dir` for reading.
pub(super) fn open_file_in(dir: &Dir, path: &Path) -> Result<(File, Metadata), NotOpened> {
    regular(&dir.metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // A pipe may have been put in the file's place since: opening it must not wait for a writer.
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

fn regular(metadata: &Metadata) -> Result<(), NotOpened> {
    if metadata.is_dir() {
        Err(NotOpened::Folder)
    } else if metadata.is_file() {
        Ok(())
    } else {
        Err(NotOpened::Special)
    }
}

/// Tells the model what became of `path`, and what to do.
pub(super) fn explain(path: &str, error: &io::Error) -> ToolError {
    let name = shown(path);
    let message = match error.kind() {
        // The system's own refusal has a number; that of the folder has none.
        ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            return out_of_folder(path);
        }
        ErrorKind::NotFound => format!("there is no `{name}`; `list` shows what is there"),
        ErrorKind::PermissionDenied => format!("the system does not allow it for `{name}`"),
        ErrorKind::IsADirectory => format!("`{name}` is a folder"),
        ErrorKind::NotADirectory => format!("a part of `{name}` is a file and no folder"),
        _ => format!("`{name}`: {error}"),
    };
    ToolError::failed(message)
}

fn out_of_folder(path: &str) -> ToolError {
    let name = shown(path);
    ToolError::failed(format!(
        "`{name}` leads out of the folder; give a path within it, such as `src/main.rs`"
    ))
}

pub(super) fn shown(path: &str) -> String {
    shorten(&path.escape_debug().to_string(), 300)
}

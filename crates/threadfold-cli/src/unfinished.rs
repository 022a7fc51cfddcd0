//! Files that are being written, and what killed processes left of them.
//!
//! A file is written under the name `NAME.PID.unfinished` beside its destination, and renamed when
//! it is complete. The destination can be in any folder, so the store has a list of such files: a
//! folder beside it, with one file per process. Whoever opens the store next removes what a process
//! listed that is gone.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::store::StoreLocation;

const ENDING: &str = ".unfinished";
/// The endings of the files that SQLite keeps beside a database while it writes it.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Returns the name of a file while it is being written; `number` distinguishes files of one
/// process.
pub(crate) fn unfinished_path(target: &Path, number: Option<usize>) -> PathBuf {
    let number = number.map_or(String::new(), |it| format!(".{it}"));
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".{}{number}{ENDING}", std::process::id()));
    PathBuf::from(name)
}

/// The list of the files that this process writes. Dropping it means that none is left.
pub(crate) struct UnfinishedFiles {
    /// The list; `None` if the store is not a file.
    list: Option<PathBuf>,
}

impl UnfinishedFiles {
    pub(crate) fn new(location: &StoreLocation) -> Self {
        let list = folder(location).map(|it| it.join(std::process::id().to_string()));
        Self { list }
    }

    /// Adds a file, before it is created.
    ///
    /// It is not an error if the list cannot be written, as beside a read-only store: the file is
    /// then left behind if the process is killed, and nothing else.
    pub(crate) fn add(&self, path: &Path) {
        self.try_add(path).ok();
    }

    fn try_add(&self, path: &Path) -> io::Result<()> {
        let Some(list) = &self.list else { return Ok(()) };
        if let Some(folder) = list.parent() {
            fs::create_dir_all(folder)?;
        }
        let path = std::path::absolute(path)?;
        let Some(text) = path.to_str().filter(|it| !it.contains('\n')) else { return Ok(()) };
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(list)?.write_all(format!("{text}\n").as_bytes())
    }
}

impl Drop for UnfinishedFiles {
    fn drop(&mut self) {
        if let Some(list) = &self.list {
            forget(list);
        }
    }
}

/// Removes a list, and the folder of lists if it was the last one.
fn forget(list: &Path) {
    if fs::remove_file(list).is_ok() {
        list.parent().map(fs::remove_dir);
    }
}

/// Removes the files that killed processes left unfinished.
pub(crate) fn remove_abandoned(location: &StoreLocation) {
    let Some(Ok(lists)) = folder(location).map(fs::read_dir) else { return };
    for list in lists.flatten() {
        let Some(process) = list.file_name().to_str().and_then(|it| it.parse::<u32>().ok()) else {
            continue;
        };
        if is_running(process) {
            continue;
        }
        let Ok(paths) = fs::read_to_string(list.path()) else { continue };
        let files = paths.lines().map(Path::new).filter(|it| is_of(it, process));
        // Every file is tried; one that cannot be removed stays listed.
        if files.filter(|it| !remove_with_companions(it)).count() == 0 {
            forget(&list.path());
        }
    }
}

fn folder(location: &StoreLocation) -> Option<PathBuf> {
    let mut name = location.file()?.as_os_str().to_owned();
    name.push("-unfinished");
    Some(PathBuf::from(name))
}

/// Returns whether a path has the name of an unfinished file of a process. Nothing else is removed,
/// whatever is listed.
fn is_of(path: &Path, process: u32) -> bool {
    let name = path.file_name().and_then(|it| it.to_str()).and_then(|it| it.strip_suffix(ENDING));
    let Some(name) = name else { return false };
    let ending = format!(".{process}");
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    let numbered = name.rsplit_once('.').filter(|(_, number)| is_number(number));
    path.is_absolute()
        && (name.ends_with(&ending) || numbered.is_some_and(|(it, _)| it.ends_with(&ending)))
}

/// Removes a file or a folder, and what SQLite left beside it; returns whether all of it is gone.
fn remove_with_companions(path: &Path) -> bool {
    let beside = BESIDE.map(|ending| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    });
    // The file goes last: a list that names it still leads to the others.
    let are_gone = beside.iter().filter(|it| !remove(it)).count() == 0;
    remove(path) && are_gone
}

/// Removes a file or a folder; returns whether it is gone.
fn remove(path: &Path) -> bool {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(found) if found.is_file() => fs::remove_file(path),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    removed.is_ok() || !path.exists()
}

#[cfg(unix)]
fn is_running(process: u32) -> bool {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    // An error other than this one means that it runs, but belongs to somebody else.
    process.is_some_and(|it| test_kill_process(it) != Err(Errno::SRCH))
}

#[cfg(not(unix))]
fn is_running(process: u32) -> bool {
    process != 0
}

//! The sessions that a person removed: they are not imported again by themselves.
//!
//! The agent's own files are still there, so whoever watches them would bring a removed session back
//! at once. The list is a file beside the store; each line is synced before the session is removed.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use threadfold_core::SessionId;

use crate::error::EngineError;

/// The sessions that were removed from a store.
#[derive(Debug)]
pub struct RemovedSessions {
    /// The file; none for a store that is not in one.
    path: Option<PathBuf>,
    ids: Mutex<BTreeSet<String>>,
}

impl RemovedSessions {
    /// Reads the list of the store in this file.
    pub fn open(store: &Path) -> Result<Self, EngineError> {
        let mut name = store.as_os_str().to_owned();
        name.push(".removed");
        let path = PathBuf::from(name);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(EngineError::File { path, source }),
        };
        // A line that was cut is of a session that was not removed.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut ids = BTreeSet::new();
        for line in whole.lines() {
            match serde_json::from_str::<(bool, String)>(line) {
                Ok((true, id)) => _ = ids.insert(id),
                Ok((false, id)) => _ = ids.remove(&id),
                Err(_) => {}
            }
        }
        Ok(Self { path: Some(path), ids: Mutex::new(ids) })
    }

    /// Returns a list that lasts as long as the process.
    pub fn in_memory() -> Self {
        Self { path: None, ids: Mutex::default() }
    }

    /// Returns whether a session was removed.
    pub fn contains(&self, id: &SessionId) -> bool {
        self.ids().contains(id.as_str())
    }

    /// Notes durably that a session is removed.
    pub fn add(&self, id: &SessionId) -> Result<(), EngineError> {
        self.note(true, id)
    }

    /// Forgets that a session was removed, because a person imports it again.
    pub fn forget(&self, id: &SessionId) -> Result<(), EngineError> {
        match self.contains(id) {
            true => self.note(false, id),
            false => Ok(()),
        }
    }

    fn note(&self, is_removed: bool, id: &SessionId) -> Result<(), EngineError> {
        let mut ids = self.ids();
        if let Some(path) = &self.path {
            let line = serde_json::to_string(&(is_removed, id.as_str()));
            let written = line.map_err(io::Error::from).and_then(|line| append(path, &line));
            let name = path.display().to_string();
            written.map_err(|source| EngineError::Output { name, source })?;
        }
        match is_removed {
            true => ids.insert(id.to_string()),
            false => ids.remove(id.as_str()),
        };
        Ok(())
    }

    fn ids(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends a line durably. A line before it that was cut is ended first.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file: File = options.open(path)?;
    let is_cut = !fs::read(path)?.ends_with(b"\n") && file.metadata()?.len() > 0;
    let start = if is_cut { "\n" } else { "" };
    file.write_all(format!("{start}{line}\n").as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_survives_a_restart_and_a_cut_line() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store.db");
        let (one, two): (SessionId, SessionId) = ("one".into(), "two\n".into());
        let removed = RemovedSessions::open(&store).unwrap();
        removed.add(&one).unwrap();
        removed.add(&two).unwrap();
        let again = RemovedSessions::open(&store).unwrap();
        assert!(again.contains(&one) && again.contains(&two));
        again.forget(&one).unwrap();
        let path = folder.path().join("store.db.removed");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}[true,\"thr")).unwrap();
        let again = RemovedSessions::open(&store).unwrap();
        assert!(!again.contains(&one) && again.contains(&two));
        again.add(&"four".into()).unwrap();
        let again = RemovedSessions::open(&store).unwrap();
        assert!(again.contains(&two) && again.contains(&"four".into()));
    }
}

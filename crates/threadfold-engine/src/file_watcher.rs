//! Reports changed files: by the platform's notifications, or by polling where there are none.
//!
//! Folders are watched one by one and never recursively by the platform: whoever lists a folder
//! watches it first, so a file that is created in between is reported.

mod file_systems;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify::event::{EventKind, ModifyKind};
use notify::{Config, Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// Beyond this number of changed paths, everything counts as changed.
const MAX_PATHS: usize = 4_096;

/// What may have changed since the last call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChanges {
    /// These paths, and nothing else. A path may be a folder, or not exist any more.
    Paths(BTreeSet<PathBuf>),
    /// Anything: the platform dropped notifications.
    Missed,
    /// Anything: the file system has no notifications, and the polling interval is over.
    Polled,
}

/// Waits for changes in a set of folders.
pub struct FileWatcher {
    /// `None` if the platform has no notifications.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    /// The watched folders as they were given, by their absolute paths, which the platform reports.
    given: BTreeMap<PathBuf, PathBuf>,
    pending: Arc<Pending>,
    interval: Duration,
    /// The folders that must be polled.
    polled: BTreeSet<PathBuf>,
}

/// Notifications that nobody has taken yet.
#[derive(Default)]
struct Pending {
    changes: Mutex<PendingChanges>,
    wake: Notify,
}

#[derive(Default)]
struct PendingChanges {
    paths: BTreeSet<PathBuf>,
    is_missed: bool,
}

impl FileWatcher {
    /// Returns a watcher of nothing; folders without notifications will be polled at `interval`.
    pub fn new(interval: Duration) -> Self {
        let pending = Arc::new(Pending::default());
        let receiver = pending.clone();
        let receive = move |event: notify::Result<Event>| receiver.receive(event);
        // A platform without notifications, or a process that has used up its share of them.
        let watcher = RecommendedWatcher::new(receive, Config::default()).ok();
        let (watched, given, polled) = Default::default();
        Self { watcher, watched, given, pending, interval, polled }
    }

    /// Watches exactly these folders, without the folders in them, and returns whether any is new.
    ///
    /// What a new folder holds must be listed after this call.
    pub fn watch(&mut self, folders: impl IntoIterator<Item = PathBuf>) -> bool {
        let wanted: BTreeSet<PathBuf> = folders.into_iter().collect();
        let gone: Vec<PathBuf> = self.watched.difference(&wanted).cloned().collect();
        gone.iter().for_each(|folder| self.forget(folder));
        let added: Vec<PathBuf> = wanted.difference(&self.watched).cloned().collect();
        for folder in &added {
            let absolute = absolute(folder);
            if !self.is_notified(&absolute) {
                self.polled.insert(folder.clone());
            }
            self.given.insert(absolute, folder.clone());
        }
        self.watched = wanted;
        !added.is_empty()
    }

    /// Asks the platform for notifications of a folder, and returns whether there will be any.
    fn is_notified(&mut self, folder: &Path) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        !file_systems::is_remote(folder)
            && watcher.watch(folder, RecursiveMode::NonRecursive).is_ok()
    }

    fn forget(&mut self, folder: &Path) {
        if self.watched.remove(folder) {
            let absolute = absolute(folder);
            self.polled.remove(folder);
            self.given.remove(&absolute);
            if let Some(watcher) = &mut self.watcher {
                // A folder that was removed is not watched any more.
                watcher.unwatch(&absolute).ok();
            }
        }
    }

    /// Returns a reported path as its folder was given.
    fn as_given(&self, path: &Path) -> PathBuf {
        let of_folder = || Some(self.given.get(path.parent()?)?.join(path.file_name()?));
        let given = self.given.get(path).cloned().or_else(of_folder);
        given.unwrap_or_else(|| path.to_owned())
    }

    /// Returns whether the platform does not notify of all folders, so that they are polled.
    pub fn is_polling(&self) -> bool {
        !self.polled.is_empty()
    }

    /// Waits until something may have changed. Dropping the future loses nothing.
    pub async fn changed(&self) {
        if self.pending.lock().is_empty() {
            tokio::select! {
                () = self.pending.wake.notified() => {}
                () = tokio::time::sleep(self.interval), if self.is_polling() => {}
            }
        }
    }

    /// Returns what may have changed since the last call. If it is a folder, or unknown, `watch`
    /// must be called again.
    pub fn take(&mut self) -> FileChanges {
        let pending = std::mem::take(&mut *self.pending.lock());
        let paths: BTreeSet<PathBuf> = pending.paths.iter().map(|it| self.as_given(it)).collect();
        // A folder that is reported itself may have been replaced by another one of the same name,
        // which the next call of `watch` then watches.
        paths.iter().for_each(|path| self.forget(path));
        match pending.is_missed {
            true => FileChanges::Missed,
            false if self.is_polling() => FileChanges::Polled,
            false => FileChanges::Paths(paths),
        }
    }
}

impl Pending {
    fn receive(&self, event: notify::Result<Event>) {
        let mut changes = self.lock();
        match event {
            Ok(event) if event.need_rescan() => changes.is_missed = true,
            Ok(event) if is_change(event.kind) => changes.paths.extend(event.paths),
            // Reading is no change; else what this process reads would wake it for ever.
            Ok(_) => return,
            Err(_) => changes.is_missed = true,
        }
        if changes.paths.len() > MAX_PATHS {
            changes.paths.clear();
            changes.is_missed = true;
        }
        drop(changes);
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, PendingChanges> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingChanges {
    fn is_empty(&self) -> bool {
        self.paths.is_empty() && !self.is_missed
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(_) => false,
        // Permissions decide whether a file can be read; access times do not.
        EventKind::Modify(ModifyKind::Metadata(kind)) => {
            kind != notify::event::MetadataKind::AccessTime
        }
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) => true,
        EventKind::Remove(_) | EventKind::Other => true,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    async fn next(watcher: &mut FileWatcher) -> FileChanges {
        watcher.changed().await;
        watcher.take()
    }

    #[tokio::test]
    async fn a_written_file_is_reported_and_a_read_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (read, written) = (folder.path().join("read"), folder.path().join("written"));
        fs::write(&read, "a").unwrap();
        let mut watcher = FileWatcher::new(LONG);
        assert!(watcher.watch([folder.path().to_owned()]));
        assert!(!watcher.watch([folder.path().to_owned()]), "it is watched already");
        fs::read(&read).unwrap();
        fs::write(&written, "b").unwrap();
        assert_eq!(next(&mut watcher).await, FileChanges::Paths([written].into()));
    }

    #[tokio::test]
    async fn a_folder_that_is_not_watched_any_more_reports_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|it| folder.path().join(it));
        fs::create_dir(&old).unwrap();
        fs::create_dir(&new).unwrap();
        let mut watcher = FileWatcher::new(LONG);
        watcher.watch([old.clone()]);
        watcher.watch([new.clone()]);
        fs::write(old.join("a"), "").unwrap();
        fs::write(new.join("a"), "").unwrap();
        assert_eq!(next(&mut watcher).await, FileChanges::Paths([new.join("a")].into()));
    }

    #[tokio::test]
    async fn a_folder_without_notifications_is_polled() {
        let mut watcher = FileWatcher::new(Duration::from_millis(1));
        watcher.watch([PathBuf::from("/does/not/exist")]);
        assert!(watcher.is_polling());
        assert_eq!(next(&mut watcher).await, FileChanges::Polled);
    }

    #[test]
    fn too_many_changed_paths_are_all_paths() {
        let mut watcher = FileWatcher::new(LONG);
        for number in 0..=MAX_PATHS {
            let event = Event::new(EventKind::Any).add_path(PathBuf::from(number.to_string()));
            watcher.pending.receive(Ok(event));
        }
        assert_eq!(watcher.take(), FileChanges::Missed);
        assert_eq!(watcher.take(), FileChanges::Paths(BTreeSet::new()));
    }
}

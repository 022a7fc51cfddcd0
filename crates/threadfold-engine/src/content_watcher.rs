//! Waits until the content of one session may have changed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::file_watcher::{FileChanges, FileWatcher};
use crate::found_session::{Follow, FoundSession, SessionContent};

/// Waits for changes of the files or of the database that a session is read from.
///
/// It must be created before the content is read for the first time, or what is written in between
/// is noticed only with the next change.
pub struct ContentWatcher {
    content: Arc<dyn SessionContent>,
    watcher: FileWatcher,
    interval: Duration,
    pause: Duration,
    /// When a change was last reported.
    reported: Option<Instant>,
    /// Whether the folders are too many to watch.
    is_polled: bool,
}

impl ContentWatcher {
    /// Watches what `follower` reads.
    pub fn new(found: &FoundSession, follower: &dyn Follow) -> Self {
        let (interval, pause) = (follower.interval(), follower.pause());
        let mut watcher = Self {
            content: found.content.clone(),
            watcher: FileWatcher::new(interval),
            interval,
            pause,
            reported: None,
            is_polled: false,
        };
        watcher.watch_folders();
        watcher
    }

    /// Waits until something may have changed. Dropping the future loses nothing.
    pub async fn changed(&mut self) -> FileChanges {
        if self.is_polled {
            tokio::time::sleep(self.interval).await;
            return FileChanges::Polled;
        }
        self.watcher.changed().await;
        if let Some(reported) = self.reported {
            tokio::time::sleep_until(reported + self.pause).await;
        }
        self.reported = Some(Instant::now());
        let changes = self.watcher.take();
        let is_file = |path: &PathBuf| path.is_file();
        if !matches!(&changes, FileChanges::Paths(paths) if paths.iter().all(is_file)) {
            self.watch_folders();
        }
        changes
    }

    /// Watches the folders that there are now. One may be created while others are listed.
    fn watch_folders(&mut self) {
        loop {
            let folders = self.content.folders();
            self.is_polled = folders.is_empty();
            if !self.watcher.watch(folders) {
                return;
            }
        }
    }
}

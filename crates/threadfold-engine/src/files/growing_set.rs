//! Follows the files of a session to which more may be added while it is read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::{FileFollower, InputFile, Intake};
use crate::error::EngineError;
use crate::file_watcher::FileChanges;
use crate::found_session::{Follow, SessionContent};
use crate::session::Session;

/// How often to look for new files where no notification names them; listing a folder of thousands
/// is slow.
const RELIST_EVERY: Duration = Duration::from_millis(500);

/// Follows all files of a session, those that appear late as well.
pub(crate) struct GrowingSetFollower {
    content: Arc<dyn SessionContent>,
    identity: fn(&InputFile) -> &Path,
    followers: Vec<FileFollower>,
    /// What identifies the files that are followed.
    known: BTreeSet<PathBuf>,
    listed: Option<Instant>,
    /// Notifications name the files that appear, so nothing has to be listed without one.
    is_notified: bool,
    /// Where the files are listed for the first time, if not by the content.
    first: Option<Arc<dyn SessionContent>>,
}

impl GrowingSetFollower {
    /// Returns a follower of the content's files, each of which is recognized in the next list by
    /// its `identity`: an agent may move a file while it is followed.
    pub(crate) fn new(content: Arc<dyn SessionContent>, identity: fn(&InputFile) -> &Path) -> Self {
        let (followers, known) = (Vec::new(), BTreeSet::new());
        Self { content, identity, followers, known, listed: None, is_notified: false, first: None }
    }

    /// Takes the first list of files from another content, which knows them already.
    pub(crate) fn first(self, content: Arc<dyn SessionContent>) -> Self {
        Self { first: Some(content), ..self }
    }

    fn list(&mut self) -> Result<(), EngineError> {
        self.listed = Some(Instant::now());
        let files = match self.first.take() {
            Some(first) => first.files()?,
            None => self.content.files()?,
        };
        for file in files {
            if self.known.insert((self.identity)(&file).to_owned()) {
                self.followers.push(FileFollower::new(file));
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Follow for GrowingSetFollower {
    async fn poll(
        &mut self,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError> {
        let is_over = |listed: Instant| !self.is_notified && listed.elapsed() >= RELIST_EVERY;
        if self.listed.is_none_or(is_over) {
            self.list()?;
        }
        let mut intake = Intake::default();
        for follower in &mut self.followers {
            intake.add(follower.poll(session, progress).await?);
        }
        Ok(intake)
    }

    fn notice(&mut self, changes: &FileChanges) {
        self.is_notified = *changes != FileChanges::Polled;
        let is_followed = |path: &PathBuf| self.followers.iter().any(|it| it.file.path == *path);
        let must_list = match changes {
            FileChanges::Paths(paths) => !paths.iter().all(is_followed),
            FileChanges::Missed => true,
            FileChanges::Polled => false,
        };
        if must_list {
            self.listed = None;
        }
    }

    async fn flush_unterminated(&mut self, session: &mut Session) -> Result<Intake, EngineError> {
        let mut intake = Intake::default();
        for follower in &mut self.followers {
            intake.add(follower.flush_unterminated(session).await?);
        }
        Ok(intake)
    }
}

//! Follows the files of a session to which more may be added while it is read.

use std::path::PathBuf;
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
    is_same: fn(&InputFile, &InputFile) -> bool,
    followers: Vec<FileFollower>,
    listed: Option<Instant>,
    /// Where the files are listed for the first time, if not by the content.
    first: Option<Arc<dyn SessionContent>>,
}

impl GrowingSetFollower {
    /// Returns a follower of the content's files, of which `is_same` recognizes each in the next
    /// list: an agent may move a file while it is followed.
    pub(crate) fn new(
        content: Arc<dyn SessionContent>,
        is_same: fn(&InputFile, &InputFile) -> bool,
    ) -> Self {
        Self { content, is_same, followers: Vec::new(), listed: None, first: None }
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
            if !self.followers.iter().any(|it| (self.is_same)(it.file(), &file)) {
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
        if self.listed.is_none_or(|listed| listed.elapsed() >= RELIST_EVERY) {
            self.list()?;
        }
        let mut intake = Intake::default();
        for follower in &mut self.followers {
            intake.add(follower.poll(session, progress).await?);
        }
        Ok(intake)
    }

    fn notice(&mut self, changes: &FileChanges) {
        let is_followed = |path: &PathBuf| self.followers.iter().any(|it| it.file().path == *path);
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

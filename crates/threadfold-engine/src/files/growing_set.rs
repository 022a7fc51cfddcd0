//! Follows the files of a session to which more may be added while it is read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::{FileFollower, InputFile, Intake};
use crate::error::EngineError;
use crate::found_session::{Follow, SessionContent};
use crate::session::Session;

/// How often to look for new files; listing a folder of thousands is slow.
const RELIST_EVERY: Duration = Duration::from_millis(500);

/// Follows all files of a session, those that appear late as well.
pub(crate) struct GrowingSetFollower {
    content: Arc<dyn SessionContent>,
    is_same: fn(&InputFile, &InputFile) -> bool,
    followers: Vec<FileFollower>,
    listed: Option<Instant>,
}

impl GrowingSetFollower {
    /// Returns a follower of the content's files, of which `is_same` recognizes each in the next
    /// list: an agent may move a file while it is followed.
    pub(crate) fn new(
        content: Arc<dyn SessionContent>,
        is_same: fn(&InputFile, &InputFile) -> bool,
    ) -> Self {
        Self { content, is_same, followers: Vec::new(), listed: None }
    }

    fn list(&mut self) -> Result<(), EngineError> {
        self.listed = Some(Instant::now());
        for file in self.content.files()? {
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

    async fn flush_unterminated(&mut self, session: &mut Session) -> Result<Intake, EngineError> {
        let mut intake = Intake::default();
        for follower in &mut self.followers {
            intake.add(follower.flush_unterminated(session).await?);
        }
        Ok(intake)
    }
}

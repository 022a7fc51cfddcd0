//! A discovered session: its id, its location, and how to read it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use threadfold_core::SessionId;
use threadfold_fold::{Agent, Glance, SessionName};

use crate::error::EngineError;
use crate::file_watcher::FileChanges;
use crate::files::{Form, InputFile, Intake, folder_of, stamp_of};
use crate::session::Session;

/// A session outside the store: in an agent's folder, in a file, or in a database.
#[derive(Clone)]
pub struct FoundSession {
    /// Its id.
    pub id: SessionId,
    /// Where the id comes from.
    pub naming: IdOrigin,
    /// Its agent; `None` for Threadfold's own events.
    pub agent: Option<Agent>,
    /// The project, as the agent spells it.
    pub project: String,
    /// Its main file, or the database or folder that contains it.
    pub place: PathBuf,
    /// Its parent session, if it is stored separately from it.
    pub parent: Option<SessionId>,
    /// Its content.
    pub content: Arc<dyn SessionContent>,
}

/// Where a session's id comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdOrigin {
    /// The agent assigned it: as a file's name, or in a field of its records.
    Agent,
    /// The agent assigned no id, so it is derived from the content. Sessions with the same
    /// beginning get the same id.
    Content,
}

impl IdOrigin {
    /// Returns an id that records contain, with its origin: the name of a part of a session is not
    /// unique.
    pub(crate) fn of(name: SessionName) -> (SessionId, Self) {
        let origin = if name.is_part { Self::Content } else { Self::Agent };
        (name.id, origin)
    }
}

/// The content of a session outside the store.
pub trait SessionContent: Send + Sync {
    /// Fails if it cannot be read, before anything is written to a store.
    fn check(&self) -> Result<(), EngineError>;

    /// Returns its files; none for rows of a database.
    fn files(&self) -> Result<Vec<InputFile>, EngineError>;

    /// Returns the files that it is read from, as they are on disk; for rows of a database, that
    /// database.
    fn origins(&self) -> Result<Vec<PathBuf>, EngineError> {
        Ok(self.files()?.into_iter().map(|it| it.path).collect())
    }

    /// Returns whether it consists of rows of a database, which has other sessions as well.
    fn is_in_database(&self) -> bool {
        false
    }

    /// Returns what changes whenever a row of it changes, if it is in a database and that can be
    /// known without reading the rows.
    fn row_stamp(&self) -> Option<String> {
        None
    }

    /// Returns its size and time, without reading it.
    fn stamp(&self) -> Stamp;

    /// Returns the folders whose direct entries are its files, or may become so; none if they are
    /// too many to watch.
    fn folders(&self) -> Vec<PathBuf> {
        let files = self.files().unwrap_or_default();
        files.iter().map(|it| folder_of(&it.path)).collect()
    }

    /// Returns the size and time of its files of lines, without the size if it is not known; nothing
    /// if it has none.
    fn line_stamp(&self) -> Option<Stamp> {
        let mut files = self.files().ok()?;
        files.retain(|it| it.form == Form::Lines);
        (!files.is_empty()).then(|| stamp_of(files.iter().map(|it| it.path.as_path())))
    }

    /// Returns what is known of it at a bounded cost, if that is not known from the first and last
    /// lines of its files.
    fn glance(&self, _session: &SessionId) -> Result<Option<Glance>, EngineError> {
        Ok(None)
    }

    /// Returns what of its files is lost; known once they were read.
    fn losses(&self) -> Vec<LostContent> {
        Vec::new()
    }

    /// Returns a follower that reads what is new, any number of times.
    fn follower(&self) -> Box<dyn Follow>;

    /// Returns whether several copies of the session are read as one.
    fn has_copies(&self) -> bool {
        false
    }

    /// Returns the same content merged with another copy of the session.
    fn with_copy(&self, _other: &Path) -> Option<Arc<dyn SessionContent>> {
        None
    }
}

/// Something of a session that cannot be read, although the rest can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostContent {
    /// The file.
    pub place: String,
    /// Why what follows the rest is lost.
    pub reason: String,
}

/// Size and time of a session's content: any addition changes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The number of files.
    pub files: u64,
    /// Their size in bytes; `None` for a database.
    pub bytes: Option<u64>,
    /// The latest modification time.
    pub changed: Option<SystemTime>,
}

/// Reads a session's content into a session, continuing where its log ends.
///
/// Importing polls once, watching polls repeatedly.
#[async_trait]
pub trait Follow: Send {
    /// Reads everything new. Unterminated lines wait for their end.
    async fn poll(
        &mut self,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError>;

    /// Stores unterminated last lines, as far as they were written.
    async fn flush_unterminated(&mut self, _session: &mut Session) -> Result<Intake, EngineError> {
        Ok(Intake::default())
    }

    /// Is informed of what changed before the next poll.
    fn notice(&mut self, _changes: &FileChanges) {}

    /// Returns how long to wait between two polls where files change without a notification.
    fn interval(&self) -> Duration {
        Duration::from_millis(50)
    }

    /// Returns how long to wait at least between two polls, however often the files change.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

impl FoundSession {
    /// Returns when it was last modified.
    pub fn changed(&self) -> Option<SystemTime> {
        self.content.stamp().changed
    }

    /// Returns its name for messages.
    pub fn description(&self) -> String {
        let place = self.place.display();
        match self.content.origins() {
            Ok(files) if !self.content.is_in_database() && files.contains(&self.place) => {
                format!("`{place}`")
            }
            _ => format!("session `{}` of `{place}`", self.id),
        }
    }

    /// Reads all of it into a session, including an unterminated last line.
    pub async fn read_into(
        &self,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError> {
        let mut follower = self.content.follower();
        let mut intake = follower.poll(session, progress).await?;
        intake.add(follower.flush_unterminated(session).await?);
        Ok(intake)
    }
}

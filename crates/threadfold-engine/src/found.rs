//! A session that was found: its id, where it is, and how it is read.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use threadfold_core::SessionId;
use threadfold_fold::Agent;

use crate::error::EngineError;
use crate::files::{InputFile, Intake};
use crate::session::Session;

/// A session outside of the store: in an agent's folder, in a file, in a database.
#[derive(Clone)]
pub struct FoundSession {
    /// Its id.
    pub id: SessionId,
    /// Where the id comes from.
    pub naming: Naming,
    /// Whose it is; nobody's for Threadfold's own events.
    pub agent: Option<Agent>,
    /// The project, as the agent names it.
    pub project: String,
    /// Its main file, or the database or folder that holds it with others.
    pub place: PathBuf,
    /// The session that started it, where it is stored apart from that.
    pub parent: Option<SessionId>,
    /// How it is read.
    pub content: Arc<dyn SessionContent>,
}

/// Where a session's id comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The agent wrote it: a file's name, or a field of its records.
    Agent,
    /// Nobody wrote one, and it is made of the content. Two sessions may begin alike.
    Content,
}

/// What a session is read from.
pub trait SessionContent: Send + Sync {
    /// Refuses what cannot be read, before anything is written to a store.
    fn check(&self) -> Result<(), EngineError>;

    /// Returns the files that make it up; none for rows of a database.
    fn files(&self) -> Result<Vec<InputFile>, EngineError>;

    /// Returns how it looks from outside, without reading it.
    fn stamp(&self) -> Stamp;

    /// Returns a reader that takes what is new, again and again.
    fn follower(&self) -> Box<dyn Follow>;

    /// Says whether several copies of the session are read as one.
    fn has_copies(&self) -> bool {
        false
    }

    /// Returns the same content with another copy of the session beside it.
    fn with_copy(&self, _other: &Path) -> Option<Arc<dyn SessionContent>> {
        None
    }
}

/// How a session's content looks from outside: whatever was added makes it another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// How many files.
    pub files: u64,
    /// How many bytes they have; of a database, unknown.
    pub bytes: Option<u64>,
    /// The latest time at which anything was written.
    pub changed: Option<SystemTime>,
}

/// Reads a session's content into a session, from where its log ends.
///
/// Importing is polling once, watching is polling again and again.
#[async_trait]
pub trait Follow: Send {
    /// Reads all that is new. Lines without an end wait for it.
    async fn poll(
        &mut self,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError>;

    /// Stores last lines that have no end, as far as they have come.
    async fn keep_unfinished(&mut self, _session: &mut Session) -> Result<Intake, EngineError> {
        Ok(Intake::default())
    }

    /// Returns how long to wait between two polls.
    fn interval(&self) -> Duration {
        Duration::from_millis(50)
    }
}

impl FoundSession {
    /// Returns when it was last written to.
    pub fn changed(&self) -> Option<SystemTime> {
        self.content.stamp().changed
    }

    /// Returns what it is called in messages.
    pub fn description(&self) -> String {
        let place = self.place.display();
        match self.content.files() {
            Ok(files) if files.iter().any(|it| it.path == self.place) => format!("`{place}`"),
            _ => format!("session `{}` of `{place}`", self.id),
        }
    }

    /// Reads all of it into a session, an unfinished last line as well.
    pub async fn read_into(
        &self,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError> {
        let mut follower = self.content.follower();
        let mut intake = follower.poll(session, progress).await?;
        intake.add(follower.keep_unfinished(session).await?);
        Ok(intake)
    }
}

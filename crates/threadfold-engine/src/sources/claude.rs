//! A session of Claude Code while it is written: its main file, and subagents' files that appear
//! late.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::EngineError;
use crate::intake::{Follower, Taken, claude_files};
use crate::session::Session;

/// How often it is looked for files that are new.
const LOOKED_EVERY: Duration = Duration::from_millis(500);

/// Follows all files of a session of Claude Code.
#[derive(Debug)]
pub struct ClaudeFollower {
    main: PathBuf,
    followers: Vec<Follower>,
    looked: Option<Instant>,
}

impl ClaudeFollower {
    /// Returns a follower of the session with this main file, which need not be there yet.
    pub fn new(main: impl Into<PathBuf>) -> Self {
        Self { main: main.into(), followers: Vec::new(), looked: None }
    }

    /// Returns the main file.
    pub fn main(&self) -> &Path {
        &self.main
    }

    /// Reads all that is new.
    pub async fn poll(&mut self, session: &mut Session) -> Result<Taken, EngineError> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOKED_EVERY) {
            self.look()?;
        }
        let mut taken = Taken::default();
        for follower in &mut self.followers {
            taken.add(follower.poll(session, |_| {}).await?);
        }
        Ok(taken)
    }

    /// Keeps last lines that have no end, as far as they have come.
    pub async fn keep_unfinished(&mut self, session: &mut Session) -> Result<(), EngineError> {
        for follower in &mut self.followers {
            follower.keep_unfinished(session).await?;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), EngineError> {
        self.looked = Some(Instant::now());
        for file in claude_files(&self.main)? {
            if !self.followers.iter().any(|it| it.file().path == file.path) {
                self.followers.push(Follower::new(file));
            }
        }
        Ok(())
    }
}

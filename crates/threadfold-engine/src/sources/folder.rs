//! A folder in which sessions of Claude Code come and grow.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use threadfold_core::SessionId;
use threadfold_store::Store;

use super::ClaudeFollower;
use crate::error::EngineError;
use crate::intake::Taken;
use crate::session::{Options, Session};

/// A session that nothing was added to for so long is left.
const LEFT_AFTER: Duration = Duration::from_secs(30);

/// Follows all sessions in a folder: a project's, or one that holds those of projects.
pub struct FolderFollower {
    store: Arc<dyn Store>,
    folder: PathBuf,
    options: Box<dyn Fn() -> Options + Send>,
    stamps: BTreeMap<PathBuf, Stamp>,
    open: BTreeMap<PathBuf, Open>,
}

struct Open {
    session: Session,
    follower: ClaudeFollower,
    active: Instant,
}

/// How a session's files looked: any that grew or came makes it another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    files: u64,
    bytes: u64,
    latest: Option<SystemTime>,
}

/// What was new in one session.
#[derive(Debug)]
pub struct FolderNews {
    /// The session.
    pub session: SessionId,
    /// Its main file.
    pub main: PathBuf,
    /// What was added, or why nothing could be.
    pub taken: Result<Taken, EngineError>,
}

impl FolderFollower {
    /// Returns a follower of `folder` that keeps what it finds in `store`.
    pub fn new(
        store: Arc<dyn Store>,
        folder: impl Into<PathBuf>,
        options: impl Fn() -> Options + Send + 'static,
    ) -> Self {
        let (stamps, open) = (BTreeMap::new(), BTreeMap::new());
        Self { store, folder: folder.into(), options: Box::new(options), stamps, open }
    }

    /// Passes over all that is there now: only what is added from here on is taken.
    pub fn pass_over(&mut self) -> Result<(), EngineError> {
        for (_, main) in self.sessions()? {
            self.stamps.insert(main.clone(), Stamp::of(&main));
        }
        Ok(())
    }

    /// Reads all that is new in any session.
    pub async fn poll(&mut self) -> Result<Vec<FolderNews>, EngineError> {
        let mut news = Vec::new();
        for (session, main) in self.sessions()? {
            let stamp = Stamp::of(&main);
            if self.stamps.get(&main) == Some(&stamp) {
                continue;
            }
            let taken = self.take(&session, &main).await;
            // What could not be taken is tried again when there is more.
            self.stamps.insert(main.clone(), stamp);
            if !matches!(taken, Ok(Taken { records: 0, .. })) {
                news.push(FolderNews { session, main, taken });
            }
        }
        self.leave_idle().await?;
        Ok(news)
    }

    /// Returns the session with this main file, if it is followed right now.
    pub fn session(&self, main: &Path) -> Option<&Session> {
        self.open.get(main).map(|open| &open.session)
    }

    /// Leaves all sessions.
    pub async fn close(mut self) -> Result<(), EngineError> {
        for (_, open) in std::mem::take(&mut self.open) {
            open.session.close().await?;
        }
        Ok(())
    }

    async fn take(&mut self, id: &SessionId, main: &Path) -> Result<Taken, EngineError> {
        if !self.open.contains_key(main) {
            let session = Session::open(self.store.clone(), id, (self.options)()).await?;
            let follower = ClaudeFollower::new(main);
            let active = Instant::now();
            self.open.insert(main.to_owned(), Open { session, follower, active });
        }
        let Some(open) = self.open.get_mut(main) else { return Ok(Taken::default()) };
        open.active = Instant::now();
        let taken = open.follower.poll(&mut open.session).await;
        if taken.is_err() {
            self.open.remove(main);
        }
        taken
    }

    async fn leave_idle(&mut self) -> Result<(), EngineError> {
        let idle = self.open.iter().filter(|(_, open)| open.active.elapsed() >= LEFT_AFTER);
        let idle: Vec<PathBuf> = idle.map(|(main, _)| main.clone()).collect();
        for main in idle {
            if let Some(open) = self.open.remove(&main) {
                open.session.close().await?;
            }
        }
        Ok(())
    }

    fn sessions(&self) -> Result<Vec<(SessionId, PathBuf)>, EngineError> {
        let mut found = claude_sessions(&self.folder)?;
        for project in list(&self.folder)?.into_iter().filter(|path| path.is_dir()) {
            found.extend(claude_sessions(&project)?);
        }
        Ok(found)
    }
}

impl Stamp {
    /// Looks at a session's main file and at what is below its folder.
    fn of(main: &Path) -> Self {
        let mut stamp = Self { files: 0, bytes: 0, latest: None };
        stamp.add(main);
        stamp.add_folder(&main.with_extension("").join("subagents"));
        stamp
    }

    fn add(&mut self, path: &Path) {
        let Ok(metadata) = path.metadata() else { return };
        self.files += 1;
        self.bytes += metadata.len();
        self.latest = self.latest.max(metadata.modified().ok());
    }

    fn add_folder(&mut self, folder: &Path) {
        // A folder that is not there, or not any more, adds nothing.
        for path in list(folder).unwrap_or_default() {
            if path.is_dir() {
                self.add_folder(&path);
            } else {
                self.add(&path);
            }
        }
    }
}

/// Returns the sessions of Claude Code whose main files lie in `folder`, by name.
pub fn claude_sessions(folder: &Path) -> Result<Vec<(SessionId, PathBuf)>, EngineError> {
    let sessions = list(folder)?.into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?;
        let session = name.strip_suffix(".jsonl").filter(|it| !it.starts_with("agent-"))?;
        Some((SessionId::from(session), path.clone()))
    });
    Ok(sessions.collect())
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(EngineError::File { path: folder.to_owned(), source }),
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

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
use crate::error::{EngineError, with_causes};
use crate::intake::Taken;
use crate::session::{Options, Session};

/// A session that nothing was added to for so long is left.
const LEFT_AFTER: Duration = Duration::from_secs(30);
/// What could not be taken is tried again after so long.
const TRIED_AGAIN: Duration = Duration::from_secs(1);

/// Follows all sessions in a folder: a project's, or one that holds those of projects.
pub struct FolderFollower {
    store: Arc<dyn Store>,
    folder: PathBuf,
    options: Box<dyn Fn() -> Options + Send>,
    stamps: BTreeMap<PathBuf, Stamp>,
    open: BTreeMap<PathBuf, Open>,
    troubles: BTreeMap<PathBuf, Trouble>,
}

/// What is wrong with a session or a folder, as it was told last.
struct Trouble {
    told: String,
    found: Instant,
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

/// What was new in one session, or what is wrong with it or with a folder.
#[derive(Debug)]
pub struct FolderNews {
    /// The session; nothing if this is of a folder.
    pub session: Option<SessionId>,
    /// Its main file, or the folder.
    pub path: PathBuf,
    /// What was added, or why nothing could be. It is tried again, and told again only when it is
    /// another reason.
    pub taken: Result<Taken, EngineError>,
}

impl FolderFollower {
    /// Returns a follower of `folder` that keeps what it finds in `store`.
    pub fn new(
        store: Arc<dyn Store>,
        folder: impl Into<PathBuf>,
        options: impl Fn() -> Options + Send + 'static,
    ) -> Self {
        let (stamps, open, troubles) = Default::default();
        Self { store, folder: folder.into(), options: Box::new(options), stamps, open, troubles }
    }

    /// Passes over all that is there now: only what is added from here on is taken.
    pub fn pass_over(&mut self) -> Result<(), EngineError> {
        list(&self.folder)?;
        // What is wrong with a folder in it is told by the first look.
        for (_, main) in self.sessions(&mut Vec::new()) {
            self.stamps.insert(main.clone(), Stamp::of(&main));
        }
        self.troubles.clear();
        Ok(())
    }

    /// Reads all that is new in any session. What fails in one keeps no other from being read.
    pub async fn poll(&mut self) -> Vec<FolderNews> {
        let mut news = Vec::new();
        for (session, main) in self.sessions(&mut news) {
            let stamp = Stamp::of(&main);
            if self.stamps.get(&main) == Some(&stamp) || self.waits(&main) {
                continue;
            }
            match self.take(&session, &main).await {
                Ok(taken) => {
                    self.stamps.insert(main.clone(), stamp);
                    self.troubles.remove(&main);
                    if taken.records > 0 {
                        news.push(FolderNews {
                            session: Some(session),
                            path: main,
                            taken: Ok(taken),
                        });
                    }
                }
                Err(error) => {
                    self.tell(Some(&session), &main, error, &mut news);
                    self.leave(&main, &mut news).await;
                }
            }
        }
        self.leave_idle(&mut news).await;
        news
    }

    /// Says whether it is too early to try something again.
    fn waits(&self, path: &Path) -> bool {
        self.troubles.get(path).is_some_and(|it| it.found.elapsed() < TRIED_AGAIN)
    }

    /// Tells what is wrong, if it was not told already.
    fn tell(
        &mut self,
        session: Option<&SessionId>,
        path: &Path,
        error: EngineError,
        news: &mut Vec<FolderNews>,
    ) {
        let trouble = Trouble { told: with_causes(&error), found: Instant::now() };
        let is_known = self.troubles.get(path).is_some_and(|it| it.told == trouble.told);
        self.troubles.insert(path.to_owned(), trouble);
        if !is_known {
            let (session, path) = (session.cloned(), path.to_owned());
            news.push(FolderNews { session, path, taken: Err(error) });
        }
    }

    /// Returns the session with this main file, if it is followed right now.
    pub fn session(&self, main: &Path) -> Option<&Session> {
        self.open.get(main).map(|open| &open.session)
    }

    /// Leaves all sessions, and returns what went wrong first.
    pub async fn close(mut self) -> Result<(), EngineError> {
        let mut closed = Ok(());
        for (_, open) in std::mem::take(&mut self.open) {
            closed = closed.and(open.session.close().await.map(drop));
        }
        closed
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
        open.follower.poll(&mut open.session).await
    }

    async fn leave_idle(&mut self, news: &mut Vec<FolderNews>) {
        let idle = self.open.iter().filter(|(_, open)| open.active.elapsed() >= LEFT_AFTER);
        let idle: Vec<PathBuf> = idle.map(|(main, _)| main.clone()).collect();
        for main in idle {
            self.leave(&main, news).await;
        }
    }

    /// Leaves a session, so that others may write it.
    async fn leave(&mut self, main: &Path, news: &mut Vec<FolderNews>) {
        let Some(Open { session, .. }) = self.open.remove(main) else { return };
        let id = session.id().clone();
        if let Err(error) = session.close().await {
            let (session, path) = (Some(id), main.to_owned());
            news.push(FolderNews { session, path, taken: Err(error) });
        }
    }

    /// Returns the sessions of all folders that can be read.
    fn sessions(&mut self, news: &mut Vec<FolderNews>) -> Vec<(SessionId, PathBuf)> {
        let mut found = self.listed(&self.folder.clone(), news);
        let projects: Vec<PathBuf> = found.extract_if(.., |path| path.is_dir()).collect();
        for project in projects {
            found.extend(self.listed(&project, news));
        }
        found.into_iter().filter_map(main_file).collect()
    }

    fn listed(&mut self, folder: &Path, news: &mut Vec<FolderNews>) -> Vec<PathBuf> {
        match list(folder) {
            Ok(paths) => {
                self.troubles.remove(folder);
                paths
            }
            Err(error) => {
                self.tell(None, folder, error, news);
                Vec::new()
            }
        }
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
    Ok(list(folder)?.into_iter().filter_map(main_file).collect())
}

/// Returns the session whose main file this is, by its name.
fn main_file(path: PathBuf) -> Option<(SessionId, PathBuf)> {
    let name = path.file_name()?.to_str()?;
    let session = name.strip_suffix(".jsonl").filter(|it| !it.starts_with("agent-"))?;
    Some((SessionId::from(session), path))
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

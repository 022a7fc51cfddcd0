//! What is to be watched.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::anyhow;
use threadfold_convert::Agent;
use threadfold_core::SessionId;
use threadfold_engine::{Form, InputFile, OpencodeDbFollower, Session, SpecKind};
use threadfold_store::SessionEntry;

use crate::error::{CommandError, say};
use crate::import::{Content, Names, Planned, Planner, kept_as_it_is, take_new};
use crate::source::{Format, Storage, has_nothing_yet, open};
use crate::store::{OpenStore, noted_summary};

/// What is to be watched.
pub(crate) enum Watched {
    /// A stream on standard input.
    Stdin { agent: Option<Agent>, reader: Box<dyn Read + Send> },
    /// A session of Claude Code, with subagents that may still come.
    Claude { id: SessionId, main: PathBuf },
    /// Files that grow.
    Files { id: SessionId, files: Vec<InputFile> },
    /// A session on a shelf of OpenCode's.
    Rows(Box<Rows>),
    /// A session of a running server.
    Server { address: String, session: Option<String> },
    /// All sessions of a folder.
    Folder(PathBuf),
    /// A session that is only in the store.
    Kept(SessionId),
}

impl Watched {
    /// Finds out what is meant.
    pub(crate) fn find(
        store: &OpenStore,
        what: &str,
        from: Option<Format>,
        session: Option<&str>,
    ) -> Result<Self, CommandError> {
        if what.starts_with("http://") || what.starts_with("https://") {
            let session = session.map(str::to_owned);
            return Ok(Self::Server { address: what.to_owned(), session });
        }
        let path = Path::new(what);
        if what == "-" {
            let opened = open(Some(path), from)?;
            let agent = match opened.is_guessed {
                true => {
                    say("what comes is no known agent's; kept as it is");
                    Some(Agent::Other)
                }
                false => opened.format.agent(),
            };
            return Ok(Self::Stdin { agent, reader: opened.reader });
        }
        if path.is_dir() && from.is_none() && !Storage::is_one(path) {
            return Ok(Self::Folder(path.to_owned()));
        }
        if from.is_none() && has_nothing_yet(path) {
            say(format_args!("there is nothing in `{what}` yet: waiting for its first line"));
            store.wait(first_line(path))?;
        }
        let mut tasks = Planner { from, session, any: false }.plan(&[what.to_owned()])?;
        match (tasks.len(), tasks.pop().map(|task| task.planned)) {
            (1, Some(Ok(mut planned))) => {
                Names::of(store)?.settle(&mut planned)?;
                if planned.agent == Some(Agent::Other) {
                    say(kept_as_it_is(&planned.place));
                }
                Ok(Self::of(planned))
            }
            (1, Some(Err(error))) => match store.find(what) {
                Ok(entry) => Self::kept(store, entry, from),
                Err(_) => Err(error),
            },
            (count, _) => Err(CommandError::new(
                anyhow!("`{what}` holds {count} sessions"),
                "`--session` takes one of them; `threadfold list` shows them",
            )),
        }
    }

    /// Returns a session of the store: by its file, if that is still there.
    fn kept(
        store: &OpenStore,
        entry: SessionEntry,
        from: Option<Format>,
    ) -> Result<Self, CommandError> {
        let path = noted_summary(&entry).and_then(|it| it.path).filter(|it| Path::new(it).exists());
        let Some(path) = path else { return Ok(Self::Kept(entry.session)) };
        let session = entry.session.as_str();
        let mut tasks = Planner { from, session: Some(session), any: true }.plan(&[path])?;
        match tasks.pop().map(|task| task.planned) {
            Some(Ok(mut planned)) if tasks.is_empty() => {
                Names::of(store)?.settle(&mut planned)?;
                match planned.id == session {
                    true => Ok(Self::of(planned)),
                    false => Ok(Self::Kept(entry.session)),
                }
            }
            _ => Ok(Self::Kept(entry.session)),
        }
    }

    fn of(planned: Planned) -> Self {
        let id = SessionId::from(planned.id.as_str());
        match planned.content {
            Content::Shelf(_) => {
                let follower = (!Storage::is_one(&planned.place))
                    .then(|| OpencodeDbFollower::new(&planned.place, &planned.id));
                Self::Rows(Box::new(Rows { planned, id, follower }))
            }
            Content::Files(files) => {
                let is_main = |it: &&InputFile| {
                    planned.agent == Some(Agent::Claude)
                        && it.spec.kind == SpecKind::Main
                        && it.form == Form::Lines
                };
                match files.iter().find(is_main) {
                    Some(main) => Self::Claude { id, main: main.path.clone() },
                    None => Self::Files { id, files },
                }
            }
        }
    }
}

/// Waits until a file tells what it is, or a person ends it.
async fn first_line(path: &Path) -> Result<(), CommandError> {
    while has_nothing_yet(path) {
        tokio::select! {
            stopped = super::stop() => return stopped.and(Err(CommandError::PipeClosed)),
            () = tokio::time::sleep(super::LOOKED_EVERY) => {}
        }
    }
    Ok(())
}

/// A session on a shelf of OpenCode's.
pub(crate) struct Rows {
    planned: Planned,
    id: SessionId,
    /// Nothing for a folder of files, which is read anew at every look.
    follower: Option<OpencodeDbFollower>,
}

impl Rows {
    pub(super) fn session(&self) -> &SessionId {
        &self.id
    }

    pub(super) async fn poll(&mut self, session: &mut Session) -> Result<(), CommandError> {
        if let Some(follower) = &mut self.follower {
            follower.poll(session).await?;
            return Ok(());
        }
        self.planned.content = Content::Shelf(Rc::new(Storage::open(&self.planned.place)));
        take_new(session, &self.planned).await
    }
}

/// Returns a name for a stream that tells none.
pub(super) fn session_of_no_name() -> String {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S");
    format!("stdin-{now}-{}", std::process::id())
}

pub(super) fn no_session(address: &str) -> CommandError {
    CommandError::new(
        anyhow!("{address} has no session"),
        "begin one in OpenCode, or name one with `--session`",
    )
}

//! Watching: something is followed into the store, and shown from there.

mod look_on;
mod show;
mod what;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use threadfold_convert::Agent;
use threadfold_core::SessionId;
use threadfold_engine::{
    Budget, ClaudeFollower, EngineError, FolderFollower, Follower, OpencodeServer, Options, Pipe,
    Session, SourceSpec, SpecKind, Taken, follow_pipe, holder,
};
use threadfold_store::{Store, StoreError};
use tokio::task::{JoinError, JoinHandle};

use crate::error::{CommandError, say};
use show::Show;

pub(crate) use show::Output;
pub(crate) use what::Watched;

/// How often a file is looked at.
const LOOKED_EVERY: Duration = Duration::from_millis(50);
/// How often a folder, or a database, is looked at.
const FOLDER_LOOKED_EVERY: Duration = Duration::from_millis(300);

/// Where sessions are kept, and how much of one is held in memory.
#[derive(Clone)]
pub(crate) struct Keeping {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) budget: Budget,
}

impl Keeping {
    fn options(&self) -> Options {
        let budget = Some(self.budget.clone());
        Options { budget, ..Options::new(holder("threadfold watch")) }
    }
}

/// Follows something until it ends or a person ends it.
pub(crate) async fn watch(
    keeping: Keeping,
    watched: Watched,
    output: Output,
) -> Result<(), CommandError> {
    match watched {
        Watched::Stdin { agent, reader } => stdin(keeping, agent, reader, output).await,
        Watched::Claude { id, main } => {
            let follower = Following::Claude(ClaudeFollower::new(main));
            follow(keeping, &id, follower, output).await
        }
        Watched::Files { id, files } => {
            let followers = files.into_iter().map(Follower::new).collect();
            follow(keeping, &id, Following::Files(followers), output).await
        }
        Watched::Rows(rows) => {
            let id = rows.session().clone();
            follow(keeping, &id, Following::Rows(rows), output).await
        }
        Watched::Server { address, session } => server(keeping, &address, session, output).await,
        Watched::Folder(folder) => watch_folder(keeping, folder, output).await,
        Watched::Kept(id) => look_on::look_on(&keeping, &id, output).await,
    }
}

/// What is followed by looking at it again and again.
enum Following {
    Claude(ClaudeFollower),
    Files(Vec<Follower>),
    Rows(Box<what::Rows>),
}

impl Following {
    async fn poll(&mut self, session: &mut Session) -> Result<(), CommandError> {
        match self {
            Self::Claude(follower) => say_anew(follower.poll(session).await?),
            Self::Files(followers) => {
                for follower in followers {
                    say_anew(follower.poll(session, |_| {}).await?);
                }
            }
            Self::Rows(rows) => rows.poll(session).await?,
        }
        Ok(())
    }

    fn looked_every(&self) -> Duration {
        match self {
            Self::Rows(_) => FOLDER_LOOKED_EVERY,
            _ => LOOKED_EVERY,
        }
    }
}

/// Says that a file is not the one any more that was followed.
fn say_anew(taken: Taken) {
    if taken.new_parts > 0 {
        say("the file was written anew from its beginning; what it was is kept");
    }
}

/// Opens a session to write, or nothing if another process writes it.
async fn open(keeping: &Keeping, id: &SessionId) -> Result<Option<Session>, CommandError> {
    match Session::open(keeping.store.clone(), id, keeping.options()).await {
        Err(EngineError::Store(StoreError::Held { holder, .. })) => {
            say(format_args!("{holder} writes this session; looking on"));
            Ok(None)
        }
        opened => Ok(Some(opened?)),
    }
}

/// Follows files or rows into a session, and shows it.
async fn follow(
    keeping: Keeping,
    id: &SessionId,
    mut following: Following,
    output: Output,
) -> Result<(), CommandError> {
    let Some(mut session) = open(&keeping, id).await? else {
        return look_on::look_on(&keeping, id, output).await;
    };
    following.poll(&mut session).await?;
    let mut showing = tokio::spawn(Show::new(output).follow(session.handle()));
    let every = following.looked_every();
    // One for all rounds: it remembers what a person said while a round was under way.
    let mut stop = pin!(stop());
    let ended = loop {
        tokio::select! {
            shown = &mut showing => break shown_well(shown),
            stopped = &mut stop => break stopped,
            () = tokio::time::sleep(every) => {
                if let Err(error) = following.poll(&mut session).await {
                    break Err(error);
                }
            }
        }
    };
    leave(session, showing, ended).await
}

async fn stdin(
    keeping: Keeping,
    agent: Option<Agent>,
    reader: Box<dyn std::io::Read + Send>,
    output: Output,
) -> Result<(), CommandError> {
    let mut pipe = Pipe::new(reader);
    let mut stop = pin!(stop());
    let (mut told, mut is_stopped) = (None, false);
    // An agent that is not known tells no name.
    if let Some(agent) = agent.filter(|it| *it != Agent::Other) {
        tokio::select! {
            session = pipe.session(agent) => told = session?,
            stopped = &mut stop => {
                stopped?;
                is_stopped = true;
            }
        }
    }
    if is_stopped && !pipe.stop().await? {
        return Ok(());
    }
    let id = told.unwrap_or_else(|| what::session_of_no_name().into());
    let Some(mut session) = open(&keeping, &id).await? else {
        return look_on::look_on(&keeping, &id, output).await;
    };
    let kind = if agent.is_some() { SpecKind::Stream } else { SpecKind::Events };
    let agent = agent.map(|agent| agent.name().to_owned());
    let (name, path) = ("stdin".to_owned(), None);
    let spec = SourceSpec { agent, kind, agent_id: None, name, path, part: 1 };
    let mut showing = tokio::spawn(Show::new(output).follow(session.handle()));
    let mut ended = Ok(());
    let until = async {
        if !is_stopped {
            ended = tokio::select! {
                shown = &mut showing => shown_well(shown),
                stopped = &mut stop => stopped,
            };
        }
    };
    let followed = follow_pipe(&mut session, &spec, pipe, until).await;
    leave(session, showing, followed.map_err(CommandError::from).and(ended)).await
}

async fn server(
    keeping: Keeping,
    address: &str,
    session: Option<String>,
    output: Output,
) -> Result<(), CommandError> {
    let server = OpencodeServer::new(address)?;
    let of = match session {
        Some(id) => server.session(&id).await?,
        None => {
            let latest = server.sessions().await?.into_iter().next();
            latest.ok_or_else(|| what::no_session(address))?
        }
    };
    let id = SessionId::from(of.id.as_str());
    let Some(mut session) = open(&keeping, &id).await? else {
        return look_on::look_on(&keeping, &id, output).await;
    };
    let mut showing = tokio::spawn(Show::new(output).follow(session.handle()));
    let never = std::future::pending();
    let ended = tokio::select! {
        followed = server.follow(&mut session, &of, never) => Ok(followed?),
        shown = &mut showing => shown_well(shown),
        stopped = stop() => stopped,
    };
    leave(session, showing, ended).await
}

/// Follows all sessions of a folder, and tells what each gains.
async fn watch_folder(
    keeping: Keeping,
    folder: std::path::PathBuf,
    output: Output,
) -> Result<(), CommandError> {
    let store = keeping.store.clone();
    let mut follower = FolderFollower::new(store, &folder, move || keeping.options());
    follower.pass_over()?;
    let mut show = Show::new(output);
    let mut stop = pin!(stop());
    say(format_args!("watching `{}`; Ctrl-C ends", folder.display()));
    loop {
        tokio::select! {
            stopped = &mut stop => {
                follower.close().await?;
                return stopped;
            }
            () = tokio::time::sleep(FOLDER_LOOKED_EVERY) => {
                for news in follower.poll().await {
                    let summary = follower.session(&news.path).map(|it| it.fold().summary());
                    show.news(&news, summary.as_ref())?;
                }
            }
        }
    }
}

type Showing = JoinHandle<std::io::Result<()>>;

/// Leaves a session, says what went wrong beside the way, and waits until all of it is shown.
async fn leave(
    session: Session,
    showing: Showing,
    ended: Result<(), CommandError>,
) -> Result<(), CommandError> {
    let closed = session.close().await;
    let ended = ended.and_then(|()| {
        for trouble in closed? {
            say(format_args!("{trouble}"));
        }
        Ok(())
    });
    match showing.is_finished() {
        true => ended,
        false => ended.and(shown_well(showing.await)),
    }
}

fn shown_well(shown: Result<std::io::Result<()>, JoinError>) -> Result<(), CommandError> {
    match shown {
        Ok(shown) => Ok(shown?),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Waits until a person ends the program.
async fn stop() -> Result<(), CommandError> {
    Ok(tokio::signal::ctrl_c().await?)
}

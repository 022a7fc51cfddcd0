//! Watching: something is followed into the store, and shown from there.

mod show;
mod target;

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use anyhow::anyhow;
use threadfold_core::SessionId;
use threadfold_engine::{
    EngineError, FolderFollower, FoundSession, FrameListener, Host, InputOptions, Intake,
    ListenOptions, Naming, Options, Pipe, PipeInput, Session, follow_pipe, holder, server_at,
};
use threadfold_store::StoreError;
use tokio::task::{JoinError, JoinHandle};

use crate::error::{CommandError, say};
use crate::store::OpenStore;
use show::Show;

pub(crate) use show::Output;
pub(crate) use target::WatchTarget;

/// How often a folder is looked at.
const FOLDER_INTERVAL: Duration = Duration::from_millis(300);

/// Follows what is named into a store, and shows it.
pub(crate) struct Watcher<'a> {
    pub(crate) store: &'a OpenStore,
    pub(crate) host: Host,
    pub(crate) output: Output,
    /// Where an earlier watch ended, and what is printed.
    pub(crate) listening: ListenOptions,
}

impl Watcher<'_> {
    /// Follows something until it ends or a person ends it.
    pub(crate) async fn watch(self, target: WatchTarget) -> Result<(), CommandError> {
        match target {
            WatchTarget::Stdin { options } => self.stdin(options.options()).await,
            WatchTarget::Session(found) => self.session(&found).await,
            WatchTarget::Server { address, session } => self.server(&address, session).await,
            WatchTarget::Folder(folder) => self.folder(&folder).await,
            WatchTarget::Stored(id) => self.listen_only(&id).await,
        }
    }

    fn options(&self) -> Options {
        let budget = Some(self.store.budget());
        Options { budget, ..Options::new(holder("threadfold watch")) }
    }

    /// Opens a session to write; nothing if another process writes it.
    async fn open(&self, id: &SessionId) -> Result<Option<Session>, CommandError> {
        match self.host.open(id, self.options()).await {
            Err(EngineError::Store(StoreError::Held { holder, .. })) => {
                say(format_args!("{holder} is writing this session: following it read-only"));
                Ok(None)
            }
            opened => Ok(Some(opened?)),
        }
    }

    async fn listener(&self, id: &SessionId) -> Result<FrameListener, CommandError> {
        Ok(self.host.listen(id, self.listening.clone()).await?)
    }

    /// Shows a session that another process writes.
    async fn listen_only(self, id: &SessionId) -> Result<(), CommandError> {
        let stop = pin!(stop());
        let listener = self.listener(id).await?;
        let mut showing = tokio::spawn(Show::new(self.output).follow(listener));
        let ended = tokio::select! {
            shown = &mut showing => shown_well(shown),
            stopped = stop => stopped,
        };
        showing.abort();
        ended
    }

    /// Follows files or rows into a session, and shows it.
    async fn session(self, found: &FoundSession) -> Result<(), CommandError> {
        // One for all rounds: it remembers what a person did while a round was under way.
        let mut stop = pin!(stop());
        let Some(mut session) = self.open(&found.id).await? else {
            return self.listen_only(&found.id).await;
        };
        let mut follower = found.content.follower();
        report_rewrite(follower.poll(&mut session, &mut |_| {}).await?);
        let listener = self.listener(&found.id).await?;
        let mut showing = tokio::spawn(Show::new(self.output).follow(listener));
        let interval = follower.interval();
        let ended = loop {
            tokio::select! {
                shown = &mut showing => break shown_well(shown),
                stopped = &mut stop => break stopped,
                () = tokio::time::sleep(interval) => {
                    match follower.poll(&mut session, &mut |_| {}).await {
                        Ok(intake) => report_rewrite(intake),
                        Err(error) => break Err(error.into()),
                    }
                }
            }
        };
        let unfinished = follower.keep_unfinished(&mut session).await;
        let ended = ended.and(unfinished.map(drop).map_err(CommandError::from));
        close(session, showing, ended).await
    }

    async fn stdin(self, options: InputOptions<'_>) -> Result<(), CommandError> {
        let mut pipe = Pipe::new(std::io::stdin());
        let mut stop = pin!(stop());
        let mut is_stopped = false;
        let recognized = tokio::select! {
            recognized = pipe.recognize(&options) => Some(recognized?),
            stopped = &mut stop => {
                stopped?;
                is_stopped = true;
                None
            }
        };
        let input = match recognized {
            Some(input) => input,
            None if !pipe.stop().await? => return Ok(()),
            None => pipe.recognize(&options).await?,
        };
        if !input.input.is_known() {
            say("the input is in no format of a known agent: every line is kept as it is");
        }
        let id = self.free_id(&input).await?;
        let Some(mut session) = self.open(&id).await? else {
            return self.listen_only(&id).await;
        };
        let listener = self.listener(&id).await?;
        let mut showing = tokio::spawn(Show::new(self.output).follow(listener));
        let mut ended = Ok(());
        let until = async {
            if !is_stopped {
                ended = tokio::select! {
                    shown = &mut showing => shown_well(shown),
                    stopped = &mut stop => stopped,
                };
            }
        };
        let followed = follow_pipe(&mut session, &input, pipe, until).await;
        close(session, showing, followed.map_err(CommandError::from).and(ended)).await
    }

    /// Returns the id under which a stream is stored. One without an id of its own is never taken
    /// for another that began alike.
    async fn free_id(&self, input: &PipeInput) -> Result<SessionId, CommandError> {
        let mut id = input.id.clone();
        let mut number = 1_u32;
        while input.naming == Naming::Content && self.host.store().head(&id).await?.is_some() {
            number += 1;
            id = SessionId::from(format!("{}-{number}", input.id));
        }
        Ok(id)
    }

    async fn server(self, address: &str, wanted: Option<String>) -> Result<(), CommandError> {
        let server = server_at(address)?;
        let id = match wanted {
            Some(id) => SessionId::from(id.as_str()),
            None => server.sessions().await?.into_iter().next().ok_or_else(|| {
                CommandError::new(
                    anyhow!("{address} has no session"),
                    "start one in the agent, or name one with `--session`",
                )
            })?,
        };
        server.check(&id).await?;
        let Some(mut session) = self.open(&id).await? else {
            return self.listen_only(&id).await;
        };
        let listener = self.listener(&id).await?;
        let mut showing = tokio::spawn(Show::new(self.output).follow(listener));
        let mut never = pin!(std::future::pending());
        let ended = tokio::select! {
            followed = server.follow(&mut session, never.as_mut()) => Ok(followed?),
            shown = &mut showing => shown_well(shown),
            stopped = stop() => stopped,
        };
        close(session, showing, ended).await
    }

    /// Follows all sessions of a folder, and reports what each gains.
    async fn folder(self, folder: &Path) -> Result<(), CommandError> {
        let budget = self.store.budget();
        let mut follower = FolderFollower::new(self.host.store().clone(), folder, move || {
            Options { budget: Some(budget.clone()), ..Options::new(holder("threadfold watch")) }
        });
        let mut stop = pin!(stop());
        follower.skip_existing()?;
        let mut show = Show::new(self.output);
        say(format_args!("watching `{}`; Ctrl-C ends", folder.display()));
        loop {
            tokio::select! {
                stopped = &mut stop => {
                    follower.close().await?;
                    return stopped;
                }
                () = tokio::time::sleep(FOLDER_INTERVAL) => {
                    for update in follower.poll().await {
                        let session = update.session.as_ref().and_then(|id| follower.session(id));
                        let summary = session.map(|it| it.fold().summary());
                        show.update(&update, summary.as_ref())?;
                    }
                }
            }
        }
    }
}

/// Reports that a file is not the one any more that was followed.
fn report_rewrite(intake: Intake) {
    if intake.new_parts > 0 {
        say("the file was rewritten from its beginning: the earlier version is kept");
    }
}

type Showing = JoinHandle<std::io::Result<()>>;

/// Closes a session, reports problems beside the way, and waits until all of it is shown.
async fn close(
    session: Session,
    showing: Showing,
    ended: Result<(), CommandError>,
) -> Result<(), CommandError> {
    let closed = session.close().await;
    let ended = ended.and_then(|()| {
        for problem in closed? {
            say(format_args!("{problem}"));
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

/// Waits until a person ends the program. Interrupts count from the call on, and not from when
/// this is first waited for.
#[cfg(unix)]
fn stop() -> impl Future<Output = Result<(), CommandError>> {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupts = signal(SignalKind::interrupt());
    async {
        interrupts?.recv().await;
        Ok(())
    }
}

/// Waits until a person ends the program.
#[cfg(not(unix))]
async fn stop() -> Result<(), CommandError> {
    Ok(tokio::signal::ctrl_c().await?)
}

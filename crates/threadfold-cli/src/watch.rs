//! Follows a source into the store, and shows it from there.

mod folder_frames;
mod remote;
mod show;
mod target;

use std::fs;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use anyhow::Context;
use threadfold_core::SessionId;
use threadfold_engine::{
    ContentWatcher, EngineError, FolderFollower, FolderUpdate, Follow, FoundSession, FrameListener,
    Host, InputOptions, Intake, ListenOptions, ObservedFollower, Options, Pipe, Server,
    ServerAccess, Session, SessionNames, follow_pipe, holder, server_at,
};
use threadfold_fold::with_causes;
use threadfold_store::StoreError;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};

use crate::error::{CommandError, print_note, report_loss};
use crate::remote::{recognize, session_of};
use crate::stop::stop;
use crate::store::OpenStore;
use crate::surroundings::machine;
use crate::view::count;
use folder_frames::FolderFrames;
use show::{Show, Takeover, show_update};

pub(crate) use show::Output;
pub(crate) use target::WatchTarget;

/// How often to try to take over from the process that writes a session.
const TAKEOVER_INTERVAL: Duration = Duration::from_millis(500);
/// How often a server without sessions is asked for them.
const SERVER_INTERVAL: Duration = Duration::from_millis(500);

/// Follows a target into a store, and shows it.
pub(crate) struct Watcher<'a> {
    pub(crate) store: &'a OpenStore,
    pub(crate) host: Host,
    pub(crate) output: Output,
    /// Where an earlier watch ended, and what to print.
    pub(crate) listening: ListenOptions,
    /// The password of an agent's server, if the user gave one.
    pub(crate) password: Option<String>,
    /// The file with the token of a server of Threadfold, if the user named one.
    pub(crate) token_file: Option<PathBuf>,
}

impl Watcher<'_> {
    /// Follows a target until it ends or the user stops it.
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

    /// Opens a session for writing; `None` if another process is writing it.
    async fn open(&self, id: &SessionId) -> Result<Option<Session>, CommandError> {
        match self.host.open(id, self.options()).await {
            Err(EngineError::Store(StoreError::Held { holder, .. })) => {
                print_note(format_args!(
                    "{holder} is writing this session: following it read-only"
                ));
                Ok(None)
            }
            opened => Ok(Some(opened?)),
        }
    }

    async fn listener(&self, id: &SessionId) -> Result<FrameListener, CommandError> {
        Ok(self.host.listen(id, self.listening.clone()).await?)
    }

    /// Shows a session that another process is writing.
    async fn listen_only(self, id: &SessionId) -> Result<(), CommandError> {
        let stop = pin!(stop());
        let listener = self.listener(id).await?;
        let mut showing = tokio::spawn(Show::new(self.output).follow(listener, None));
        let ended = tokio::select! {
            shown = &mut showing => show_result(shown),
            stopped = stop => stopped,
        };
        showing.abort();
        ended
    }

    /// Shows a session. If another process is writing it, waits until that one is gone, and takes
    /// over. Returns nothing if the user stopped before.
    async fn show(
        &self,
        id: &SessionId,
        opened: Option<Session>,
        mut stop: Pin<&mut impl Future<Output = Result<(), CommandError>>>,
    ) -> Result<Option<(Session, ShowTask)>, CommandError> {
        let listener = self.listener(id).await?;
        let show = Show::new(self.output);
        if let Some(session) = opened {
            return Ok(Some((session, tokio::spawn(show.follow(listener, None)))));
        }
        let (taken, signal) = oneshot::channel();
        let (host, session) = (self.host.clone(), id.clone());
        let takeover = Takeover { host, session, listening: self.listening.clone(), signal };
        let mut showing = tokio::spawn(show.follow(listener, Some(takeover)));
        loop {
            tokio::select! {
                shown = &mut showing => return show_result(shown).map(|()| None),
                stopped = &mut stop => {
                    showing.abort();
                    return stopped.map(|()| None);
                }
                () = tokio::time::sleep(TAKEOVER_INTERVAL) => {
                    match self.host.open(id, self.options()).await {
                        Err(EngineError::Store(StoreError::Held { .. })) => {}
                        opened => {
                            let session = opened?;
                            print_note("that process has stopped: this one writes the session now");
                            // The display may have ended already.
                            taken.send(()).ok();
                            return Ok(Some((session, showing)));
                        }
                    }
                }
            }
        }
    }

    /// Follows files or rows into a session, and shows it.
    async fn session(self, found: &FoundSession) -> Result<(), CommandError> {
        // One for all rounds, so that a signal during a poll is not lost.
        let mut stop = pin!(stop());
        let mut follower = ObservedFollower::new(found.content.follower());
        let mut watcher = ContentWatcher::new(found, &follower);
        let mut opened = self.open(&found.id).await?;
        if let Some(session) = &mut opened {
            report_rewrite(follower.poll(session, &mut |_| {}).await?);
            found.content.losses().iter().for_each(report_loss);
        }
        let Some((mut session, mut showing)) = self.show(&found.id, opened, stop.as_mut()).await?
        else {
            return Ok(());
        };
        let ended = loop {
            tokio::select! {
                shown = &mut showing => break show_result(shown),
                stopped = &mut stop => break stopped,
                () = reached(follower.deadline()) => {
                    if let Err(error) = follower.record_pending(&mut session).await {
                        break Err(error.into());
                    }
                }
                changes = watcher.changed() => {
                    follower.notice(&changes);
                    match follower.poll(&mut session, &mut |_| {}).await {
                        Ok(intake) => report_rewrite(intake),
                        Err(error) => break Err(error.into()),
                    }
                }
            }
        };
        let unfinished = follower.flush_unterminated(&mut session).await;
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
        let mut input = match recognized {
            Some(input) => input,
            None if !pipe.stop().await? => return Ok(()),
            None => pipe.recognize(&options).await?,
        };
        if !input.input.is_known() {
            print_note("the input is not in a format of a known agent: it is stored line by line");
        }
        let store = self.host.store().clone();
        let (names, budget) = (SessionNames::new(&store), Some(self.store.budget()));
        let is_settled = tokio::select! {
            settled = names.settle_pipe(&mut input, &mut pipe, budget.clone()) => {
                settled?;
                true
            }
            stopped = &mut stop, if !is_stopped => {
                stopped?;
                is_stopped = true;
                false
            }
        };
        if !is_settled {
            pipe.stop().await?;
            names.settle_pipe(&mut input, &mut pipe, budget).await?;
        }
        if input.is_repeated() {
            print_note(format_args!("the input is in the store already, as `{}`", input.id));
        }
        let id = input.id.clone();
        let Some(mut session) = self.open(&id).await? else {
            return self.listen_only(&id).await;
        };
        let listener = self.listener(&id).await?;
        let mut showing = tokio::spawn(Show::new(self.output).follow(listener, None));
        let mut ended = Ok(());
        let until = async {
            if !is_stopped {
                ended = tokio::select! {
                    shown = &mut showing => show_result(shown),
                    stopped = &mut stop => stopped,
                };
            }
        };
        let followed = follow_pipe(&mut session, &input, pipe, until).await;
        input.loss().iter().for_each(report_loss);
        close(session, showing, followed.map_err(CommandError::from).and(ended)).await
    }

    async fn server(self, address: &str, wanted: Option<String>) -> Result<(), CommandError> {
        if let Some(client) = recognize(address, self.token_file.as_deref()).await? {
            let session = session_of(&client, wanted).await?;
            return remote::watch(&client, &session, self.output, &self.listening).await;
        }
        let machine = machine();
        let access = ServerAccess { machine: &machine, password: self.password.clone() };
        let server = server_at(address, &access)?;
        let mut stop = pin!(stop());
        let id = match wanted {
            Some(id) => SessionId::from(id.as_str()),
            None => tokio::select! {
                latest = latest_session(&*server) => latest?,
                stopped = &mut stop => return stopped,
            },
        };
        server.check(&id).await?;
        let opened = self.open(&id).await?;
        let Some((mut session, mut showing)) = self.show(&id, opened, stop.as_mut()).await? else {
            return Ok(());
        };
        let mut never = pin!(std::future::pending());
        let ended = tokio::select! {
            followed = server.follow(&mut session, never.as_mut()) => Ok(followed?),
            shown = &mut showing => show_result(shown),
            stopped = &mut stop => stopped,
        };
        close(session, showing, ended).await
    }

    /// Follows all sessions of a folder, and shows those that change.
    async fn folder(self, folder: &Path) -> Result<(), CommandError> {
        let budget = self.store.budget();
        let mut follower = FolderFollower::new(self.host.clone(), folder, move || Options {
            budget: Some(budget.clone()),
            ..Options::new(holder("threadfold watch"))
        });
        let mut stop = pin!(stop());
        follower.skip_existing()?;
        let mut frames = FolderFrames::new(self.host.clone(), self.listening.clone());
        let mut show = Show::new(self.output);
        print_note(format_args!("watching `{}`; Ctrl-C stops", folder.display()));
        let ended = loop {
            tokio::select! {
                stopped = &mut stop => break stopped,
                failure = frames.failed() => break Err(failure.into()),
                () = follower.changed() => {
                    let updates = follower.poll().await;
                    if let Err(error) = show_updates(&follower, &updates, &mut show, &mut frames).await {
                        break Err(error);
                    }
                }
            }
        };
        frames.begin_closing();
        let closed = follower.close().await;
        frames.close().await;
        ended.and(closed.map_err(CommandError::from))
    }
}

/// Waits for a time; forever if there is none.
async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// Shows what is new in a folder: frames of the sessions that changed, or a line of text for each.
async fn show_updates(
    follower: &FolderFollower,
    updates: &[FolderUpdate],
    show: &mut Show,
    frames: &mut FolderFrames,
) -> Result<(), CommandError> {
    for update in updates {
        update.losses.iter().for_each(report_loss);
        match (&mut *show, &update.session, &update.result) {
            (Show::Text(live), session, _) => {
                let session = session.as_ref().and_then(|id| follower.session(id));
                let summary = session.map(|it| it.fold().summary());
                show_update(live, update, summary.as_ref())?;
            }
            (Show::Json(_), Some(id), Ok(_)) => frames.follow(id).await?,
            // What is not about a record is no frame.
            (Show::Json(_), _, Err(error)) => {
                print_note(format_args!("{}", with_causes(error)));
            }
            (Show::Json(_), None, Ok(_)) => {}
        }
    }
    Ok(())
}

/// Returns the latest session of a server; waits for one if there is none yet.
async fn latest_session(server: &dyn Server) -> Result<SessionId, CommandError> {
    let mut has_waited = false;
    loop {
        let sessions = server.sessions().await?;
        let others = sessions.len().saturating_sub(1);
        if let Some(latest) = sessions.into_iter().next() {
            let others = match others {
                0 => String::new(),
                others => format!(" and not {} of the server", count(others, "other", "others")),
            };
            print_note(format_args!(
                "following session `{latest}`{others}; `--session ID` follows another one"
            ));
            return Ok(latest);
        }
        if !std::mem::replace(&mut has_waited, true) {
            let address = server.address();
            print_note(format_args!("{address} has no session yet: waiting for one"));
        }
        tokio::time::sleep(SERVER_INTERVAL).await;
    }
}

/// Reports that the followed file was replaced.
fn report_rewrite(intake: Intake) {
    if intake.new_parts > 0 {
        print_note("the file was rewritten from its beginning: the earlier version is kept");
    }
}

type ShowTask = JoinHandle<std::io::Result<()>>;

/// Closes a session, reports non-fatal errors, and waits until everything is shown.
async fn close(
    session: Session,
    showing: ShowTask,
    ended: Result<(), CommandError>,
) -> Result<(), CommandError> {
    let closed = session.close().await;
    let ended = ended.and_then(|()| {
        for problem in closed? {
            print_note(format_args!("{problem}"));
        }
        Ok(())
    });
    match showing.is_finished() {
        true => ended,
        false => ended.and(show_result(showing.await)),
    }
}

fn show_result(shown: Result<std::io::Result<()>, JoinError>) -> Result<(), CommandError> {
    match shown {
        Ok(shown) => Ok(shown?),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Returns the password in a file, without the line end that editors add.
pub(crate) fn read_password(path: &Path) -> Result<String, CommandError> {
    let read = fs::read_to_string(path)
        .with_context(|| format!("the password file `{}` cannot be read", path.display()));
    let password = read.map_err(|error| CommandError::new(error, "check its path and its mode"))?;
    Ok(password.trim_end_matches(['\n', '\r']).to_owned())
}

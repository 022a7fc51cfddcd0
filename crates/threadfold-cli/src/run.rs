//! Runs of our own loop: how one is set up, shown, and gone on with in another process.

mod demo;
mod setup;
mod show;
mod told;

use std::sync::Arc;

use anyhow::anyhow;
use threadfold_core::{Effect, Payload, SessionEvent, SessionId, ToolIdempotencyError, TurnState};
use threadfold_engine::{Slices, load};
use threadfold_loop::{AgentLoop, Finished, LoopError, Rendered, Resume, waits};
use threadfold_store::{Limit, SessionEntry, Store, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::error::{CommandError, say};
use crate::store::OpenStore;

pub(crate) use demo::counted;
pub(crate) use setup::{ProviderArg, RunSetup, absolute};
pub(crate) use show::{Show, show_finished};

use show::short;
use told::{Doing, told};

/// Says something in a session, and shows what comes of it.
pub(crate) fn run(
    store: &OpenStore,
    session: &SessionId,
    setup: &RunSetup,
    prompt: &str,
    resume: Resume,
    show: Show,
    greeting: &str,
) -> Result<Finished, CommandError> {
    store.wait(async {
        let agent_loop = agent_loop(store, session, setup, show).await?;
        say(greeting);
        let finished = agent_loop.run_with(session, &Rendered::text(prompt), resume).await;
        finished.map_err(|error| told(store, session, error, Doing::Run))
    })
}

/// Removes a session in which nothing was kept: what was refused leaves nothing behind.
pub(crate) fn forget_if_empty(store: &OpenStore, session: &SessionId) {
    let shared = store.shared();
    let removed = store.wait(async {
        match shared.head(session).await? {
            Some(head) if head.seq == 0 => shared.remove(session, Timestamp::now()).await,
            _ => Ok(()),
        }
    });
    if let Err(error) = removed {
        say(format_args!("session {session} is left behind, and empty: {error}"));
    }
}

/// Goes on with a run, and shows what comes of it.
pub(crate) fn resume(
    store: &OpenStore,
    session: &SessionId,
    setup: &RunSetup,
    resume: Resume,
    show: Show,
) -> Result<Finished, CommandError> {
    let finished = store.wait(async {
        let agent_loop = agent_loop(store, session, setup, show).await?;
        agent_loop.resume(session, resume).await.map_err(Stopped::Loop)
    });
    finished.map_err(|stopped| match stopped {
        Stopped::Command(error) => error,
        Stopped::Loop(error) => {
            if let LoopError::Undecided { calls } = &error {
                tell_calls(store, session, calls);
            }
            told(store, session, error, Doing::Resume)
        }
    })
}

/// Why a run was not gone on with.
enum Stopped {
    Command(CommandError),
    Loop(LoopError),
}

impl From<CommandError> for Stopped {
    fn from(error: CommandError) -> Self {
        Self::Command(error)
    }
}

/// Shows what the calls are that a person must decide about.
fn tell_calls(store: &OpenStore, session: &SessionId, calls: &[ToolIdempotencyError]) {
    let Ok(state) = turns_of(store, session) else { return };
    for call in calls.iter().filter_map(|it| state.call(&it.call)) {
        say(format_args!("? {} {} {}", call.call_id, call.name, short(&call.arguments)));
    }
}

/// Returns what is kept of a session's loop.
pub(crate) fn turns_of(store: &OpenStore, session: &SessionId) -> Result<TurnState, CommandError> {
    let shared = store.shared();
    let loaded = store.wait(load(&*shared, session, u64::MAX, Slices::default()))?;
    Ok(loaded.fold.turns().clone())
}

async fn agent_loop(
    store: &OpenStore,
    session: &SessionId,
    setup: &RunSetup,
    show: Show,
) -> Result<AgentLoop, CommandError> {
    let mut agent_loop = setup.agent_loop(store, session).await?;
    let is_known = match store.shared().head(session).await? {
        Some(_) => noted(&store.shared(), session).await?.as_ref() == Some(setup),
        None => false,
    };
    if !is_known {
        // In the same write as the prompt: another process can go on, or there is nothing yet.
        agent_loop = agent_loop.noting(Payload::OptionsUpdate(setup.to_event()));
    }
    let cancel = CancellationToken::new();
    tokio::spawn(stop_when_asked(cancel.clone()));
    Ok(agent_loop.cancel(cancel).watch(show.into_watcher()))
}

/// Stops a run at the first Ctrl-C, and the program at the second.
async fn stop_when_asked(cancel: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_ok() {
        say("stopping; once more ends at once");
        cancel.cancel();
    }
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(130);
    }
}

/// Returns how a session's run was set up last.
async fn noted(
    store: &Arc<dyn Store>,
    session: &SessionId,
) -> Result<Option<RunSetup>, CommandError> {
    let mut after = 0;
    let mut last = None;
    loop {
        let records = store.read(session, after, Limit::default()).await?;
        let Some(end) = records.last() else { return Ok(last) };
        after = end.seq;
        for record in &records {
            // Most records are something else, and are not read to find that out.
            let text = std::str::from_utf8(&record.bytes).unwrap_or_default();
            if !text.contains("options:update") {
                continue;
            }
            if let Ok(SessionEvent { payload: Payload::OptionsUpdate(update), .. }) =
                SessionEvent::from_json(text)
            {
                last = RunSetup::from_event(&update).or(last);
            }
        }
    }
}

/// Returns how a session's run was set up, which `threadfold run` notes.
pub(crate) fn setup_of(store: &OpenStore, session: &SessionId) -> Result<RunSetup, CommandError> {
    store.wait(noted(&store.shared(), session))?.ok_or_else(|| {
        CommandError::new(
            anyhow!("session `{session}` was not begun by `threadfold run`"),
            "resume it with the program that runs it; `threadfold runs` shows what there is",
        )
    })
}

/// A run that is not finished.
pub(crate) struct Unfinished {
    pub(crate) entry: SessionEntry,
    pub(crate) turn: u64,
    pub(crate) waits: String,
}

/// Returns the runs that are not finished, the latest first.
pub(crate) fn unfinished(store: &OpenStore) -> Result<Vec<Unfinished>, CommandError> {
    let mut found = Vec::new();
    for entry in store.sessions()? {
        if !crate::store::summary_of(store, &entry)?.is_unfinished {
            continue;
        }
        let turns = turns_of(store, &entry.session)?;
        // What was noted when a call was started counts, whatever tools there are today.
        if let Some(waits) = waits(&turns, |_| Effect::Pure) {
            found.push(Unfinished { entry, turn: turns.turns().len() as u64, waits });
        }
    }
    found.sort_by_key(|it| std::cmp::Reverse(it.entry.updated));
    Ok(found)
}

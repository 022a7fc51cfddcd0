//! Runs of our own loop: setting one up, showing it, and resuming it in another process.

mod demo;
mod setup;
mod show;
mod stop;

use std::sync::Arc;

use anyhow::anyhow;
use threadfold_core::{Effect, Payload, SessionEvent, SessionId, ToolIdempotencyError, TurnState};
use threadfold_engine::load;
use threadfold_fold::Slices;
use threadfold_loop::{AgentLoop, LoopError, RenderedPrompt, Resume, RunOutcome, pending_step};
use threadfold_store::{Limit, SessionEntry, Store};
use tokio_util::sync::CancellationToken;

use crate::error::{CommandError, say};
use crate::store::OpenStore;

pub(crate) use demo::counted;
pub(crate) use setup::{ProviderArg, RunSetup, absolute};
pub(crate) use show::{Show, show_finished};

use show::short;
use stop::{RunCommand, explain};

/// Sends a prompt in a session, and shows the run.
pub(crate) fn run(
    store: &OpenStore,
    session: &SessionId,
    setup: &RunSetup,
    prompt: &str,
    resume: Resume,
    show: Show,
    greeting: &str,
) -> Result<RunOutcome, CommandError> {
    store.wait(async {
        let agent_loop = agent_loop(store, session, setup, show).await?;
        say(greeting);
        let finished = agent_loop.run_with(session, &RenderedPrompt::text(prompt), resume).await;
        finished.map_err(|error| explain(store, session, error, RunCommand::Run))
    })
}

/// Removes a session without records, so that a refused run leaves nothing behind.
pub(crate) fn forget_if_empty(store: &OpenStore, session: &SessionId) {
    let shared = store.shared();
    let removed = store.wait(async {
        match shared.head(session).await? {
            Some(head) if head.seq == 0 => shared.remove(session).await,
            _ => Ok(()),
        }
    });
    if let Err(error) = removed {
        say(format_args!("session {session} is empty and could not be removed: {error}"));
    }
}

/// Resumes a run, and shows it.
pub(crate) fn resume(
    store: &OpenStore,
    session: &SessionId,
    setup: &RunSetup,
    resume: Resume,
    show: Show,
) -> Result<RunOutcome, CommandError> {
    let finished = store.wait(async {
        let agent_loop = agent_loop(store, session, setup, show).await?;
        agent_loop.resume(session, resume).await.map_err(ResumeError::Loop)
    });
    finished.map_err(|error| match error {
        ResumeError::Command(error) => error,
        ResumeError::Loop(error) => {
            if let LoopError::Undecided { calls } = &error {
                print_calls(store, session, calls);
            }
            explain(store, session, error, RunCommand::Resume)
        }
    })
}

/// Why a run was not resumed to its end.
enum ResumeError {
    Command(CommandError),
    Loop(LoopError),
}

impl From<CommandError> for ResumeError {
    fn from(error: CommandError) -> Self {
        Self::Command(error)
    }
}

/// Prints the calls that need a decision.
fn print_calls(store: &OpenStore, session: &SessionId, calls: &[ToolIdempotencyError]) {
    let Ok(state) = turns_of(store, session) else { return };
    for call in calls.iter().filter_map(|it| state.call(&it.call)) {
        say(format_args!("? {} {} {}", call.call_id, call.name, short(&call.arguments)));
    }
}

/// Returns the recorded turns of a session's loop.
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
        Some(_) => recorded_setup(&store.shared(), session).await?.as_ref() == Some(setup),
        None => false,
    };
    if !is_known {
        // Recorded in the same write as the prompt: a session with a prompt can always be resumed
        // by another process.
        agent_loop = agent_loop.with_note(Payload::OptionsUpdate(setup.to_event()));
    }
    let cancel = CancellationToken::new();
    tokio::spawn(stop_when_asked(cancel.clone()));
    Ok(agent_loop.cancel(cancel).watch(show.into_watcher()))
}

/// Stops the run at the first Ctrl-C, and the program at the second.
async fn stop_when_asked(cancel: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_ok() {
        say("stopping; press Ctrl-C again to exit at once");
        cancel.cancel();
    }
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(130);
    }
}

/// Returns the last recorded setup of a session's run.
async fn recorded_setup(
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
            // A cheap text search, because most records are other events and need not be parsed.
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

/// Returns the setup of a session's run, which `threadfold run` records.
pub(crate) fn setup_of(store: &OpenStore, session: &SessionId) -> Result<RunSetup, CommandError> {
    store.wait(recorded_setup(&store.shared(), session))?.ok_or_else(|| {
        CommandError::new(
            anyhow!("session `{session}` was not started by `threadfold run`"),
            "resume it with the program that runs it; `threadfold runs` shows unfinished runs",
        )
    })
}

/// An unfinished run.
pub(crate) struct UnfinishedRun {
    pub(crate) entry: SessionEntry,
    pub(crate) turn: u64,
    pub(crate) waits_for: String,
}

/// Returns the unfinished runs, the latest first.
pub(crate) fn unfinished_runs(store: &OpenStore) -> Result<Vec<UnfinishedRun>, CommandError> {
    let mut found = Vec::new();
    for entry in store.sessions()? {
        if !crate::store::summary_of(store, &entry)?.is_unfinished {
            continue;
        }
        let turns = turns_of(store, &entry.session)?;
        // The tools are not set up here, so only the effect recorded at a call's start counts.
        if let Some(waits_for) = pending_step(&turns, |_| Effect::Pure) {
            found.push(UnfinishedRun { entry, turn: turns.turns().len() as u64, waits_for });
        }
    }
    found.sort_by_key(|it| std::cmp::Reverse(it.entry.updated));
    Ok(found)
}

//! Runs of our own loop: setting one up, showing it, and resuming it in another process.

mod consent;
mod demo;
mod recorded;
mod setup;
mod show;
mod stop;

use threadfold_core::{Effect, Payload, SessionId, ToolIdempotencyError, TurnState};
use threadfold_engine::load;
use threadfold_fold::Slices;
use threadfold_loop::{
    AgentLoop, LoopError, MarkKey, RenderedPrompt, Resume, RunOutcome, pending_step,
};
use threadfold_store::SessionEntry;
use tokio_util::sync::CancellationToken;

use crate::error::{CommandError, print_note};
use crate::store::OpenStore;

pub(crate) use consent::{Consent, ask_to_trust};
pub(crate) use demo::counted;
pub(crate) use recorded::{MarkArgs, RecordedRun};
pub(crate) use setup::{ProviderArg, RunSetup, absolute};
pub(crate) use show::{Show, show_finished};

use show::short;
use stop::{RunCommand, explain};

/// Sends a prompt in a session, and shows the run.
pub(crate) fn run(
    store: &OpenStore,
    session: &SessionId,
    (setup, key): (&RunSetup, &MarkKey),
    prompt: &str,
    resume: Resume,
    show: Show,
    greeting: &str,
) -> Result<RunOutcome, CommandError> {
    store.wait(async {
        let agent_loop = agent_loop(store, session, setup, key, show).await?;
        print_note(greeting);
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
        print_note(format_args!("session {session} is empty and could not be removed: {error}"));
    }
}

/// Resumes a run, and shows it.
pub(crate) fn resume(
    store: &OpenStore,
    session: &SessionId,
    (setup, key): (&RunSetup, &MarkKey),
    resume: Resume,
    show: Show,
) -> Result<RunOutcome, CommandError> {
    let finished = store.wait(async {
        let agent_loop = agent_loop(store, session, setup, key, show).await?;
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
        print_note(format_args!("? {} {} {}", call.call_id, call.name, short(&call.arguments)));
    }
}

/// Returns the turns of a session's loop, for people to look at: its ledger, or else what its
/// records report.
pub(crate) fn turns_of(store: &OpenStore, session: &SessionId) -> Result<TurnState, CommandError> {
    let shared = store.shared();
    let loaded = store.wait(load(&shared, session, u64::MAX, Slices::default()))?;
    Ok(match loaded.fold.turns().last() {
        Some(_) => loaded.fold.turns().clone(),
        None => loaded.fold.reported_turns().clone(),
    })
}

async fn agent_loop(
    store: &OpenStore,
    session: &SessionId,
    setup: &RunSetup,
    key: &MarkKey,
    show: Show,
) -> Result<AgentLoop, CommandError> {
    let mut agent_loop = setup.agent_loop(store, session).await?.mark_with(key.clone());
    let recorded = RecordedRun::read(&*store.shared(), session, key).await?;
    if recorded.own() != Some(setup) {
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
        print_note("stopping; press Ctrl-C again to exit at once");
        cancel.cancel();
    }
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(130);
    }
}

/// Returns what a session records about its run.
pub(crate) fn recorded_run(
    store: &OpenStore,
    session: &SessionId,
    key: &MarkKey,
) -> Result<RecordedRun, CommandError> {
    store.wait(RecordedRun::read(&*store.shared(), session, key))
}

/// Returns why an untrusted run is not resumed, and how it can be.
pub(crate) fn explain_untrusted(
    store: &OpenStore,
    session: SessionId,
    why: String,
) -> CommandError {
    let error = LoopError::Untrusted { session: session.clone(), why };
    explain(store, &session, error, RunCommand::Resume)
}

/// An unfinished run.
pub(crate) struct UnfinishedRun {
    pub(crate) entry: SessionEntry,
    pub(crate) turn: u64,
    pub(crate) waits_for: String,
    /// No loop here wrote it.
    pub(crate) is_imported: bool,
    /// A record reports what it may use, so that `threadfold resume` can continue it.
    pub(crate) is_resumable: bool,
}

/// Returns the unfinished runs, the latest first.
pub(crate) fn unfinished_runs(store: &OpenStore) -> Result<Vec<UnfinishedRun>, CommandError> {
    let mut found = Vec::new();
    for entry in store.sessions()? {
        if !crate::store::summary_of(store, &entry)?.is_unfinished {
            continue;
        }
        let shared = store.shared();
        let loaded = store.wait(load(&shared, &entry.session, u64::MAX, Slices::default()))?;
        let is_imported = loaded.fold.turns().last().is_none();
        let turns = match is_imported {
            true => loaded.fold.reported_turns(),
            false => loaded.fold.turns(),
        };
        // The tools are not set up here, so only the effect recorded at a call's start counts.
        if let Some(waits_for) = pending_step(turns, |_| Effect::Pure) {
            let turn = turns.turns().len() as u64;
            let is_resumable = store.wait(recorded::has_setup(&*shared, &entry.session))?;
            found.push(UnfinishedRun { entry, turn, waits_for, is_imported, is_resumable });
        }
    }
    found.sort_by_key(|it| std::cmp::Reverse(it.entry.updated));
    Ok(found)
}

//! The process that is killed: runs the session, or resumes it where it stopped.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use threadfold_core::CallId;
use threadfold_engine::holder;
use threadfold_loop::{
    AgentLoop, Decision, LoopError, Progress, RenderedPrompt, Resume, ScriptedProvider,
};
use threadfold_store::{Holder, Store};
use threadfold_testkit::DelegatingStore;

use crate::BoxError;
use crate::control::record_after;
use crate::kill_switch::KillSwitch;
use crate::run_place::RunPlace;
use crate::story::script;
use crate::tools::tools;

/// The exit code of a child that needs a decision.
pub(crate) const UNDECIDED: u8 = 3;
/// The exit code of a child that was refused because another process runs the session.
pub(crate) const HELD: u8 = 4;
/// The exit code of a child that lost its lease.
pub(crate) const LEASE_LOST: u8 = 5;

/// The write at which a process kills itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fail {
    /// None.
    Never,
    /// Before this write, counted from 1.
    Before(u64),
    /// After this write, counted from 1.
    After(u64),
}

/// The arguments of a child.
#[derive(Clone, Debug)]
pub struct ChildArgs {
    /// The store and the session.
    pub place: RunPlace,
    /// The machine that it says to be on; the real one if it says nothing.
    pub node: Option<String>,
    /// The world that its tools report to.
    pub world: SocketAddr,
    /// How long a tool takes, in milliseconds.
    pub pace: u64,
    /// How long its lease lasts, in milliseconds.
    pub lease: u64,
    /// Where it kills itself.
    pub fail: Fail,
    /// The results of calls, as decided by a person.
    pub results: BTreeMap<String, String>,
    /// When it records a turn.
    pub recording: Recording,
}

/// When a child records a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Before its tools run, as the durable loop does.
    BeforeTools,
    /// After its tools have run, as the control does.
    AfterTools,
}

impl ChildArgs {
    /// Returns the arguments of a child that is not killed.
    pub fn new(place: RunPlace, world: SocketAddr) -> Self {
        Self {
            place,
            node: None,
            world,
            pace: 10,
            lease: 30_000,
            fail: Fail::Never,
            results: BTreeMap::new(),
            recording: Recording::BeforeTools,
        }
    }
}

/// Runs the child. Prints one line on stdout for everything that is acknowledged.
pub fn child(args: &ChildArgs) -> Result<ExitCode, BoxError> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build()?.block_on(run(args))
}

async fn run(args: &ChildArgs) -> Result<ExitCode, BoxError> {
    let store = args.place.open().await?;
    let store: Arc<dyn Store> = Arc::new(DelegatingStore::new(store, KillSwitch::new(args.fail)));
    let tools = tools(args.world, Duration::from_millis(args.pace));
    let agent_loop =
        AgentLoop::new(store.clone(), Arc::new(ScriptedProvider::new(script())), "script")
            .holder(own_holder(args))
            .lease(Duration::from_millis(args.lease))
            .tools(tools.clone())
            .watch(acknowledge);
    if args.recording == Recording::AfterTools {
        record_after(&store, &args.place.session, &agent_loop, &tools).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let session = args.place.session.clone();
    let decide = |(call, text): (&String, &String)| {
        (CallId::from(call.as_str()), Decision::Result(text.clone()))
    };
    let decisions = args.results.iter().map(decide).collect();
    let is_new = store.head(&session).await?.is_none_or(|head| head.seq == 0);
    let ended = match is_new {
        true => agent_loop.run(&session, &RenderedPrompt::text("Do the errands.")).await,
        false => agent_loop.resume(&session, Resume { decisions, ..Resume::default() }).await,
    };
    match ended {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(LoopError::Undecided { calls }) => {
            for error in calls {
                print(&format!("undecided {} {}", error.call, error.tool));
            }
            Ok(ExitCode::from(UNDECIDED))
        }
        Err(LoopError::Held { .. }) => Ok(ExitCode::from(HELD)),
        Err(LoopError::LeaseLost { holder, .. }) => {
            print(&format!("lost {}", holder.process));
            Ok(ExitCode::from(LEASE_LOST))
        }
        Err(error) => Err(error.into()),
    }
}

fn own_holder(args: &ChildArgs) -> Holder {
    let own = holder("a child");
    let host = args.node.clone().unwrap_or_else(|| own.host.clone());
    Holder { host, ..own }
}

/// Prints what is durable by now, for the harness.
fn acknowledge(progress: &Progress) {
    match progress {
        Progress::Answered { turn, .. } => print(&format!("answered {turn}")),
        Progress::ToolFinished { call, .. } => print(&format!("finished {call}")),
        _ => {}
    }
}

fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    // If the harness is gone, the line is not needed.
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}

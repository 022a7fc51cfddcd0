//! The process that is killed: one run, from wherever it stopped.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use threadfold_core::CallId;
use threadfold_engine::holder;
use threadfold_loop::{AgentLoop, Decision, LoopError, Progress, Rendered, Resume, Scripted};
use threadfold_store::{SqliteStore, Store};

use crate::BoxError;
use crate::control::record_after;
use crate::killing::Killing;
use crate::story::script;
use crate::tools::tools;

/// The session of the run.
pub(crate) const SESSION: &str = "errands";
/// How a child ends that waits for a person.
pub(crate) const UNDECIDED: u8 = 3;
/// How a child ends that was refused, because another runs the session.
pub(crate) const HELD: u8 = 4;
/// How a child ends that was passed over.
pub(crate) const LEASE_LOST: u8 = 5;

/// At which write a process kills itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fail {
    /// At none.
    Never,
    /// Before this one, from 1.
    Before(u64),
    /// When this one is done, from 1.
    After(u64),
}

/// What a child is to do.
#[derive(Clone, Debug)]
pub struct ChildArgs {
    /// The store.
    pub store: PathBuf,
    /// The world.
    pub world: SocketAddr,
    /// How long a tool takes, in milliseconds.
    pub pace: u64,
    /// How long its lease lasts, in milliseconds.
    pub lease: u64,
    /// Where it kills itself.
    pub fail: Fail,
    /// What a person says that calls gave.
    pub results: BTreeMap<String, String>,
    /// It records a turn after its tools, as a loop does that is not durable.
    pub is_control: bool,
}

/// Runs the child. What is acknowledged is told on stdout, a line each.
pub fn child(args: &ChildArgs) -> Result<ExitCode, BoxError> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build()?.block_on(run(args))
}

async fn run(args: &ChildArgs) -> Result<ExitCode, BoxError> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&args.store)?);
    let store: Arc<dyn Store> = Arc::new(Killing::new(store, args.fail));
    let tools = tools(args.world, Duration::from_millis(args.pace));
    let agent_loop = AgentLoop::new(store.clone(), Arc::new(Scripted::new(script())), "script")
        .holder(holder("a child"))
        .lease(Duration::from_millis(args.lease))
        .tools(tools.clone())
        .watch(acknowledge);
    if args.is_control {
        record_after(&store, &agent_loop, &tools).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let session = SESSION.into();
    let decide = |(call, text): (&String, &String)| {
        (CallId::from(call.as_str()), Decision::Result(text.clone()))
    };
    let decisions = args.results.iter().map(decide).collect();
    let is_new = store.head(&session).await?.is_none_or(|head| head.seq == 0);
    let ended = match is_new {
        true => agent_loop.run(&session, &Rendered::text("Do the errands.")).await,
        false => {
            agent_loop.resume(&session, Resume { decisions, adopt: false, instead: false }).await
        }
    };
    match ended {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(LoopError::Undecided { calls }) => {
            for error in calls {
                told(&format!("undecided {} {}", error.call, error.tool));
            }
            Ok(ExitCode::from(UNDECIDED))
        }
        Err(LoopError::Held { .. }) => Ok(ExitCode::from(HELD)),
        Err(LoopError::LeaseLost { holder, .. }) => {
            told(&format!("lost {}", holder.process));
            Ok(ExitCode::from(LEASE_LOST))
        }
        Err(error) => Err(error.into()),
    }
}

/// Tells the harness what is durable by now.
fn acknowledge(progress: &Progress) {
    match progress {
        Progress::Answered { turn, .. } => told(&format!("answered {turn}")),
        Progress::ToolFinished { call, .. } => told(&format!("finished {call}")),
        _ => {}
    }
}

fn told(line: &str) {
    let mut out = std::io::stdout().lock();
    // When the harness is gone, nobody needs to know.
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}

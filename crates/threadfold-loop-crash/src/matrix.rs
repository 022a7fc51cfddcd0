//! The kill matrix: kills a run at every write and at random moments, and resumes it until it is
//! done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use threadfold_core::{ConversationMessage, NextStep, TurnState, resume_plan};
use threadfold_engine::{EngineError, load};
use threadfold_fold::Slices;
use threadfold_store::StoreError;

use crate::BoxError;
use crate::child::{ChildArgs, Fail, HELD, Recording, UNDECIDED};
use crate::run_place::{RunPlace, StoreKind};
use crate::story::{TOOLS, result_of};
use crate::world::World;

/// How children are started.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The program that runs a child.
    pub program: PathBuf,
    /// How long a tool takes, in milliseconds.
    pub pace: u64,
    /// Where runs are kept.
    pub store: StoreKind,
}

/// How long a lease lasts whose holder nobody can see, in milliseconds.
const DISTRIBUTED_LEASE: u64 = 500;
/// How long to wait before a refused process is started again.
const HELD_PAUSE: Duration = Duration::from_millis(50);

/// The result of runs that were killed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of runs.
    pub runs: u64,
    /// How often a process was killed.
    pub kills: u64,
    /// How often a person had to decide.
    pub decisions: u64,
    /// The number of finished calls that ran again.
    pub finished_again: u64,
    /// The number of unsafe calls that were started twice.
    pub unsafe_twice: u64,
    /// The number of effects that were applied twice.
    pub doubled: u64,
    /// The number of answers and results that were acknowledged but lost.
    pub lost: u64,
    /// The number of finished runs whose messages differ from those of an undisturbed run.
    pub other_messages: u64,
}

impl Report {
    /// Returns true if nothing went wrong.
    pub fn is_clean(&self) -> bool {
        let Self { finished_again, unsafe_twice, doubled, lost, other_messages, .. } = self;
        [finished_again, unsafe_twice, doubled, lost, other_messages].into_iter().all(|it| *it == 0)
    }

    fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.kills += other.kills;
        self.decisions += other.decisions;
        self.finished_again += other.finished_again;
        self.unsafe_twice += other.unsafe_twice;
        self.doubled += other.doubled;
        self.lost += other.lost;
        self.other_messages += other.other_messages;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            ("runs", self.runs),
            ("kills", self.kills),
            ("decisions by a person", self.decisions),
            ("finished tools that ran again", self.finished_again),
            ("unsafe tools started twice", self.unsafe_twice),
            ("effects applied twice", self.doubled),
            ("acknowledged answers and results lost", self.lost),
            ("finished runs with different messages", self.other_messages),
        ];
        lines.iter().try_for_each(|(what, count)| writeln!(f, "| {what} | {count} |"))
    }
}

/// Kills a run before and after every write.
pub fn boundaries(matrix: &Matrix) -> Result<Report, BoxError> {
    let expected = matrix.undisturbed()?;
    let mut report = Report::default();
    for number in 1.. {
        let before = matrix.killed_run(Kill::At(Fail::Before(number)), &expected)?;
        let after = matrix.killed_run(Kill::At(Fail::After(number)), &expected)?;
        report.add(&before);
        report.add(&after);
        if before.kills == 0 && after.kills == 0 {
            return Ok(report);
        }
    }
    Ok(report)
}

/// Kills runs at random moments, until the number of kills is reached.
pub fn random_kills(matrix: &Matrix, kills: u64, seed: u64) -> Result<Report, BoxError> {
    let expected = matrix.undisturbed()?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut report = Report::default();
    while report.kills < kills {
        let seed = random.u64(..);
        report.add(
            &matrix.killed_run(Kill::Randomly { seed, lasting: expected.lasting }, &expected)?,
        );
    }
    Ok(report)
}

/// Kills the control at random moments, and returns what the harness detected.
pub fn control_fails(matrix: &Matrix, kills: u64, seed: u64) -> Result<Report, BoxError> {
    let expected = matrix.undisturbed()?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut report = Report::default();
    while report.kills < kills {
        let kill = Kill::Control { seed: random.u64(..), lasting: expected.lasting };
        report.add(&matrix.killed_run(kill, &expected)?);
    }
    Ok(report)
}

/// The result of an undisturbed run.
struct ExpectedRun {
    messages: Vec<ConversationMessage>,
    lasting: Duration,
}

#[derive(Clone, Copy)]
enum Kill {
    At(Fail),
    Randomly { seed: u64, lasting: Duration },
    Control { seed: u64, lasting: Duration },
}

impl Matrix {
    /// Returns the arguments of a child that is not killed.
    pub(crate) fn args(&self, place: &RunPlace, world: &World) -> ChildArgs {
        let mut args = ChildArgs::new(place.clone(), world.address());
        args.pace = self.pace;
        if self.store.is_distributed() {
            args.lease = DISTRIBUTED_LEASE;
        }
        args
    }

    fn undisturbed(&self) -> Result<ExpectedRun, BoxError> {
        let (place, world) = (self.store.place()?, World::begin()?);
        let began = Instant::now();
        let mut run = ChildProcess::start(self, &self.args(&place, &world))?;
        let (status, _) = run.wait()?;
        if !status.success() {
            return Err(format!("an undisturbed run ended with {status}").into());
        }
        let lasting = began.elapsed();
        Ok(ExpectedRun { messages: timeless_history(&recorded_turns(&place)?), lasting })
    }

    /// Kills a run, resumes it until it is done, and counts what went wrong.
    fn killed_run(&self, kill: Kill, expected: &ExpectedRun) -> Result<Report, BoxError> {
        let (place, world) = (self.store.place()?, World::begin()?);
        let mut report = Report { runs: 1, ..Report::default() };
        let mut args = self.args(&place, &world);
        let mut random = match kill {
            Kill::Randomly { seed, .. } | Kill::Control { seed, .. } => {
                Some(fastrand::Rng::with_seed(seed))
            }
            Kill::At(_) => None,
        };
        if matches!(kill, Kill::Control { .. }) {
            args.recording = Recording::AfterTools;
        }
        if let Kill::At(fail) = kill {
            args.fail = fail;
        }
        let mut acknowledged = BTreeSet::new();
        for attempt in 0.. {
            if attempt > 200 {
                return Err("the run does not finish".into());
            }
            let finished = finished_calls(&place, &world)?;
            if self.store.is_distributed() {
                args.node = Some(format!("machine {attempt}"));
            }
            let mut run = ChildProcess::start(self, &args)?;
            if let (Some(random), Kill::Randomly { lasting, .. } | Kill::Control { lasting, .. }) =
                (&mut random, kill)
            {
                // A run that was killed a few times may finish.
                if attempt < 4 {
                    run.kill_after(lasting.mul_f64(random.f64() * 1.1))?;
                }
            }
            let (status, lines) = run.wait()?;
            args.fail = Fail::Never;
            report.kills += u64::from(was_killed(status));
            acknowledged.extend(lines.iter().filter(|it| !it.starts_with("undecided")).cloned());
            let state = recorded_turns(&place)?;
            report.finished_again += ran_again(&finished, &world);
            report.lost += missing(&acknowledged, &state);
            if status.success() {
                report.other_messages += u64::from(timeless_history(&state) != expected.messages);
                break;
            }
            args.results.clear();
            if status.code() == Some(UNDECIDED.into()) {
                for line in lines.iter().filter(|it| it.starts_with("undecided ")) {
                    let words: Vec<_> = line.split(' ').collect();
                    let [_, call, tool] = words[..] else { continue };
                    args.results.insert(call.to_owned(), result_of(tool));
                    report.decisions += 1;
                }
            } else if self.store.is_distributed() && status.code() == Some(HELD.into()) {
                // The lease of the machine before lasts.
                thread::sleep(HELD_PAUSE);
            } else if !was_killed(status) {
                return Err(format!("a child ended with {status}").into());
            }
        }
        report.doubled += world.effects().1;
        for (tool, effect) in TOOLS {
            if effect == threadfold_core::Effect::Unsafe {
                report.unsafe_twice +=
                    world.started_by(tool).iter().filter(|it| **it > 1).count() as u64;
            }
        }
        Ok(report)
    }
}

/// Returns the finished calls, with how often each was started until then.
fn finished_calls(place: &RunPlace, world: &World) -> Result<BTreeMap<String, u64>, BoxError> {
    let state = recorded_turns(place)?;
    let begun = world.started();
    let calls = state.turns().flat_map(|turn| turn.calls());
    let finished = calls.filter(|call| call.result().is_some()).filter_map(|call| {
        let key = call.key.as_ref()?.to_string();
        let times = begun.get(&key).copied().unwrap_or_default();
        Some((key, times))
    });
    Ok(finished.collect())
}

fn ran_again(finished: &BTreeMap<String, u64>, world: &World) -> u64 {
    let begun = world.started();
    let again = |(key, times): (&String, &u64)| begun.get(key).is_some_and(|now| now > times);
    finished.iter().filter(|it| again(*it)).count() as u64
}

/// Returns the messages of a run without their times, which differ from run to run.
fn timeless_history(state: &TurnState) -> Vec<ConversationMessage> {
    let timeless = |message| ConversationMessage { created_at: None, ..message };
    state.history().into_iter().map(timeless).collect()
}

/// Returns how many acknowledged lines have no record.
fn missing(acknowledged: &BTreeSet<String>, state: &TurnState) -> u64 {
    let is_recorded = |line: &String| match line.split_once(' ') {
        Some(("answered", turn)) => {
            let turn = turn.parse().unwrap_or(u64::MAX);
            state.turns().any(|it| it.number() == turn && it.answer().is_some())
        }
        Some(("finished", call)) => {
            state.call(&call.into()).is_some_and(|call| call.result().is_some())
        }
        _ => true,
    };
    acknowledged.iter().filter(|line| !is_recorded(line)).count() as u64
}

/// Returns the recorded turns of the run.
pub(crate) fn recorded_turns(place: &RunPlace) -> Result<TurnState, BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = place.open().await?;
        match load(&store, &place.session, u64::MAX, Slices::default()).await {
            Ok(loaded) => Ok(loaded.fold.turns().clone()),
            Err(EngineError::Store(StoreError::NotFound { .. })) => Ok(TurnState::default()),
            Err(error) => Err(error.into()),
        }
    })
}

/// Returns true if a run is finished.
pub(crate) fn is_done(state: &TurnState) -> bool {
    let plan = resume_plan(state, |_| threadfold_core::Effect::Unsafe);
    plan.next == NextStep::Done
}

#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status).is_some()
}

/// A running child process.
pub(crate) struct ChildProcess {
    child: Child,
}

impl ChildProcess {
    pub(crate) fn start(matrix: &Matrix, args: &ChildArgs) -> Result<Self, BoxError> {
        let mut command = Command::new(&matrix.program);
        command.arg("child").arg(&args.place.store).arg(args.world.to_string());
        command.args(["--session", args.place.session.as_str()]);
        if let Some(node) = &args.node {
            command.args(["--node", node]);
        }
        command.args(["--pace", &args.pace.to_string(), "--lease", &args.lease.to_string()]);
        match args.fail {
            Fail::Never => {}
            Fail::Before(number) => drop(command.args(["--fail-before", &number.to_string()])),
            Fail::After(number) => drop(command.args(["--fail-after", &number.to_string()])),
        }
        for (call, text) in &args.results {
            command.args(["--result", &format!("{call}={text}")]);
        }
        if args.recording == Recording::AfterTools {
            command.arg("--control");
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        Ok(Self { child })
    }

    /// Kills the child after this time, unless it has ended.
    fn kill_after(&mut self, pause: Duration) -> Result<(), BoxError> {
        thread::sleep(pause);
        self.child.kill()?;
        Ok(())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end, and returns the lines that it acknowledged.
    pub(crate) fn wait(&mut self) -> Result<(ExitStatus, Vec<String>), BoxError> {
        let mut output = Vec::new();
        if let Some(mut out) = self.child.stdout.take() {
            out.read_to_end(&mut output)?;
        }
        let status = self.child.wait()?;
        // A line that was truncated by the kill does not count as acknowledged.
        let whole = output.iter().rposition(|it| *it == b'\n').map_or(0, |at| at + 1);
        let lines = String::from_utf8_lossy(&output[..whole]);
        Ok((status, lines.lines().map(str::to_owned).collect()))
    }
}

impl ChildProcess {
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

//! Races: two processes that resume one run, and a process that is suspended beyond its lease.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::BoxError;
use crate::child::{ChildArgs, Fail, HELD, LEASE_LOST, UNDECIDED};
use crate::matrix::{ChildProcess, Matrix, is_done, recorded_turns};
use crate::world::World;

/// The result of two processes that resumed one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RaceResult {
    /// How many ran it to its end.
    pub winners: u64,
    /// How many were refused, or lost their lease.
    pub refused: u64,
    /// How many calls were started more than once.
    pub started_twice: u64,
}

/// Kills a run after its second write, and lets two processes resume it at once.
///
/// The winner is held in the middle of a tool until the other has ended.
pub fn race(matrix: &Matrix) -> Result<RaceResult, BoxError> {
    let (place, world) = (matrix.store.place()?, World::begin()?);
    let args = matrix.args(&place, &world);
    ChildProcess::start(matrix, &ChildArgs { fail: Fail::After(2), ..args.clone() })?.wait()?;
    world.hold("look");
    let mut racers = [ChildProcess::start(matrix, &args)?, ChildProcess::start(matrix, &args)?];
    world.wait_until_held();
    // One of them is in the middle of a tool. The other ends, or keeps racing for a while.
    let mut raced = RaceResult::default();
    let first = first_to_end(&mut racers);
    world.release();
    for (number, racer) in racers.iter_mut().enumerate() {
        let (status, _) = racer.wait()?;
        match status.code() {
            Some(0) => raced.winners += 1,
            Some(code) if code == i32::from(HELD) || code == i32::from(LEASE_LOST) => {
                raced.refused += 1;
            }
            other => return Err(format!("racer {number} ended with {other:?}").into()),
        }
        if Some(number) == first && status.success() {
            return Err("the process that had to be refused finished the run".into());
        }
    }
    if !is_done(&recorded_turns(&place)?) {
        return Err("no process finished the run".into());
    }
    raced.started_twice = world.started().values().filter(|times| **times > 1).count() as u64;
    Ok(raced)
}

/// Waits for a while until one of them ends.
fn first_to_end(racers: &mut [ChildProcess; 2]) -> Option<usize> {
    for _ in 0..400 {
        if let Some(ended) = racers.iter_mut().position(ChildProcess::has_ended) {
            return Some(ended);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Suspends a process in the middle of a tool until its lease has expired and another process has
/// finished the run, then resumes it. Returns its exit code, and whether the log is unchanged.
pub fn zombie(matrix: &Matrix) -> Result<(Option<i32>, bool), BoxError> {
    let (place, world) = (matrix.store.place()?, World::begin()?);
    let mut args = matrix.args(&place, &world);
    world.hold("pay");
    let lease = 600;
    let mut zombie = ChildProcess::start(matrix, &ChildArgs { lease, ..args.clone() })?;
    world.wait_until_held();
    let pid = i32::try_from(zombie.id()).ok().and_then(Pid::from_raw).ok_or("no such process")?;
    kill_process(pid, Signal::STOP)?;
    std::thread::sleep(Duration::from_millis(lease * 2));

    loop {
        let mut other = ChildProcess::start(matrix, &args)?;
        let (status, lines) = other.wait()?;
        if status.success() {
            break;
        }
        if status.code() != Some(UNDECIDED.into()) {
            return Err(format!("the other process ended with {status}").into());
        }
        args.results.clear();
        for line in lines.iter().filter_map(|it| it.strip_prefix("undecided ")) {
            let (call, tool) = line.split_once(' ').unwrap_or((line, ""));
            args.results.insert(call.to_owned(), crate::story::result_of(tool));
        }
    }
    let before = recorded_turns(&place)?;
    kill_process(pid, Signal::CONT)?;
    world.release();
    let (status, _) = zombie.wait()?;
    Ok((status.code(), recorded_turns(&place)? == before))
}

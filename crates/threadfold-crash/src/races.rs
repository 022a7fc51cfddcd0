//! Two processes that resume one run, and one that was stopped past its lease.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::BoxError;
use crate::child::{Fail, HELD, LEASE_LOST, UNDECIDED};
use crate::matrix::{Matrix, Running, is_done, kept};
use crate::world::World;

/// What became of two processes that resumed one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raced {
    /// How many went on with it.
    pub winners: u64,
    /// How many were refused, or were told that they came too late.
    pub refused: u64,
    /// How many calls were begun more than once.
    pub begun_twice: u64,
}

/// Kills a run after its third write, and lets two processes resume it at once.
///
/// The winner is kept in the middle of a tool until the other has ended.
pub fn race(matrix: &Matrix) -> Result<Raced, BoxError> {
    let (folder, world) = (tempfile::tempdir()?, World::begin()?);
    let store = folder.path().join("store.db");
    let none = BTreeMap::new();
    Running::start(matrix, &store, &world, Fail::After(2), &none, false)?.wait()?;
    world.hold("look");
    let mut racers = [
        Running::start(matrix, &store, &world, Fail::Never, &none, false)?,
        Running::start(matrix, &store, &world, Fail::Never, &none, false)?,
    ];
    world.wait_until_held();
    // One of them is in the middle of a tool. The other ends by itself, or races on for a while.
    let mut raced = Raced::default();
    let first = first_to_end(&mut racers);
    world.let_go();
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
            return Err("the one that was to be refused went on".into());
        }
    }
    if !is_done(&kept(&store)?) {
        return Err("nobody brought the run to its end".into());
    }
    raced.begun_twice = world.begun().values().filter(|times| **times > 1).count() as u64;
    Ok(raced)
}

/// Waits for a while whether one of them ends by itself.
fn first_to_end(racers: &mut [Running; 2]) -> Option<usize> {
    for _ in 0..400 {
        if let Some(ended) = racers.iter_mut().position(Running::has_ended) {
            return Some(ended);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// Stops a process in the middle of a tool until its lease is over and another has finished the
/// run, then lets it go on. Returns how it ended, and whether the log is as the other left it.
pub fn zombie(matrix: &Matrix) -> Result<(Option<i32>, bool), BoxError> {
    let (folder, world) = (tempfile::tempdir()?, World::begin()?);
    let store = folder.path().join("store.db");
    let none = BTreeMap::new();
    world.hold("pay");
    let lease = 600;
    let mut zombie = Running::start_with(matrix, &store, &world, Fail::Never, &none, false, lease)?;
    world.wait_until_held();
    let pid = i32::try_from(zombie.id()).ok().and_then(Pid::from_raw).ok_or("no such process")?;
    kill_process(pid, Signal::STOP)?;
    std::thread::sleep(Duration::from_millis(lease * 2));

    let mut results = BTreeMap::new();
    loop {
        let mut other =
            Running::start_with(matrix, &store, &world, Fail::Never, &results, false, 30_000)?;
        let (status, lines) = other.wait()?;
        if status.success() {
            break;
        }
        if status.code() != Some(UNDECIDED.into()) {
            return Err(format!("the other ended with {status}").into());
        }
        results.clear();
        for line in lines.iter().filter_map(|it| it.strip_prefix("undecided ")) {
            let (call, tool) = line.split_once(' ').unwrap_or((line, ""));
            results.insert(call.to_owned(), crate::story::result_of(tool));
        }
    }
    let before = kept(&store)?;
    kill_process(pid, Signal::CONT)?;
    world.let_go();
    let (status, _) = zombie.wait()?;
    Ok((status.code(), kept(&store)? == before))
}

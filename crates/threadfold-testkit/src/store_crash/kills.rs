//! Kills a process repeatedly while it writes one growing file.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::BoxError;
use super::random::Random;
use super::verify::{AcknowledgedWrites, examine, look};

/// The number of concurrent writers: enough that their appends are sometimes batched.
const WRITERS: u64 = 24;
/// The maximum number of acknowledgements to wait for before a kill.
const PATIENCE: u64 = 120;
/// The maximum time to open a store of any size in this test.
const OPENING: Duration = Duration::from_secs(1);

/// The result of several kills.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kills {
    /// The number of kills.
    pub kills: u64,
    /// How many appends were acknowledged.
    pub acknowledged: u64,
    /// The number of records at the end.
    pub records: u64,
    /// The longest time to open the store.
    pub slowest_opening: Duration,
}

/// Kills a child `kills` times, at moments derived from `seed`, and checks the store each time.
///
/// `program child PATH WRITERS` must run [`child`](super::child()).
pub fn kill(program: &Path, file: &Path, kills: u64, seed: u64) -> Result<Kills, BoxError> {
    let mut random = Random::new(seed);
    let mut acknowledged = AcknowledgedWrites::default();
    let mut looked_at = BTreeMap::new();
    let mut sum = Kills::default();
    for kill in 0..kills {
        let mut child = start(program, file, WRITERS)?;
        hear_some(&mut child, &mut acknowledged, random.below(PATIENCE))?;
        wait_a_moment(Duration::from_micros(random.below(1500)));
        stop(child, &mut acknowledged)?;
        let looked = look(file, WRITERS, &acknowledged, &mut looked_at)
            .map_err(|error| format!("after kill {kill} (seed {seed}): {error}"))?;
        sum.slowest_opening = sum.slowest_opening.max(looked.opened_in);
        sum.records = looked.records;
    }
    // A final check from the beginning: earlier records must still be intact.
    look(file, WRITERS, &acknowledged, &mut BTreeMap::new())?;
    examine(file)?;
    sum.kills = kills;
    sum.acknowledged = acknowledged.count;
    if sum.slowest_opening > OPENING {
        return Err(format!("opening took {:?}", sum.slowest_opening).into());
    }
    Ok(sum)
}

/// Starts a child that writes to `file`.
pub(super) fn start(program: &Path, file: &Path, writers: u64) -> Result<Child, BoxError> {
    let child = Command::new(program)
        .arg("child")
        .arg(file)
        .arg(writers.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// Reads this many acknowledgements; fewer if the child exits.
pub(super) fn hear_some(
    child: &mut Child,
    acknowledged: &mut AcknowledgedWrites,
    count: u64,
) -> Result<(), BoxError> {
    let Some(said) = child.stdout.as_mut() else { return Err("a child without a pipe".into()) };
    // Read one line at a time, so that the rest stays in the pipe.
    let mut said = BufReader::with_capacity(1, said);
    for _ in 0..count {
        let mut line = String::new();
        if said.read_line(&mut line)? == 0 {
            return Err("the child ended by itself".into());
        }
        acknowledged.hear(&line)?;
    }
    Ok(())
}

/// Kills a child, and reads its remaining output.
pub(super) fn stop(
    mut child: Child,
    acknowledged: &mut AcknowledgedWrites,
) -> Result<(), BoxError> {
    child.kill()?;
    let said = child.stdout.take().ok_or("a child without a pipe")?;
    acknowledged.hear_all(said)?;
    child.wait()?;
    Ok(())
}

/// Spins for a time that is too short for sleeping.
fn wait_a_moment(moment: Duration) {
    let start = Instant::now();
    while start.elapsed() < moment {
        std::hint::spin_loop();
    }
}

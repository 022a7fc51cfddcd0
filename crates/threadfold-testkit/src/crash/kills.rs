//! Killing the process, again and again, on one growing file.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::BoxError;
use super::random::Random;
use super::verify::{Acknowledged, examine, look};

/// How many write at once: enough that their appends are put together now and then.
const WRITERS: u64 = 24;
/// How many acknowledgements are waited for at most before a kill.
const PATIENCE: u64 = 120;
/// A store of any size here must open within this time.
const OPENING: Duration = Duration::from_secs(1);

/// What many kills came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kills {
    /// How often the process was killed.
    pub kills: u64,
    /// How many appends were acknowledged.
    pub acknowledged: u64,
    /// How many records there were in the end.
    pub records: u64,
    /// The longest that opening took.
    pub slowest_opening: Duration,
}

/// Kills a child `kills` times, at moments that `seed` decides, and looks each time.
///
/// `program` runs [`child`](super::child()) when it is given `child`, a path, and how many write.
pub fn kill(program: &Path, file: &Path, kills: u64, seed: u64) -> Result<Kills, BoxError> {
    let mut random = Random::new(seed);
    let mut acknowledged = Acknowledged::default();
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
    // Once more from the beginning: what was right once must have stayed so.
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

/// Hears so many acknowledgements; fewer if the child ends.
pub(super) fn hear_some(
    child: &mut Child,
    acknowledged: &mut Acknowledged,
    count: u64,
) -> Result<(), BoxError> {
    let Some(said) = child.stdout.as_mut() else { return Err("a child without a pipe".into()) };
    // A line at a time and no more, so that the rest is still in the pipe.
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

/// Kills a child, and hears what it had said until then.
pub(super) fn stop(mut child: Child, acknowledged: &mut Acknowledged) -> Result<(), BoxError> {
    child.kill()?;
    let said = child.stdout.take().ok_or("a child without a pipe")?;
    acknowledged.hear_all(said)?;
    child.wait()?;
    Ok(())
}

/// Waits so short a time that sleeping would be too long.
fn wait_a_moment(moment: Duration) {
    let start = Instant::now();
    while start.elapsed() < moment {
        std::hint::spin_loop();
    }
}

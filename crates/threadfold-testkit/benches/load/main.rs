//! Cost of loading a session, compared with a loader that parses each line into a `Value`.
//!
//! Every figure comes from a process of its own, so that its peak memory is its own: the bench
//! starts itself again with the loader's name and the file's. Times are of the thread's CPU,
//! without reading the file, the median of several rounds that take turns. The state is not
//! dropped within the time.

mod child;
mod claude_code_log;
mod loader;
mod table;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use threadfold_testkit::big_session::{
    TranscriptCounts, write_bus, write_newer_bus, write_rollout, write_stream, write_transcript,
};

use crate::child::{Measurement, measure};
use crate::loader::Loader;
use crate::table::{
    print_bus_claims, print_claims, print_head, print_rollout_claims, print_row, speeds,
};

const MB: u64 = 1_000_000;
const SIZES: [u64; 2] = [20 * MB, 200 * MB];
const STREAM_SIZE: u64 = 50 * MB;
const BUS_SIZES: [u64; 2] = [20 * MB, 100 * MB];
const ROUNDS: usize = 7;
const OF_TRANSCRIPTS: [Loader; 5] =
    [Loader::Ours, Loader::Values, Loader::ParseAndKeep, Loader::ParseOnly, Loader::Typed];
const OF_BUSES: [Loader; 2] = [Loader::OurBus, Loader::BusValues];
const OF_NEWER_BUSES: [Loader; 2] = [Loader::OurBus, Loader::NewerBusValues];
const ROLLOUT_SIZES: [u64; 2] = [20 * MB, 100 * MB];
const OF_ROLLOUTS: [Loader; 2] = [Loader::OurRollout, Loader::RolloutValues];

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(asked) = child::asked(&arguments) {
        return child::run(asked);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("load");
    std::fs::create_dir_all(&folder)?;

    let files = [
        make(&folder, "transcript", SIZES[0], write_transcript)?,
        make(&folder, "transcript", SIZES[1], write_transcript)?,
        make(&folder, "stream", STREAM_SIZE, write_stream)?,
        make(&folder, "bus", BUS_SIZES[0], write_bus)?,
        make(&folder, "bus", BUS_SIZES[1], write_bus)?,
        make(&folder, "newer-bus", BUS_SIZES[0], write_newer_bus)?,
        make(&folder, "newer-bus", BUS_SIZES[1], write_newer_bus)?,
        make(&folder, "rollout", ROLLOUT_SIZES[0], write_rollout)?,
        make(&folder, "rollout", ROLLOUT_SIZES[1], write_rollout)?,
    ];
    let [small, large, stream, small_bus, large_bus, small_newer, large_newer, rest @ ..] = &files;
    let [small_rollout, large_rollout] = rest;
    let mut plan: Vec<_> = [small, large]
        .into_iter()
        .flat_map(|file| OF_TRANSCRIPTS.map(|loader| (loader, file)))
        .collect();
    plan.push((Loader::OurStream, stream));
    for bus in [small_bus, large_bus] {
        plan.extend(OF_BUSES.map(|loader| (loader, bus)));
    }
    for bus in [small_newer, large_newer] {
        plan.extend(OF_NEWER_BUSES.map(|loader| (loader, bus)));
    }
    for rollout in [small_rollout, large_rollout] {
        plan.extend(OF_ROLLOUTS.map(|loader| (loader, rollout)));
    }
    let rows = rounds(&plan)?;

    print_head();
    for ((loader, (_, written)), row) in plan.iter().zip(&rows) {
        print_row(loader.title(), written.bytes, row);
        check_blocks(written, row);
    }
    claude_code_log::print_row(&folder, &small.0, small.1.bytes);
    let (of_small, rest) = rows.split_at(OF_TRANSCRIPTS.len());
    let (of_large, rest) = rest.split_at(OF_TRANSCRIPTS.len());
    print_claims(&speeds(small.1.bytes, of_small), &speeds(large.1.bytes, of_large));
    let (of_small, rest) = rest[1..].split_at(OF_BUSES.len());
    let (of_large, rest) = rest.split_at(OF_BUSES.len());
    let claim = |name, sizes: [&(PathBuf, TranscriptCounts); 2], rows: [&[Measurement]; 2]| {
        let [small, large] = [0, 1].map(|at| speeds(sizes[at].1.bytes, rows[at]));
        print_bus_claims(name, &small, &large);
    };
    claim("bus", [small_bus, large_bus], [of_small, of_large]);
    let (of_small, rest) = rest.split_at(OF_NEWER_BUSES.len());
    let (of_large, rest) = rest.split_at(OF_NEWER_BUSES.len());
    claim("OpenCode 2", [small_newer, large_newer], [of_small, of_large]);
    let (of_small, of_large) = rest.split_at(OF_ROLLOUTS.len());
    print_rollout_claims(
        &speeds(small_rollout.1.bytes, of_small),
        &speeds(large_rollout.1.bytes, of_large),
    );
    Ok(())
}

/// Writes a session of `size` to a file in `folder`.
fn make(
    folder: &Path,
    name: &str,
    size: u64,
    write: impl FnOnce(u64, BufWriter<File>) -> io::Result<TranscriptCounts>,
) -> io::Result<(PathBuf, TranscriptCounts)> {
    let path = folder.join(format!("{name}-{}.jsonl", size / MB));
    let written = write(size, BufWriter::new(File::create(&path)?))?;
    Ok((path, written))
}

/// Runs all loads in turns, and returns the median of each.
fn rounds(plan: &[(Loader, &(PathBuf, TranscriptCounts))]) -> io::Result<Vec<Measurement>> {
    let mut all: Vec<Vec<Measurement>> = vec![Vec::new(); plan.len()];
    for _ in 0..ROUNDS {
        for ((loader, (path, _)), rounds) in plan.iter().zip(&mut all) {
            rounds.push(measure(*loader, path)?);
        }
    }
    let median = |mut rounds: Vec<Measurement>| {
        rounds.sort_by_key(|round| round.nanoseconds);
        rounds.swap_remove(ROUNDS / 2)
    };
    Ok(all.into_iter().map(median).collect())
}

/// A loader that folds has every block that was written, of every type.
fn check_blocks(written: &TranscriptCounts, row: &Measurement) {
    if row.blocks.is_empty() {
        return;
    }
    let wanted = [
        ("user_message", written.prompts),
        ("assistant_text", written.texts),
        ("thinking", written.thoughts),
        ("tool_use", written.calls),
        ("tool_result", written.calls),
    ];
    for (kind, count) in wanted {
        assert_eq!(row.blocks.get(kind).copied().unwrap_or(0), count, "blocks of type `{kind}`");
    }
    assert_eq!(row.blocks.values().sum::<usize>(), written.blocks());
}

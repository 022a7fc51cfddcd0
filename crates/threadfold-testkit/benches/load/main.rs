//! What loading a session costs, beside the loader that parses each line into a `Value`: one
//! table in one run.
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

use threadfold_testkit::big_session::{Written, write_stream, write_transcript};

use crate::child::{Measured, measure};
use crate::loader::Loader;
use crate::table::{Claims, print_head, print_row};

const MB: u64 = 1_000_000;
const SIZES: [u64; 2] = [20 * MB, 200 * MB];
const STREAM_SIZE: u64 = 50 * MB;
const ROUNDS: usize = 5;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(asked) = child::asked(&arguments) {
        return child::run(asked);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("load");
    std::fs::create_dir_all(&folder)?;

    let mut claims = Claims::default();
    print_head();
    let mut smallest = None;
    for size in SIZES {
        let (path, written) = make(&folder, "transcript", size, write_transcript)?;
        let transcript = [Loader::Ours, Loader::Values, Loader::ParseOnly];
        let rows = rounds(&transcript, &path)?;
        for (loader, row) in transcript.iter().zip(&rows) {
            print_row(loader.title(), written.bytes, row);
            check_blocks(&written, row);
        }
        claims.add(written.bytes, &rows);
        smallest.get_or_insert((path, written));
    }
    if let Some((path, written)) = smallest {
        claude_code_log::print_row(&folder, &path, written.bytes);
    }
    let (path, written) = make(&folder, "stream", STREAM_SIZE, write_stream)?;
    let rows = rounds(&[Loader::OurStream], &path)?;
    print_row(Loader::OurStream.title(), written.bytes, &rows[0]);
    check_blocks(&written, &rows[0]);
    claims.print();
    Ok(())
}

/// Writes a session of `size` to a file in `folder`.
fn make(
    folder: &Path,
    name: &str,
    size: u64,
    write: impl FnOnce(u64, BufWriter<File>) -> io::Result<Written>,
) -> io::Result<(PathBuf, Written)> {
    let path = folder.join(format!("{name}-{}.jsonl", size / MB));
    let written = write(size, BufWriter::new(File::create(&path)?))?;
    Ok((path, written))
}

/// Runs the loaders in turns, and returns the median of each.
fn rounds(loaders: &[Loader], path: &Path) -> io::Result<Vec<Measured>> {
    let mut all: Vec<Vec<Measured>> = vec![Vec::new(); loaders.len()];
    for _ in 0..ROUNDS {
        for (loader, rounds) in loaders.iter().zip(&mut all) {
            rounds.push(measure(*loader, path)?);
        }
    }
    let median = |mut rounds: Vec<Measured>| {
        rounds.sort_by_key(|round| round.nanoseconds);
        rounds.swap_remove(ROUNDS / 2)
    };
    Ok(all.into_iter().map(median).collect())
}

/// A loader that folds has every block that was written, of every type.
fn check_blocks(written: &Written, row: &Measured) {
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

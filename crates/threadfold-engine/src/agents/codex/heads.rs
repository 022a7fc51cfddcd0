//! The first records of rollouts, which show which files belong together.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use threadfold_convert::codex::layout::{RolloutHead, head_of};

use crate::discover::name_of;

/// The most bytes that are read to find the first record; it holds the instructions to the model.
const LONGEST_HEAD: u64 = 4 << 20;

/// A rollout, with what its first record says.
#[derive(Clone, Debug)]
pub(super) struct Rollout {
    pub(super) path: PathBuf,
    pub(super) head: RolloutHead,
}

/// Reads the first record of a rollout; nothing if the file is something else or cannot be read.
pub(super) fn read(path: &Path) -> Option<Rollout> {
    // Opening a pipe would block.
    if !path.metadata().is_ok_and(|it| it.is_file()) {
        return None;
    }
    let opened = File::open(path).ok()?;
    let plain: Box<dyn Read> = match is_compressed(path) {
        true => Box::new(zstd::stream::read::Decoder::new(opened).ok()?),
        false => Box::new(opened),
    };
    let mut lines = BufReader::new(plain.take(LONGEST_HEAD));
    let mut read = Vec::new();
    // A corrupt first line must not hide the session.
    for _ in 0..3 {
        if lines.read_until(b'\n', &mut read).ok()? == 0 {
            break;
        }
        if let Some(head) = head_of(&read) {
            return Some(Rollout { path: path.to_owned(), head });
        }
    }
    None
}

/// Returns whether a file is named like a rollout.
pub(super) fn is_named(path: &Path) -> bool {
    let name = name_of(path);
    name.starts_with("rollout-") && (name.ends_with(".jsonl") || is_compressed(path))
}

/// Returns whether a rollout is compressed, as Codex may leave older ones.
pub(super) fn is_compressed(path: &Path) -> bool {
    name_of(path).ends_with(".jsonl.zst")
}

/// Returns the name of a rollout within its session, which compression does not change.
pub(super) fn plain_name(path: &Path) -> String {
    let name = name_of(path);
    name.strip_suffix(".zst").unwrap_or(&name).to_owned()
}

/// Returns rollouts by the names of their files, which begin with their time.
pub(super) fn sorted(mut rollouts: Vec<Rollout>) -> Vec<Rollout> {
    rollouts.sort_by_cached_key(|it| (plain_name(&it.path), it.path.clone()));
    rollouts
}

/// Returns the names and first records, as the layout needs them.
pub(super) fn named(rollouts: &[Rollout]) -> Vec<(String, RolloutHead)> {
    rollouts.iter().map(|it| (plain_name(&it.path), it.head.clone())).collect()
}

//! The first records of rollouts, which show which files belong together.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use threadfold_convert::RECOGNIZED_LINES;
use threadfold_convert::codex::AGENT;
use threadfold_convert::codex::layout::{RolloutHead, head_of};
use threadfold_convert::lines::lines;
use threadfold_fold::{HEAD_BYTES, Shape, detect};

use crate::discover::name_of;
use crate::open_path::read_head;
use crate::packed::PlainReader;

/// How many bytes are read at once after the first ones.
const CHUNK: usize = 64 << 10;

/// A rollout, with what its first record says.
#[derive(Clone, Debug)]
pub(super) struct Rollout {
    pub(super) path: PathBuf,
    pub(super) head: RolloutHead,
    /// It is compressed, as Codex may leave older ones.
    pub(super) is_packed: bool,
}

/// Reads the first record of a rollout; nothing if the file is something else or cannot be read.
pub(super) fn read(path: &Path) -> Option<Rollout> {
    // Opening a pipe would block.
    if !path.metadata().is_ok_and(|it| it.is_file()) {
        return None;
    }
    let mut plain = PlainReader::new(File::open(path).ok()?);
    let (mut bytes, mut is_complete) = read_head(&mut plain).ok()?;
    // A file of another agent may contain a line of Codex; the one classifier decides.
    if !is_rollout(&bytes) {
        return None;
    }
    let mut chunk = Vec::new();
    loop {
        if let Some(head) = head_of(&bytes) {
            let is_packed = plain.state().is_packed();
            return Some(Rollout { path: path.to_owned(), head, is_packed });
        }
        let is_enough = || lines(&bytes).nth(RECOGNIZED_LINES).is_some();
        if is_complete || bytes.len() >= HEAD_BYTES || is_enough() {
            return None;
        }
        chunk.resize(CHUNK, 0);
        match plain.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => {
                let count = read.ok()?;
                is_complete = count == 0;
                bytes.extend_from_slice(&chunk[..count]);
            }
        }
    }
}

/// Returns whether an input with these first bytes is a rollout.
pub(super) fn is_rollout(head: &[u8]) -> bool {
    detect(head).is_some_and(|it| it.agent == Some(AGENT) && it.shape() == Shape::Transcript)
}

/// Returns whether a file is named like a rollout.
pub(super) fn is_named(path: &Path) -> bool {
    let name = name_of(path);
    name.starts_with("rollout-") && is_named_as_lines(path)
}

/// Returns whether a file is named like lines, which may be compressed. Whether they are is shown by
/// its first bytes.
pub(super) fn is_named_as_lines(path: &Path) -> bool {
    let name = name_of(path);
    name.ends_with(".jsonl") || name.ends_with(".jsonl.zst")
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

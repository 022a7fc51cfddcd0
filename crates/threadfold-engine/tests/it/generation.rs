//! Derived data of a generation never changes.

use std::fs;
use std::path::Path;

use threadfold_fold::GENERATION;
use threadfold_store::BlobHash;

use crate::recordings::{claude_recordings, parsed_hash};

/// Snapshots that another program wrote are believed if they are of this generation.
#[test]
fn a_change_of_what_records_mean_is_another_generation() {
    let hashes: String =
        claude_recordings().iter().map(|it| format!("{}\n", parsed_hash(it))).collect();
    let found = format!("generation {GENERATION}: {}\n", BlobHash::of(hashes.as_bytes()));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/generation.txt");
    let known = fs::read_to_string(&path).unwrap();
    assert_eq!(
        known,
        found,
        "the recordings fold to other states: raise `GENERATION`, and note the new line in `{}`",
        path.display()
    );
}

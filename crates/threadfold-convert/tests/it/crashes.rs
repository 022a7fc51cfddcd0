//! Regression inputs found by fuzzing.
//!
//! `cargo xtask fuzz` writes them into `tests/data/crashes`, a folder a target.

use std::path::Path;

use crate::law;

#[expect(clippy::disallowed_methods, reason = "a test may read its data")]
fn replay(target: &str, law: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/crashes").join(target);
    let files = std::fs::read_dir(&folder).expect("there is a folder for each target");
    let mut count = 0;
    for file in files {
        let path = file.expect("the folder can be listed").path();
        law(&std::fs::read(&path).expect("the file can be read"));
        count += 1;
    }
    assert!(count > 0, "`{}` holds nothing", folder.display());
}

#[test]
fn recovered_records_hold() {
    replay("recover", law::pieces_cover_the_line);
}

#[test]
fn events_hold() {
    replay("event", law::an_event_survives_a_round_trip);
}

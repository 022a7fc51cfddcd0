//! What a snapshot shares with the one before it: a store keeps equal pieces once.

use std::collections::{BTreeMap, BTreeSet};

use threadfold_convert::claude;
use threadfold_fold::{
    Cutter, Fold, LogId, Record, RecordKind, Slices, Snapshot, SnapshotHeader, SourceRole,
    SourceSpec,
};
use threadfold_store::BlobHash;
use threadfold_store::pack::chunks;
use threadfold_testkit::big_session::write_transcript;

fn push(fold: &mut Fold, records: &mut Vec<Record>) {
    for record in records.drain(..) {
        fold.push(&record.at(fold.seq() + 1));
    }
}

fn snapshot(fold: &Fold) -> Snapshot {
    let created_at = "2026-01-01T00:00:00Z".to_owned();
    fold.snapshot(SnapshotHeader { created_at, log_id: LogId::from("log"), tags: BTreeMap::new() })
}

/// Returns the pieces of the converter's memory, with their lengths.
fn pieces(snapshot: &Snapshot) -> BTreeSet<(BlobHash, usize)> {
    let slice = snapshot.slices.iter().find(|it| it.slice_type == "converter").unwrap();
    let text = slice.items.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(",");
    let bytes = text.as_bytes();
    chunks(bytes).map(|range| (BlobHash::of(&bytes[range.clone()]), range.len())).collect()
}

#[test]
fn what_a_converter_remembers_is_mostly_shared_with_the_snapshot_before() {
    let mut session = Vec::new();
    write_transcript(24_000_000, &mut session).unwrap();
    let (first, rest) = session.split_at(session.len() / 4 * 3);

    let mut fold = Fold::new("s".into(), Slices::default());
    let main = SourceSpec::new(claude::AGENT, SourceRole::Main, "s.jsonl");
    let mut records = vec![Record::new(RecordKind::Source, 1, 0, main.to_json())];
    let mut cutter = Cutter::new(1);
    cutter.push(first, &mut records);
    push(&mut fold, &mut records);
    let before = snapshot(&fold);
    cutter.push(rest, &mut records);
    push(&mut fold, &mut records);
    let after = snapshot(&fold);

    let known = pieces(&before);
    let (mut new, mut all) = (0, 0);
    for piece in pieces(&after) {
        all += piece.1;
        new += if known.contains(&piece) { 0 } else { piece.1 };
    }
    // A quarter was added, and one piece differs at the end of each table. In any other order than
    // that of insertion, every piece would differ.
    assert!(new * 3 <= all * 2, "{new} of {all} bytes are in no earlier piece");
}

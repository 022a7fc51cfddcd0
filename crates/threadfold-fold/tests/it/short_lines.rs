//! Short lines that no converter understands: none is lost, and many are few blocks.

use std::collections::BTreeMap;

use threadfold_core::{BlockBody, Json};
use threadfold_fold::{
    Agent, Cutter, Fold, LogId, Record, RecordKind, Slices, SnapshotHeader, SourceRole, SourceSpec,
};

fn claude() -> Agent {
    Agent::all().find(|it| it.name() == "claude").expect("a known agent")
}

fn records(text: &str) -> Vec<Record> {
    let spec = SourceSpec::new(claude(), SourceRole::Main, "s.jsonl");
    let mut records = vec![Record::new(RecordKind::Source, 1, 0, spec.to_json())];
    let mut cutter = Cutter::new(1);
    cutter.push(text.as_bytes(), &mut records);
    cutter.finish(&mut records);
    records
}

fn fold() -> Fold {
    Fold::new("s".into(), Slices::default())
}

fn push_all(fold: &mut Fold, records: &[Record]) {
    for record in records {
        let seq = fold.seq() + 1;
        fold.push(&record.clone().at(seq));
    }
}

fn prompt(id: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"uuid\":\"{id}\",\"message\":{{\"role\":\"user\",\"content\":\"{id}\"}}}}\n"
    )
}

/// Returns all records that unknown blocks hold, and how many blocks that are.
fn unknown_records(fold: &Fold) -> (Vec<String>, usize) {
    let (mut found, mut count) = (Vec::new(), 0);
    for block in fold.settled().blocks().iter() {
        let BlockBody::Unknown(unknown) = &block.body else { continue };
        count += 1;
        match block.metadata.get("records") {
            Some(_) => {
                let records: Vec<Json> = unknown.record.read().expect("a list");
                found.extend(records.iter().map(|it| it.as_str().to_owned()));
            }
            None => found.push(unknown.record.as_str().to_owned()),
        }
    }
    (found, count)
}

#[test]
fn no_short_line_is_lost_and_many_are_few_blocks() {
    let text: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    let mut fold = fold();
    push_all(&mut fold, &records(&text));
    let (found, count) = unknown_records(&fold);
    let expected: Vec<String> = (0..20_000).map(|it: u32| format!("\"{it}\"")).collect();
    assert_eq!(found, expected);
    assert!(count < 4096 + 300, "{count} blocks");
}

#[test]
fn what_follows_joined_lines_stands_behind_them() {
    let garbage = "7\n".repeat(6000);
    let mut fold = fold();
    // A record that shows nothing stands between the short lines.
    let silent = "{\"type\":\"mode\",\"mode\":\"normal\",\"x\":\"0123456789\"}\n";
    let text = [&prompt("a"), &*garbage, silent, &prompt("b"), "8\n", &prompt("c")].concat();
    push_all(&mut fold, &records(&text));
    let state = fold.settled();
    let kinds: Vec<_> = state.blocks().iter().map(|it| it.body.kind().to_owned()).collect();
    let users: Vec<_> = (0..kinds.len()).filter(|it| kinds[*it] == "user_message").collect();
    assert_eq!(users, [0, kinds.len() - 3, kinds.len() - 1]);
    assert_eq!(unknown_records(&fold).0.len(), 6001);
}

#[test]
fn blocks_after_joined_lines_stand_where_they_stood_in_the_source() {
    let shown = |text: &str| {
        let mut fold = fold();
        push_all(&mut fold, &records(text));
        assert_eq!(fold.oddities(), 0);
        let state = fold.settled();
        state.blocks().iter().map(|it| it.body.kind().to_owned()).collect::<Vec<_>>()
    };
    let text = prompt("a") + &"7\n".repeat(5_000) + &prompt("b") + "8\n9\n" + &prompt("c");
    let kinds = shown(&text);
    let end: Vec<_> = kinds.iter().rev().take(4).rev().map(String::as_str).collect();
    assert_eq!(end, ["unknown", "user_message", "unknown", "user_message"]);
}

#[test]
fn a_snapshot_between_joined_lines_continues_to_the_same_state() {
    let records = records(&(prompt("a") + &"7\n".repeat(6000) + &prompt("b")));
    let mut whole = fold();
    push_all(&mut whole, &records);
    for cut in [100, 5_000, 5_500, 6_001] {
        let mut first = fold();
        push_all(&mut first, &records[..cut]);
        let log = LogId::from("log");
        let created_at = "2026-01-01T00:00:00Z".to_owned();
        let header = SnapshotHeader { created_at, log_id: log.clone(), tags: BTreeMap::new() };
        let text = serde_json::to_string(&first.snapshot(header)).unwrap();
        let mut second = fold().from_snapshot(&text, &log).unwrap();
        push_all(&mut second, &records[cut..]);
        assert_eq!(second.settled().hash(), whole.settled().hash(), "cut at {cut}");
    }
}

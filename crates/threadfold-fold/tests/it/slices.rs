//! The slices beside the conversation, on recorded sessions of every agent.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use threadfold_core::Json;
use threadfold_fold::{
    FileState, FileStatus, Fold, Item, QueryState, Record, RecordKind, Slice, SliceCommand, Slices,
};
use threadfold_testkit::parity_pairs::{RecordedPair, read_pairs, read_pairs_of_all_forms};

use crate::recorded::{push_all, recordings};

fn pair(agent: &str, name: &str) -> RecordedPair {
    let pairs = read_pairs(&recordings().join(agent).join(name)).unwrap();
    pairs.into_iter().next().unwrap_or_else(|| panic!("{agent}/{name} is recorded"))
}

fn folded(pair: &RecordedPair, records: Vec<Record>) -> Fold {
    let mut fold = Fold::new(pair.session.clone(), Slices::default());
    push_all(&mut fold, records);
    fold
}

/// Returns what happened last to each file, by path.
fn files(fold: &Fold) -> BTreeMap<String, FileStatus> {
    let files = fold.items::<FileState>().unwrap();
    files.iter().map(|file| (file.path.to_string(), file.status)).collect()
}

/// Returns every status of the query, in order, and the files at the end.
fn story(agent: &str, name: &str) -> String {
    let pair = pair(agent, name);
    let mut fold = Fold::new(pair.session.clone(), Slices::default());
    let mut told = format!("{agent}/{name}\n");
    for step in push_all(&mut fold, pair.stream_records()) {
        for event in &step.events {
            let kind = event.payload.kind();
            if kind.starts_with("query:") || kind.starts_with("file:") {
                let payload = serde_json::to_value(event).unwrap()["payload"].to_string();
                let line = format!("  {kind} {}\n", payload.chars().take(160).collect::<String>());
                told += &line;
            }
        }
    }
    let query = fold.items::<QueryState>().unwrap().latest().map(|it| Json::of(&it.status));
    told += &format!("  query: {}\n", query.map_or("-".to_owned(), |it| it.to_string()));
    let stored = folded(&pair, pair.file_records());
    for (source, fold) in [("stream", &fold), ("files", &stored)] {
        told += &format!("  {source}: {:?}\n", files(fold));
    }
    assert!(stored.items::<QueryState>().unwrap().is_empty(), "{name}: files report no queries");
    told
}

#[test]
fn streams_report_queries_and_files() {
    let cases = [
        ("claude", "tools"),
        ("claude", "interrupt_text"),
        ("claude", "error400"),
        ("opencode", "tools"),
        ("opencode", "error400"),
        ("opencode", "abort_text"),
        ("opencode", "tools@2.0.15"),
        ("opencode", "error400@2.0.15"),
        ("opencode", "abort_text@2.0.15"),
        ("codex", "exec_patch"),
        ("codex", "exec_err400"),
        ("codex", "app_patch@0.157.0"),
        ("codex", "app_err400@0.128.0"),
        ("codex", "app_interrupt_tool@0.169.0"),
    ];
    let told: Vec<String> = cases.map(|(agent, name)| story(agent, name)).into();
    insta::assert_snapshot!(told.join("\n"));
}

/// Recordings in which one side lacks a fact: `codex exec` does not report where a file was moved, the
/// stream of a resumed session has not seen the process before, and a store forgets what was reverted.
const ONE_SIDED: [&str; 5] =
    ["exec_patch", "exec_patch@0.98.0", "resume_compact", "resume_ok", "revert@1.15.13"];

#[test]
fn stream_and_transcript_agree_on_files_in_any_order() {
    let (mut compared, mut unequal) = (0, BTreeSet::new());
    for pair in read_pairs_of_all_forms(&recordings()).unwrap() {
        let stream = folded(&pair, pair.stream_records());
        let stored = folded(&pair, pair.file_records());
        if files(&stored).is_empty() && files(&stream).is_empty() {
            continue;
        }
        compared += 1;
        let both = |records: [Vec<Record>; 2]| {
            let fold = folded(&pair, records.concat());
            (files(&fold), fold.conversation().hash())
        };
        let one = both([pair.stream_records(), pair.file_records()]);
        let other = both([pair.file_records(), pair.stream_records()]);
        assert_eq!(one, other, "{}: the order of sources", pair.name);
        let mut expected = files(&stream);
        expected.extend(files(&stored));
        assert_eq!(one.0, expected, "{}: both sources", pair.name);
        if files(&stream) != files(&stored) {
            unequal.insert(pair.name);
        }
    }
    let known = ONE_SIDED.map(str::to_owned).into();
    assert_eq!(unequal, known, "the stream and the transcript report other files");
    assert!(compared > 20, "only {compared} recordings change files");
}

thread_local! {
    static CLONES: Cell<usize> = const { Cell::new(0) };
}

/// An item that counts how often items are copied.
#[derive(Serialize, Deserialize)]
struct Counted(usize);

impl Clone for Counted {
    fn clone(&self) -> Self {
        CLONES.with(|it| it.set(it.get() + 1));
        Self(self.0)
    }
}

impl Item for Counted {
    const TYPE: &'static str = "counted";
}

/// Returns how many items are copied when one of `count` changes, while a reader holds every state.
fn clones_per_change(count: usize) -> usize {
    let mut slices = Slices::default();
    slices.register(Slice::<Counted>::new("many").upsert_by(|it| it.0.to_string())).unwrap();
    let mut fold = Fold::new("s".into(), slices);
    let mut set = |number: usize| {
        let command = SliceCommand::dispatch(Counted::TYPE, Json::of(&number));
        let record = Record::new(RecordKind::Slice, 0, 0, Json::of(&command).as_str().to_owned());
        let seq = fold.seq() + 1;
        let step = fold.push(&record.at(seq));
        (step.slice_changes.len(), fold.slices().fork())
    };
    (0..count).for_each(|number| drop(set(number)));
    let before = CLONES.with(Cell::get);
    let held: Vec<_> = (0..100).map(|number| set(number * count / 100)).collect();
    assert!(held.iter().all(|(changes, _)| *changes == 1), "a change reports one item");
    (CLONES.with(Cell::get) - before) / held.len()
}

#[test]
fn a_change_of_one_item_copies_no_more_items_if_there_are_many() {
    let (few, many) = (clones_per_change(1_000), clones_per_change(50_000));
    assert!(few > 0, "the states share their items");
    assert!(many <= few * 2, "{few} copies of 1,000 items and {many} of 50,000");
}

//! A file whose lines stand before the lines that they continue is one of the same run: it is compared
//! in the order that its lines state, and everything else is compared as in any file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use threadfold_convert::claude;
use threadfold_fold::parity::{EarlyLines, RunGap, Verdict};
use threadfold_testkit::parity_pairs::mutation_count::{count, count_permutations};
use threadfold_testkit::parity_pairs::{RecordedPair, read_pairs};

fn all_pairs() -> Vec<RecordedPair> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data");
    read_pairs(&root.join(claude::AGENT.name())).unwrap()
}

/// Returns the pairs of versions that may write such files.
fn pairs() -> Vec<RecordedPair> {
    all_pairs().into_iter().filter(is_of_such_a_version).collect()
}

fn is_of_such_a_version(pair: &RecordedPair) -> bool {
    let version = pair.name.rsplit_once('@').map(|(_, version)| version);
    version.is_some_and(|version| claude::AGENT.disorders_lines(Some(version)))
}

fn pair(name: &str) -> RecordedPair {
    pairs().into_iter().find(|pair| pair.name == name).unwrap()
}

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % end
    }

    /// Returns this many different numbers up to `end`, in their order; nothing if there are fewer.
    fn cuts<const N: usize>(&mut self, end: usize) -> Option<[usize; N]> {
        let mut cuts: [usize; N] = std::array::from_fn(|_| self.below(end + 1));
        cuts.sort_unstable();
        cuts.windows(2).all(|two| two[0] < two[1]).then_some(cuts)
    }
}

fn lines_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Returns how many lines of a file precede the line that they name as their parent.
fn early_lines(lines: &[Vec<u8>]) -> usize {
    let records: Vec<Value> =
        lines.iter().map(|line| serde_json::from_slice(line).unwrap_or_default()).collect();
    let mut places = BTreeMap::new();
    for (place, record) in records.iter().enumerate() {
        if let Some(uuid) = record["uuid"].as_str() {
            places.entry(uuid).or_insert(place);
        }
    }
    let is_early = |(place, record): &(usize, &Value)| {
        let parent = record["parentUuid"].as_str().or(record["logicalParentUuid"].as_str());
        let is_first = record["uuid"].as_str().is_none_or(|it| places[it] == *place);
        is_first && parent.and_then(|it| places.get(it)).is_some_and(|parent| parent > place)
    };
    records.iter().enumerate().filter(is_early).count()
}

/// Returns whether a line of a file is there twice. Which of the two is the first is only in the order.
fn has_repeated(lines: &[Vec<u8>]) -> bool {
    let mut known = BTreeSet::new();
    lines.iter().any(|line| {
        let record: Value = serde_json::from_slice(line).unwrap_or_default();
        record["uuid"].as_str().is_some_and(|uuid| !known.insert(uuid.to_owned()))
    })
}

/// A pair with a file in which two batches of lines changed places.
struct Swapped {
    pair: RecordedPair,
    file: String,
    early: usize,
    /// The lines at which the first batch, the second one and the rest began.
    cuts: [usize; 3],
}

/// Lets batches of lines of one file of a pair change places, so that a line precedes its parent.
fn swap_batches(pair: &RecordedPair, numbers: &mut Numbers) -> Option<Swapped> {
    let mut changed = pair.clone();
    let number = numbers.below(changed.files.len());
    let (path, bytes) = &mut changed.files[number];
    let mut lines = lines_of(bytes);
    if !path.ends_with(".jsonl") || lines.len() < 4 || early_lines(&lines) > 0 {
        return None;
    }
    let cuts @ [start, middle, end] = numbers.cuts(lines.len())?;
    lines[start..end].rotate_left(middle - start);
    let early = early_lines(&lines);
    if has_repeated(&lines) {
        return None;
    }
    *bytes = lines.concat();
    let file = Path::new(path).file_name()?.to_string_lossy().into_owned();
    (early > 0).then_some(Swapped { pair: changed, file, early, cuts })
}

/// Returns the verdict without the gap of files that are out of order.
fn other_lacks(comparison: &threadfold_fold::parity::Comparison) -> Vec<RunGap> {
    comparison.lacking.keys().copied().filter(|gap| *gap != RunGap::FileOrder).collect()
}

#[test]
fn batches_that_change_places_are_no_difference() {
    let (mut numbers, mut tried, mut ordered, mut wrong) = (Numbers(7), 0, 0, Vec::new());
    for pair in pairs() {
        let base = pair.compare();
        for _ in 0..80 {
            let Some(swapped) = swap_batches(&pair, &mut numbers) else { continue };
            let comparison = swapped.pair.compare();
            tried += 1;
            if comparison.verdict() == Verdict::Different {
                wrong.push((pair.name.clone(), swapped.file, swapped.cuts));
                continue;
            }
            assert_eq!(other_lacks(&comparison), other_lacks(&base), "{}", pair.name);
            if let Some(lines) = comparison.lacking.get(&RunGap::FileOrder) {
                let [EarlyLines { file, lines: early }] = &comparison.early_lines[..] else {
                    panic!("{}: {:?}", pair.name, comparison.early_lines);
                };
                assert!(file.ends_with(&swapped.file), "{file} {}", swapped.file);
                assert_eq!((*lines, *early), (swapped.early, swapped.early), "{}", pair.name);
                assert_eq!(comparison.blocks, base.blocks, "{}", pair.name);
                ordered += 1;
            }
        }
    }
    assert_eq!(wrong, [], "of {tried}");
    assert!(tried > 150 && ordered > 100, "{tried} {ordered}");
}

#[test]
fn a_file_that_is_out_of_order_folds_to_one_state_in_every_interleaving() {
    let (mut numbers, mut tried, mut wrong) = (Numbers(11), 0, Vec::new());
    for pair in pairs() {
        for _ in 0..20 {
            let Some(swapped) = swap_batches(&pair, &mut numbers) else { continue };
            let replayed = swapped.pair.replay();
            if !replayed.holds() {
                wrong.push((pair.name.clone(), swapped.cuts, replayed));
            }
            tried += 1;
        }
    }
    assert!(wrong.is_empty(), "of {tried}: {wrong:#?}");
    assert!(tried > 40, "{tried}");
}

/// The pairs of which every change is tried in files that are out of order.
const CHANGED: [&str; 2] = ["subagent_background@2.1.100", "queued_replay@2.1.50"];

/// One of this many changes is tried.
const SHARE: usize = 17;

#[test]
fn what_a_file_that_is_out_of_order_contains_is_compared_as_a_whole() {
    let (mut numbers, mut caught) = (Numbers(13), 0);
    for name in CHANGED {
        let pair = pair(name);
        let swapped = (0..99).filter_map(|_| swap_batches(&pair, &mut numbers));
        let is_ordered = |it: &Swapped| it.pair.compare().lacking.contains_key(&RunGap::FileOrder);
        let swapped = swapped.filter(is_ordered).take(2).collect::<Vec<_>>();
        assert!(!swapped.is_empty(), "{name}");
        for (number, Swapped { pair, .. }) in swapped.iter().enumerate() {
            let is_wanted = |change: usize| (change + number).is_multiple_of(SHARE);
            let mut changes = count(pair, is_wanted);
            changes.add(count_permutations(pair, is_wanted));
            assert_eq!(changes.unseen, [""; 0], "{name}: {changes}");
            caught += changes.caught;
        }
    }
    assert!(caught > 80, "{caught}");
}

/// Removes or changes the lines of a file.
fn with_lines(bytes: &[u8], mut change: impl FnMut(&mut Value) -> bool) -> Vec<u8> {
    let mut out = String::new();
    for line in lines_of(bytes) {
        let mut value: Value = serde_json::from_slice(&line).unwrap();
        if change(&mut value) {
            out += &format!("{value}\n");
        }
    }
    out.into_bytes()
}

#[test]
fn a_line_of_such_a_file_that_was_removed_or_reworded_is_different() {
    let (mut numbers, mut tried) = (Numbers(17), 0);
    for pair in pairs().iter().flat_map(|it| [it; 5]) {
        if pair.compare().verdict() != Verdict::Equal {
            continue;
        }
        let Some(swapped) = swap_batches(pair, &mut numbers) else { continue };
        let is_file = |path: &str| path.ends_with(&swapped.file);
        let at = swapped.pair.files.iter().position(|(path, _)| is_file(path)).unwrap();
        let is_text = |line: &Value| {
            let content = &line["message"]["content"][0];
            line["type"] == "assistant"
                && line["message"]["model"] != "<synthetic>"
                && content["text"].as_str().is_some_and(|text| !text.trim().is_empty())
        };
        for is_removed in [false, true] {
            let (mut changed, mut found) = (swapped.pair.clone(), false);
            changed.files[at].1 = with_lines(&swapped.pair.files[at].1, |line| {
                if found || !is_text(line) {
                    return true;
                }
                found = true;
                line["message"]["content"][0]["text"] = json!("something else");
                !is_removed
            });
            if found {
                let comparison = changed.compare();
                let verdict = comparison.verdict();
                assert_eq!(verdict, Verdict::Different, "{} {is_removed}", pair.name);
                assert!(!comparison.differences.is_empty(), "{}", pair.name);
                tried += 1;
            }
        }
    }
    assert!(tried > 5, "{tried}");
}

#[test]
fn an_order_that_no_line_contradicts_is_compared() {
    let mut tried = 0;
    for pair in all_pairs().iter().filter(|it| it.compare().verdict() == Verdict::Equal).step_by(5)
    {
        let mut changed = pair.clone();
        let is_file = |(path, _): &&mut (String, Vec<u8>)| path.ends_with(".jsonl");
        let (_, bytes) = changed.files.iter_mut().find(is_file).unwrap();
        let mut lines: Vec<Value> =
            lines_of(bytes).iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
        let is_call = |line: &Value| line["message"]["content"][0]["type"] == "tool_use";
        let is_text = |line: &Value| {
            line["type"] == "assistant" && line["message"]["content"][0]["type"] == "text"
        };
        let before = |place: &usize| is_text(&lines[*place]) && is_call(&lines[place + 1]);
        let Some(first) = (0..lines.len() - 1).find(before) else { continue };
        lines.swap(first, first + 1);
        // Each line continues the one before it, so that the file states the order that it has.
        let mut last = Value::Null;
        for line in lines.iter_mut().filter(|line| line["uuid"].is_string()) {
            line["parentUuid"] = last;
            last = line["uuid"].clone();
        }
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        *bytes = text.into_bytes();
        let comparison = changed.compare();
        assert_eq!(comparison.verdict(), Verdict::Different, "{}", pair.name);
        assert!(comparison.early_lines.is_empty(), "{}", pair.name);
        tried += 1;
    }
    assert!(tried > 3, "{tried}");
}

#[test]
fn other_versions_write_their_lines_in_order() {
    let (mut numbers, mut different) = (Numbers(19), 0);
    for pair in all_pairs().iter().filter(|it| !is_of_such_a_version(it)).step_by(4) {
        let Some(swapped) = swap_batches(pair, &mut numbers) else { continue };
        let comparison = swapped.pair.compare();
        assert!(!comparison.lacking.contains_key(&RunGap::FileOrder), "{}", pair.name);
        different += usize::from(comparison.verdict() == Verdict::Different);
    }
    assert!(different > 3, "{different}");
}

#[test]
fn a_file_that_was_turned_around_is_different() {
    for mut pair in pairs() {
        let is_main = |path: &str| path.ends_with(".jsonl") && !path.contains("agent-");
        let (_, bytes) = pair.files.iter_mut().find(|(path, _)| is_main(path)).unwrap();
        let mut lines = lines_of(bytes);
        lines.reverse();
        *bytes = lines.concat();
        // A few lines that precede their parents may be a batch.
        if early_lines(&lines) < 5 {
            continue;
        }
        assert_eq!(pair.compare().verdict(), Verdict::Different, "{}", pair.name);
    }
}

//! Compares every recorded pair below a folder, in many interleavings and in every form in which the
//! run is stored, and mutates every kind of field of it.
//!
//! Exit code 0: all pairs are equal or partial, fold to one state, and no mutation goes unseen. 1:
//! something else was found, or there are no pairs. 2: the folder cannot be read.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use threadfold_fold::parity::{RunGap, Verdict};
use threadfold_testkit::parity_pairs::mutation_count::{MutationCount, count, count_permutations};
use threadfold_testkit::parity_pairs::{RecordedPair, read_pairs, read_pairs_of_all_forms};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("error: which folder?\nhint: `cargo xtask parity PATH`");
        return ExitCode::from(2);
    };
    let share = arguments.next().and_then(|it| it.parse::<usize>().ok()).unwrap_or(1).max(1);
    let folder = Path::new(&folder);
    let read = read_pairs(folder).and_then(|it| Ok((it, read_pairs_of_all_forms(folder)?)));
    let (pairs, all_forms) = match read {
        Ok(read) => read,
        Err(error) => {
            eprintln!("error: `{}` cannot be read\ncause: {error}", folder.display());
            return ExitCode::from(2);
        }
    };
    let mut problems = compare(&all_forms);
    let total = match arguments.next().as_deref() {
        Some("permutations") => permute(&pairs, share),
        _ => {
            let mut total = mutate(&pairs, share);
            total.add(permute(&pairs, share));
            total
        }
    };
    let mut kinds: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    for unseen in &total.unseen {
        let (pair, rest) = unseen.split_once(": ").unwrap_or(("", unseen));
        let kind = rest.split(" (line").next().unwrap_or(rest);
        let common = if rest.ends_with("both sides have it") { " on both sides" } else { "" };
        kinds.entry(format!("{kind}{common}")).or_insert((0, pair)).0 += 1;
    }
    for (kind, (times, pair)) in &kinds {
        println!("unseen {times} times: {kind}, first in {pair}");
    }
    print!("{total}");
    problems += total.unseen.len();
    if problems == 0 && !pairs.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compares each pair as it is, and prints what differs. Returns the number of problems.
fn compare(pairs: &[RecordedPair]) -> usize {
    let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
    let mut reasons: BTreeMap<RunGap, Vec<&str>> = BTreeMap::new();
    let mut problems = 0;
    for pair in pairs {
        let (comparison, replayed) = (pair.compare(), pair.replay());
        let verdict = comparison.verdict();
        let state = if replayed.holds() { "one state" } else { "several states" };
        let key = format!("{} {verdict:?}, {state}", pair.agent.name());
        *verdicts.entry(key).or_default() += 1;
        if verdict == Verdict::Different || !replayed.holds() {
            problems += 1;
            println!("{}: {verdict:?}, {state}", pair.name);
            for difference in comparison.differences.iter().take(6) {
                let block = difference.block.as_ref().map_or("", |block| block.as_str());
                let short = |json: &Option<threadfold_core::Json>| {
                    json.as_ref().map_or("nothing".to_owned(), |json| {
                        json.as_str().chars().take(100).collect()
                    })
                };
                let (stream, files) = (short(&difference.stream), short(&difference.transcript));
                println!("  {} {block} {}", difference.conversation, difference.field);
                println!("    stream {stream}\n    files  {files}");
            }
        }
        for gap in comparison.lacking.keys() {
            reasons.entry(*gap).or_default().push(&pair.name);
        }
        for (field, times) in &comparison.unlisted {
            println!("{}: unlisted {field} ({times})", pair.name);
        }
    }
    for (verdict, times) in &verdicts {
        println!("{verdict}: {times}");
    }
    for (gap, names) in &reasons {
        println!("partial: {}: {}", gap.description(), names.join(", "));
    }
    problems
}

fn permute(pairs: &[RecordedPair], share: usize) -> MutationCount {
    total(pairs, |number, pair| {
        count_permutations(pair, |permutation| (permutation + number).is_multiple_of(share))
    })
}

fn mutate(pairs: &[RecordedPair], share: usize) -> MutationCount {
    total(pairs, |number, pair| count(pair, |mutation| (mutation + number).is_multiple_of(share)))
}

/// Counts every pair, on all processors, and adds the counts in the order of the pairs.
fn total(
    pairs: &[RecordedPair],
    count: impl Fn(usize, &RecordedPair) -> MutationCount + Sync,
) -> MutationCount {
    let (next, counts) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(pair) = pairs.get(number) else { break };
                    let counted = count(number, pair);
                    let mut counts = counts.lock().expect("no other thread panicked");
                    counts.insert(number, counted);
                    eprint!("\r{} of {} ", counts.len(), pairs.len());
                }
            });
        }
    });
    eprintln!();
    let mut total = MutationCount::default();
    let counts = counts.into_inner().expect("no thread panicked");
    counts.into_values().for_each(|counted| total.add(counted));
    total
}

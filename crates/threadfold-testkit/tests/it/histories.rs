//! Histories cut at every event: once repaired, every provider takes them.
//!
//! Each history is repaired and rendered for three providers. Each request must pass the core's
//! validator, keep what stood before the first defect byte for byte, and be taken over HTTP by the
//! strict provider, which was told what it gave out in the run and judges by rules of its own.
//! `cargo nextest run -p threadfold-testkit -E 'test(histories)' --no-capture` prints the counts.

use proptest::prelude::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use threadfold_core::{Payload, SessionEvent};
use threadfold_testkit::loops::{plausible_loop, sound_loop};

use self::court::{Counts, Court};
use self::run::{Given, Run};

mod court;
mod live;
mod run;
mod transcripts;

/// How many different histories each test must have tried at least.
const SOUND: usize = 4_000;
const PLAUSIBLE: usize = 3_000;
const RECORDED: usize = 800;

const _: () = assert!(3 * SOUND + PLAUSIBLE + RECORDED >= 10_000);

/// Returns the loop of a seed, always the same.
fn seeded(strategy: &impl Strategy<Value = Vec<SessionEvent>>, seed: u64) -> Vec<SessionEvent> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    strategy.new_tree(&mut runner).unwrap().current()
}

fn sound(seeds: std::ops::Range<u64>) -> Counts {
    let runs = seeds.map(|seed| {
        let name = format!("r{seed}");
        Run::of_events(&name, seeded(&sound_loop(&name), seed), Given::AsAnswered)
    });
    Court::open().try_all(runs.collect())
}

#[test]
fn of_sound_loops_are_taken() {
    sound(0..500).report("sound loops 0..500", SOUND);
}

#[test]
fn of_more_sound_loops_are_taken() {
    sound(500..1_000).report("sound loops 500..1000", SOUND);
}

#[test]
fn of_still_more_sound_loops_are_taken() {
    sound(1_000..1_500).report("sound loops 1000..1500", SOUND);
}

#[test]
fn of_odd_loops_are_taken() {
    // Nobody answers a request without a message.
    let asks = |events: &Vec<SessionEvent>| match events.first().map(|it| &it.payload) {
        Some(Payload::TurnStarted(said)) => !said.messages.is_empty(),
        _ => false,
    };
    let loops = (0..600).map(|seed| seeded(&plausible_loop(), seed)).filter(asks).enumerate();
    let runs =
        loops.map(|(at, events)| Run::of_events(&format!("odd{at}"), events, Given::AsRendered));
    Court::open().try_all(runs.collect()).report("odd loops", PLAUSIBLE);
}

#[test]
fn of_recorded_sessions_are_taken() {
    let mut runs = live::recorded();
    runs.extend(transcripts::all());
    Court::open().try_all(runs).report("recorded sessions", RECORDED);
}

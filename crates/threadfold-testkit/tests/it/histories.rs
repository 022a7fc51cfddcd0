//! Histories truncated at every event: once repaired, every provider accepts them.
//!
//! Each history is repaired and rendered for three providers. Each request must pass the core's
//! validator, leave everything before the first defect unchanged byte for byte, and be accepted over
//! HTTP by the strict provider, which knows what it sent in the run and checks independently.
//! `cargo nextest run -p threadfold-testkit -E 'test(histories)' --no-capture` prints the counts.

use proptest::prelude::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use threadfold_core::{Payload, SessionEvent};
use threadfold_testkit::loops::{plausible_loop, sound_loop};

use self::check::{Checker, Counts};
use self::run::{AnswerForm, Run};

mod check;
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
        Run::of_events(&name, seeded(&sound_loop(&name), seed), AnswerForm::AsAnswered)
    });
    Checker::open().check_all(runs.collect())
}

#[test]
fn histories_of_sound_loops_are_accepted_1() {
    sound(0..500).report("sound loops 0..500", SOUND);
}

#[test]
fn histories_of_sound_loops_are_accepted_2() {
    sound(500..1_000).report("sound loops 500..1000", SOUND);
}

#[test]
fn histories_of_sound_loops_are_accepted_3() {
    sound(1_000..1_500).report("sound loops 1000..1500", SOUND);
}

#[test]
fn histories_of_odd_loops_are_accepted() {
    // A request without a message gets no answer.
    let asks = |events: &Vec<SessionEvent>| match events.first().map(|it| &it.payload) {
        Some(Payload::TurnStarted(said)) => !said.messages.is_empty(),
        _ => false,
    };
    let loops = (0..600).map(|seed| seeded(&plausible_loop(), seed)).filter(asks).enumerate();
    let runs = loops
        .map(|(at, events)| Run::of_events(&format!("odd{at}"), events, AnswerForm::AsRendered));
    Checker::open().check_all(runs.collect()).report("odd loops", PLAUSIBLE);
}

#[test]
fn histories_of_recorded_sessions_are_accepted() {
    let mut runs = live::recorded();
    runs.extend(transcripts::all());
    Checker::open().check_all(runs).report("recorded sessions", RECORDED);
}

//! Generated streams of events: after every event, the module has the native state.

use std::env;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use threadfold_core::{ConversationState, SessionEvent};
use threadfold_testkit::sessions::{hostile, interleave, plausible};

use crate::engine::Wasm;

/// How many streams are compared; `cargo xtask soak wasm` compares 10,000.
fn stream_count() -> usize {
    let wanted = env::var("THREADFOLD_SOAK_STREAMS").ok();
    wanted.and_then(|it| it.parse().ok()).unwrap_or(300)
}

/// Returns streams of events, always the same ones: half of them no agent would emit.
fn streams(count: usize) -> Vec<Vec<SessionEvent>> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[16; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let hostile = hostile();
    let turns = proptest::collection::vec(proptest::bool::ANY, 0..40);
    let plausible = (plausible(), turns).prop_map(|(it, turns)| interleave(&it, &turns));
    let mut all = Vec::new();
    while all.len() < count {
        all.push(hostile.new_tree(&mut runner).unwrap().current());
        all.push(plausible.new_tree(&mut runner).unwrap().current());
    }
    all.truncate(count);
    all
}

#[test]
fn every_generated_stream_has_the_native_state_and_snapshot() {
    let mut wasm = Wasm::full();
    let count = stream_count();
    let (mut events, mut blocks) = (0, 0);
    for stream in streams(count) {
        let state = wasm.expect("state_new", &[]);
        let mut native = ConversationState::default();
        for event in &stream {
            let line = serde_json::to_string(event).unwrap();
            assert!(wasm.apply(state, &line) >= 0, "{line}");
            native.extend([event]);
            events += 1;
        }
        let found = wasm.hash_and_json(state);
        let wanted = (native.hash().to_string(), serde_json::to_string(&native).unwrap());
        assert_eq!(found, wanted);
        let snapshot = serde_json::to_string(&native.snapshot()).unwrap();
        assert_eq!(wasm.read("state_snapshot", state), snapshot);
        blocks += native.blocks().len();
        wasm.call("state_free", &[state]);
    }
    println!("{count} streams, {events} events, {blocks} blocks");
    assert!(events > count * 10 && blocks > count);
}

#[test]
fn a_batch_equals_its_events_one_by_one() {
    let mut wasm = Wasm::full();
    for stream in streams(40) {
        let lines: Vec<_> = stream.iter().map(|it| serde_json::to_string(it).unwrap()).collect();
        let one = wasm.expect("state_new", &[]);
        lines.iter().for_each(|line| assert!(wasm.apply(one, line) >= 0));
        let all = wasm.expect("state_new", &[]);
        assert!(wasm.apply(all, &lines.join("\n")) >= 0);
        let list = wasm.expect("state_new", &[]);
        assert!(wasm.apply(list, &format!(" [{}]", lines.join(","))) >= 0);
        let expected = wasm.read("state_snapshot", one);
        assert_eq!(wasm.read("state_snapshot", all), expected);
        assert_eq!(wasm.read("state_snapshot", list), expected);
        assert_eq!(wasm.call("state_equals", &[one, all]), 1);
    }
}

//! Recorded sessions, folded with every closed block spilled after every line.

use threadfold_core::{ConversationState, SessionEvent};
use threadfold_testkit::spill_store::{snapshot_of_parts, spill_store};

use crate::recorded::{empty_fold, push_all, runs};

/// Folds with and without a shelf, and holds both against each other.
fn check(name: &str, steps: &[Vec<SessionEvent>]) {
    let (kept, shelf) = spill_store();
    let mut plain = ConversationState::default();
    let mut spilt = ConversationState::default();
    for events in steps {
        plain.extend(events);
        spilt.extend(events);
        spilt.spill(&shelf);
    }
    let json = |state: &ConversationState| serde_json::to_string(state).expect("plain data");
    assert_eq!(spilt.hash(), plain.hash(), "{name}");
    assert_eq!(json(&spilt), json(&plain), "{name}");
    let snapshot = serde_json::to_string(&plain.snapshot()).expect("plain data");
    assert_eq!(snapshot_of_parts(&spilt).0, snapshot, "{name}");
    assert!(plain.blocks().is_empty() || !kept.is_empty(), "{name}");
}

#[test]
fn recorded_sessions_are_the_same_with_spilled_blocks() {
    for run in runs() {
        let files = push_all(&mut empty_fold(), run.file_records());
        let mut steps: Vec<_> = files.into_iter().map(|step| step.events).collect();
        check(&run.name, &steps);
        let stream = push_all(&mut empty_fold(), run.stream_records());
        let events = stream.into_iter().flat_map(|step| step.events);
        steps.extend(events.map(|event| vec![event]));
        check(&run.name, &steps);
    }
}

//! Recorded sessions, folded with every closed block put away after every line.

use threadfold_convert::{Agent, SessionFile, convert_all, convert_files, converter};
use threadfold_core::{ConversationState, SessionEvent};
use threadfold_testkit::spill_store::{snapshot_of_parts, spill_store};

use crate::recorded::{runs, stream_feed};

/// Folds with and without a store, and holds both against each other.
fn check(name: &str, steps: &[Vec<SessionEvent>]) {
    let (kept, store) = spill_store();
    let mut plain = ConversationState::default();
    let mut spilled = ConversationState::default();
    for events in steps {
        plain.extend(events);
        spilled.extend(events);
        spilled.spill(&store);
    }
    let json = |state: &ConversationState| serde_json::to_string(state).expect("plain data");
    assert_eq!(spilled.hash(), plain.hash(), "{name}");
    assert_eq!(json(&spilled), json(&plain), "{name}");
    let snapshot = serde_json::to_string(&plain.snapshot()).expect("plain data");
    assert_eq!(snapshot_of_parts(&spilled).0, snapshot, "{name}");
    assert!(plain.blocks().is_empty() || !kept.is_empty(), "{name}");
}

#[test]
fn recorded_sessions_are_equal_with_spilled_blocks() {
    for run in runs() {
        let mut steps = Vec::new();
        let files: Vec<SessionFile<'_>> = run.session_files();
        convert_files(Agent::Claude, &mut *converter(Agent::Claude), &files, |events| {
            steps.push(events.clone());
        });
        check(&run.name, &steps);
        let feed = stream_feed();
        let stream = convert_all(Agent::Claude, run.stream_records(&feed));
        steps.extend(stream.into_iter().map(|event| vec![event]));
        check(&run.name, &steps);
    }
}

//! Recorded sessions, folded with every closed block put away after every line.

use threadfold_convert::claude;
use threadfold_convert::{Agent, convert_all, convert_files, converter};
use threadfold_core::{ConversationState, SessionEvent};
use threadfold_fold::SessionFile;
use threadfold_testkit::shelf::{shelf, snapshot_of_parts};

use crate::recorded::{runs, stream_feed};

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
fn recorded_sessions_are_the_same_with_their_blocks_put_away() {
    for run in runs() {
        let mut steps = Vec::new();
        let files: Vec<SessionFile<'_>> = run.session_files();
        convert_files(claude::AGENT, &mut *claude::AGENT.converter(), &files, |events| {
            steps.push(events.clone());
        });
        check(&run.name, &steps);
        let feed = stream_feed();
        let stream = convert_all(claude::AGENT, run.stream_records(&feed));
        steps.extend(stream.into_iter().map(|event| vec![event]));
        check(&run.name, &steps);
    }
}

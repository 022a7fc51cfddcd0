//! States that are restored from the outline of a snapshot: blocks are read when they are looked at.

use std::sync::Arc;

use proptest::prelude::*;
use threadfold_core::{ConversationState, SessionEvent, SnapshotError, fold};
use threadfold_testkit::sessions::{hostile, interleave, plausible};
use threadfold_testkit::spill_store::{MemorySpillStore, snapshot_of_parts, spill_store};
use threadfold_testkit::story::show;

use crate::spill::closed;

/// What stands before the state in the text, as other parts of a snapshot do.
const BEFORE: &str = "{\"slices\":[";

/// Writes a snapshot with its outline, and returns the state restored from the outline.
fn reopen(state: &ConversationState) -> (Arc<MemorySpillStore>, ConversationState) {
    let (kept, text) = spill_store();
    let (mut rows, mut hashes) = (Vec::new(), Vec::new());
    let outline = state.write_outline(&mut rows, &mut hashes).expect("memory does not fail");
    let outline = outline.expect("there are few subagents");
    text.put(BEFORE.as_bytes()).expect("the store works");
    let state_at = text.put(snapshot_of_parts(state).0.as_bytes()).expect("the store works");
    let hashes_at = text.put(&hashes).expect("the store works");
    let json = serde_json::to_string(&outline).expect("plain data");
    let outline = serde_json::from_str(&json).expect("it was just written");
    let restored = ConversationState::restore_outline(&outline, &rows, &text, state_at, hashes_at);
    (kept, restored.expect("it was just written"))
}

/// Folds events, reopens the state after those that `turns` selects, and compares each step with a
/// plain fold.
fn fold_reopening(events: &[SessionEvent], turns: &[(bool, bool)]) -> Result<(), TestCaseError> {
    let (_, store) = spill_store();
    let mut plain = ConversationState::default();
    let mut reopened = ConversationState::default();
    let mut held = Vec::new();
    for (event, (is_spilled, is_reopened)) in events.iter().zip(turns.iter().cycle()) {
        // Not the changes: what is restored does not report subagents that only seem to change.
        prop_assert_eq!(reopened.apply(event), plain.apply(event), "{:?}", event);
        held.push((reopened.clone(), plain.hash()));
        if *is_spilled {
            reopened.spill(&store);
        }
        if *is_reopened {
            reopened = reopen(&reopened).1;
        }
        prop_assert_eq!(reopened.hash(), plain.hash(), "{:?}", event);
    }
    prop_assert_eq!(show(&reopened), show(&plain));
    prop_assert_eq!(&reopened, &plain);
    let snapshot = serde_json::to_string(&plain.snapshot()).expect("plain data");
    prop_assert_eq!(snapshot_of_parts(&reopened).0, snapshot);
    for (old, hash) in held {
        prop_assert_eq!(old.hash(), hash, "an old state stays as it was");
    }
    Ok(())
}

proptest! {
    #[test]
    fn reopening_after_every_event_does_not_change_the_state(events in hostile()) {
        fold_reopening(&events, &[(false, true)])?;
    }

    #[test]
    fn reopening_and_spilling_do_not_change_the_state(
        events in hostile(),
        turns in prop::collection::vec(any::<(bool, bool)>(), 1..40),
    ) {
        fold_reopening(&events, &turns)?;
    }

    #[test]
    fn stream_and_transcript_agree_in_a_reopened_state(
        session in plausible(),
        order in prop::collection::vec(any::<bool>(), 0..80),
        turns in prop::collection::vec(any::<(bool, bool)>(), 1..40),
    ) {
        fold_reopening(&interleave(&session, &order), &turns)?;
    }
}

#[test]
fn closed_blocks_are_not_read_before_somebody_looks_at_them() {
    let plain = fold(&closed(0..10_000));
    let (kept, mut state) = reopen(&plain);
    assert_eq!(state.hash(), plain.hash(), "the hashes are beside the blocks");
    assert_eq!(state.blocks().get(5_000), plain.blocks().get(5_000));
    let read = kept.fetched();
    // The hashes, and one block.
    assert!(read < 10_000 * 32 + 500, "{read} bytes were read");
    state.extend(&closed(10_000..10_010));
    assert!(kept.fetched() - read < 2_000, "{} bytes were read", kept.fetched() - read);
    assert_eq!(state, fold(&closed(0..10_010)));
}

#[test]
fn an_outline_that_does_not_fit_is_refused() {
    let state = fold(&closed(0..3));
    let (_, text) = spill_store();
    let (mut rows, mut hashes) = (Vec::new(), Vec::new());
    let outline = state.write_outline(&mut rows, &mut hashes).unwrap().unwrap();
    let restore = |rows: &[u8]| {
        let restored = ConversationState::restore_outline(&outline, rows, &text, 0, 0);
        restored.err().map(|error| error.to_string())
    };
    let corrupt = |reason: &str| Some(format!("the snapshot is corrupt: {reason}"));
    assert_eq!(restore(&rows[..rows.len() - 1]), corrupt("a row is missing"));
    rows.push(0);
    assert_eq!(restore(&rows), corrupt("there are more rows than blocks"));
    let mut json = serde_json::to_value(&outline).unwrap();
    json["main"]["blocks"]["count"] = u64::MAX.into();
    let hostile = serde_json::from_value(json.clone()).unwrap();
    let restored = ConversationState::restore_outline(&hostile, &[], &text, 0, 0);
    assert_eq!(restored.err().map(|it| it.to_string()), corrupt("a row is missing"));
    json["version"] = 9.into();
    let newer = serde_json::from_value(json).unwrap();
    let restored = ConversationState::restore_outline(&newer, &[], &text, 0, 0);
    assert_eq!(restored.err(), Some(SnapshotError::Version { found: 9 }));
}

#[test]
fn a_state_with_thousands_of_subagents_has_no_outline() {
    let spawned = |number: usize| {
        let json =
            format!(r#"{{"type":"subagent:spawned","payload":{{"toolUseId":"t{number}"}}}}"#);
        SessionEvent::from_json(&json).unwrap()
    };
    let events: Vec<SessionEvent> = (0..4_097).map(spawned).collect();
    let has_outline = |events: &[SessionEvent]| {
        let (mut rows, mut hashes) = (Vec::new(), Vec::new());
        fold(events).write_outline(&mut rows, &mut hashes).unwrap().is_some()
    };
    assert!(has_outline(&events[1..]) && !has_outline(&events));
}

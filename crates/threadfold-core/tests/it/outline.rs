//! States that are restored from the outline of a snapshot: blocks are read when they are looked at.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;
use threadfold_core::work::visits;
use threadfold_core::{
    ConversationState, OutlinePlaces, OutlineWriters, SessionEvent, SnapshotError, SourceKind,
    SpillStore, StateOutline, fold,
};
use threadfold_testkit::sessions::{hostile, interleave, plausible};
use threadfold_testkit::spill_store::{MemorySpillStore, snapshot_of_parts, spill_store};
use threadfold_testkit::story::show;

use crate::spill::closed;

/// What stands before the state in the text, as other parts of a snapshot do.
const BEFORE: &str = "{\"slices\":[";

/// The parts of an outline.
#[derive(Default)]
struct Written {
    rows: Vec<u8>,
    hashes: Vec<u8>,
    index: Vec<u8>,
}

impl Written {
    fn of(state: &ConversationState) -> (Option<StateOutline>, Self) {
        let mut written = Self::default();
        let Self { rows, hashes, index } = &mut written;
        let outline = state.write_outline(OutlineWriters { rows, hashes, index });
        (outline.expect("memory does not fail"), written)
    }

    /// Puts the parts into a text in which the state begins at `state`.
    fn put(&self, text: &dyn SpillStore, state: u64) -> OutlinePlaces {
        let put = |part: &[u8]| {
            let place = text.put(part).expect("the store works");
            place..place + part.len() as u64
        };
        let (rows, hashes, index) = (put(&self.rows), put(&self.hashes), put(&self.index));
        OutlinePlaces { state, rows, hashes, index }
    }
}

/// Writes a snapshot with its outline, and returns the state restored from the outline.
fn reopen(state: &ConversationState) -> (Arc<MemorySpillStore>, ConversationState) {
    let (kept, text) = spill_store();
    let (outline, written) = Written::of(state);
    let outline = outline.expect("there are few subagents");
    text.put(BEFORE.as_bytes()).expect("the store works");
    let state_at = text.put(snapshot_of_parts(state).0.as_bytes()).expect("the store works");
    let places = written.put(&*text, state_at);
    let json = serde_json::to_string(&outline).expect("plain data");
    let outline = serde_json::from_str(&json).expect("it was just written");
    let restored = ConversationState::restore_outline(&outline, &text, &places);
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
fn when_a_text_is_written_back_does_not_decide_which_block_a_call_leads_to() {
    // The text of `a` is open while the block that stands for the call leaves the conversation.
    let events = [
        event(r#"{"type":"subagent:spawned","payload":{"toolUseId":"A"}}"#),
        event(
            r#"{"type":"block:upsert","payload":{"block":{"id":"a","type":"tool_use",
                "status":"complete","toolName":"Bash","toolUseId":"A"}}}"#,
        ),
        event(r#"{"type":"block:delta","payload":{"blockId":"a","delta":"x","field":"input"}}"#),
        event(
            r#"{"type":"block:upsert","payload":{"block":{"id":"A","type":"tool_use",
                "status":"pending","toolName":"Bash","toolUseId":"A"}}}"#,
        )
        .within("c1"),
    ];
    fold_reopening(&events, &[(false, true)]).unwrap();
    fold_reopening(&events, &[(true, false)]).unwrap();
}

#[test]
fn closed_blocks_are_not_read_before_somebody_looks_at_them() {
    let plain = fold(&closed(0..10_000));
    let (kept, mut state) = reopen(&plain);
    assert_eq!(kept.fetched(), 0, "nothing is read before somebody looks");
    assert_eq!(state.blocks().get(5_000), plain.blocks().get(5_000));
    let page = 512 * 14 + 8;
    let read = kept.fetched();
    assert!(read < page + 500, "{read} bytes were read");
    let id = plain.blocks().get(9_990).expect("it is there").id.clone();
    assert_eq!(state.blocks().find(&id), plain.blocks().get(9_990));
    // A page of each segment of the index, and the last rows.
    let found = kept.fetched() - read;
    assert!(found < page + 3 * (512 * 12 + 200) + 500, "{found} bytes were read");
    assert_eq!(state.hash(), plain.hash(), "the hashes are beside the blocks");
    let read = kept.fetched();
    state.extend(&closed(10_000..10_010));
    let appended = kept.fetched() - read;
    assert!(appended < 11 * 3 * (1_024 * 12 + 100), "{appended} bytes were read");
    assert_eq!(state, fold(&closed(0..10_010)));
}

#[test]
fn looking_costs_the_same_in_a_conversation_ten_times_as_long() {
    let looked = |blocks: usize| {
        let (kept, mut state) = reopen(&fold(&closed(0..blocks)));
        let before = visits();
        let mut read = Vec::new();
        for position in [0, blocks / 2, blocks - 1] {
            let block = state.blocks().get(position).expect("it is there").into_owned();
            assert!(state.blocks().find(&block.id).is_some());
            read.push(kept.fetched());
        }
        state.extend(&closed(blocks..blocks + 1));
        read.push(kept.fetched());
        (read, visits() - before)
    };
    let ((small, few), (large, many)) = (looked(20_000), looked(200_000));
    for (small, large) in small.iter().zip(&large) {
        assert!(*large * 2 <= *small * 3, "{small} and {large} bytes were read");
    }
    assert!(many * 2 <= few * 3, "{few} and {many} visits");
}

/// How many blocks the main conversation and a subagent's have: several pages.
const MAIN: usize = 4_500;
const AGENT: usize = 2_100;

/// Returns a session of several pages, with a call that is open and a subagent under two names.
fn long_session() -> ConversationState {
    let mut state = fold(&closed(0..MAIN));
    for event in closed(0..AGENT) {
        assert!(state.apply(&event.within("agent-a1")).anomaly().is_none());
    }
    for event in closed(AGENT - 20..AGENT + 20) {
        assert!(state.apply(&event.within("t1")).anomaly().is_none());
    }
    state.extend(&[event(
        r#"{"type":"block:upsert","payload":{"block":{"id":"t2","type":"tool_use","status":"pending",
            "toolName":"Bash","toolUseId":"t2","input":{"command":"ls"}},"after":"b2100"}}"#,
    )]);
    state
}

fn event(json: &str) -> SessionEvent {
    SessionEvent::from_json(json).expect("an event")
}

/// An event anywhere in the long session: blocks that are inserted, changed, moved, removed, renamed
/// or leave the active path, texts that grow, and two subagents that turn out to be one.
fn change_anywhere() -> impl Strategy<Value = SessionEvent> {
    let block = |id: String, more: String| {
        event(&format!(
            r#"{{"type":"block:upsert","payload":{{"block":{{"id":"{id}","type":"assistant_text",
                "status":"complete","content":"changed"}}{more}}}}}"#
        ))
    };
    let context = |kind: &str, head: usize| {
        let payload = format!(r#"{{"kind":"{kind}","head":"b{head}"}}"#);
        event(&format!(r#"{{"type":"context:changed","payload":{payload}}}"#))
    };
    let one = prop_oneof![
        6 => (0..MAIN, 0..3_usize).prop_map(move |(at, number)| {
            block(format!("n{number}-{at}"), format!(r#","after":"b{at}""#))
        }),
        3 => (0..MAIN).prop_map(move |at| block(format!("b{at}"), String::new())),
        3 => (0..MAIN, 0..MAIN).prop_map(move |(at, to)| {
            block(format!("b{at}"), format!(r#","after":"b{to}""#))
        }),
        2 => (0..MAIN).prop_map(move |at| block(format!("m{at}"), format!(r#","replaces":"b{at}""#))),
        2 => (0..MAIN).prop_map(|at| {
            let payload = format!(r#"{{"blockId":"b{at}","reason":"deleted"}}"#);
            event(&format!(r#"{{"type":"block:remove","payload":{payload}}}"#))
        }),
        2 => (0..MAIN).prop_map(move |head| context("rewind", head)),
        1 => (0..MAIN).prop_map(move |head| context("compaction", head)),
        1 => (0..MAIN).prop_map(|at| {
            let payload = format!(r#"{{"blockId":"b{at}","delta":"more","field":"content"}}"#);
            event(&format!(r#"{{"type":"block:delta","payload":{payload}}}"#))
        }),
        1 => Just(event(
            r#"{"type":"subagent:spawned","payload":{"toolUseId":"t1","agentId":"a1"}}"#
        )),
        1 => Just(event(r#"{"type":"session:idle","payload":{}}"#)),
    ];
    let conversation = prop_oneof![4 => Just("main"), 1 => Just("agent-a1"), 1 => Just("t1")];
    let source = prop_oneof![3 => Just(SourceKind::Transcript), 1 => Just(SourceKind::Stream)];
    (one, conversation, source)
        .prop_map(|(event, conversation, source)| event.within(conversation).from_source(source))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_conversation_of_several_pages_changes_as_one_in_memory(
        events in prop::collection::vec(change_anywhere(), 1..40),
        turns in prop::collection::vec(prop::bool::weighted(0.1), 1..40),
    ) {
        let (_, store) = spill_store();
        let mut plain = long_session();
        let (mut kept, mut reopened) = reopen(&plain);
        let held = (reopened.clone(), plain.hash());
        for (event, is_reopened) in events.iter().zip(turns.iter().cycle()) {
            prop_assert_eq!(reopened.apply(event), plain.apply(event), "{:?}", event);
            if *is_reopened {
                prop_assert!(!kept.is_broken());
                reopened.spill(&store);
                (kept, reopened) = reopen(&reopened);
            }
        }
        prop_assert_eq!(reopened.hash(), plain.hash());
        prop_assert_eq!(&reopened, &plain);
        let snapshot = serde_json::to_string(&plain.snapshot()).expect("plain data");
        prop_assert_eq!(snapshot_of_parts(&reopened).0, snapshot);
        for position in (0..plain.blocks().len()).step_by(97) {
            let id = plain.blocks().get(position).expect("it is there").id.clone();
            prop_assert_eq!(reopened.blocks().position(&id), Some(position));
        }
        prop_assert_eq!(held.0.hash(), held.1, "an old state stays as it was");
        prop_assert!(!kept.is_broken());
    }
}

#[test]
fn an_outline_that_does_not_fit_is_refused() {
    let state = fold(&closed(0..3));
    let (_, text) = spill_store();
    let (outline, written) = Written::of(&state);
    let outline = outline.unwrap();
    let places = written.put(&*text, 0);
    let restore = |places: &OutlinePlaces| {
        let restored = ConversationState::restore_outline(&outline, &text, places);
        restored.err().map(|error| error.to_string())
    };
    let corrupt = |reason: &str| Some(format!("the snapshot is corrupt: {reason}"));
    let end = |range: &Range<u64>, by: i64| range.start..range.end.strict_add_signed(by);
    for (by, [rows, hashes, index]) in [
        (-1, ["a row is missing", "a hash is missing", "an index is missing"]),
        (1, ["there is more in it than blocks"; 3]),
    ] {
        let changed = OutlinePlaces { rows: end(&places.rows, by), ..places.clone() };
        assert_eq!(restore(&changed), corrupt(rows));
        let changed = OutlinePlaces { hashes: end(&places.hashes, by), ..places.clone() };
        assert_eq!(restore(&changed), corrupt(hashes));
        let changed = OutlinePlaces { index: end(&places.index, by), ..places.clone() };
        assert_eq!(restore(&changed), corrupt(index));
    }
    let mut json = serde_json::to_value(&outline).unwrap();
    let restored = |json: &serde_json::Value| {
        let outline = serde_json::from_value(json.clone()).unwrap();
        ConversationState::restore_outline(&outline, &text, &places).err()
    };
    for (field, value, reason) in [
        ("eager", serde_json::json!([3]), "a block is missing"),
        ("beyondIndex", serde_json::json!([7]), "a block is missing"),
        ("count", u64::MAX.into(), "too many blocks"),
        ("count", (1_u64 << 30).into(), "a row is missing"),
    ] {
        let mut hostile = json.clone();
        hostile["main"]["blocks"][field] = value;
        assert_eq!(restored(&hostile).map(|it| it.to_string()), corrupt(reason));
    }
    json["version"] = 9.into();
    assert_eq!(restored(&json), Some(SnapshotError::Version { found: 9 }));
}

#[test]
fn a_page_that_cannot_be_read_leaves_empty_blocks_and_is_reported() {
    let (kept, state) = reopen(&fold(&closed(0..5_000)));
    kept.break_down();
    assert_eq!(state.blocks().len(), 5_000);
    assert_eq!(state.blocks().iter().count(), 5_000);
    assert!(state.blocks().find(&"b7".into()).is_none());
    assert!(kept.is_broken());
}

#[test]
fn a_state_with_thousands_of_subagents_has_no_outline() {
    let spawned = |number: usize| {
        let json =
            format!(r#"{{"type":"subagent:spawned","payload":{{"toolUseId":"t{number}"}}}}"#);
        SessionEvent::from_json(&json).unwrap()
    };
    let events: Vec<SessionEvent> = (0..4_097).map(spawned).collect();
    let has_outline = |events: &[SessionEvent]| Written::of(&fold(events)).0.is_some();
    assert!(has_outline(&events[1..]) && !has_outline(&events));
}

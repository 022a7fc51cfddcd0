//! Blocks that were put away: the state is the same as if they were not.

use std::sync::Arc;

use proptest::prelude::*;
use threadfold_core::{ConversationState, SessionEvent, SpillStore, fold};
use threadfold_testkit::sessions::{hostile, interleave, plausible};
use threadfold_testkit::shelf::{shelf, snapshot_of_parts};
use threadfold_testkit::story::{events, show};

/// Folds with blocks put away after every event for which `turns` says so, and holds each step
/// against a fold without.
fn fold_putting_away(events: &[SessionEvent], turns: &[bool]) -> Result<(), TestCaseError> {
    let (_, shelf) = shelf();
    let mut plain = ConversationState::default();
    let mut spilt = ConversationState::default();
    let mut held = Vec::new();
    for (event, is_due) in events.iter().zip(turns.iter().cycle()) {
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        let outcome = plain.apply_with(event, &mut expected);
        prop_assert_eq!(spilt.apply_with(event, &mut found), outcome, "{:?}", event);
        prop_assert_eq!(found, expected, "{:?}", event);
        held.push((spilt.clone(), plain.hash()));
        if *is_due {
            spilt.spill(&shelf);
        }
        prop_assert_eq!(spilt.hash(), plain.hash(), "{:?}", event);
    }
    same(&spilt, &plain)?;
    for (old, hash) in held {
        prop_assert_eq!(old.hash(), hash, "an old state stays as it was");
    }
    Ok(())
}

fn same(spilt: &ConversationState, plain: &ConversationState) -> Result<(), TestCaseError> {
    prop_assert_eq!(show(spilt), show(plain));
    prop_assert_eq!(spilt, plain);
    prop_assert_eq!(json(spilt), json(plain));
    let snapshot = json(&plain.snapshot());
    let (_, another) = shelf();
    let restored = ConversationState::restore_spilling(&snapshot, &another);
    prop_assert_eq!(&restored.expect("it was just taken"), plain);
    prop_assert_eq!(json(&spilt.snapshot()), snapshot.as_str());
    prop_assert_eq!(snapshot_of_parts(spilt).0, snapshot.as_str());
    prop_assert_eq!(snapshot_of_parts(plain), (snapshot, 0));
    Ok(())
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data")
}

proptest! {
    #[test]
    fn what_is_put_away_after_every_event_changes_nothing(events in hostile()) {
        fold_putting_away(&events, &[true])?;
    }

    #[test]
    fn what_is_put_away_now_and_then_changes_nothing(
        events in hostile(),
        turns in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        fold_putting_away(&events, &turns)?;
    }

    #[test]
    fn stream_and_file_with_blocks_put_away_are_the_same(
        session in plausible(),
        order in prop::collection::vec(any::<bool>(), 0..80),
        turns in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        fold_putting_away(&interleave(&session, &order), &turns)?;
    }
}

/// Returns so many blocks that are closed, as events.
fn closed(blocks: std::ops::Range<usize>) -> Vec<SessionEvent> {
    let block = |number| {
        let json = format!(
            r#"{{"type":"block:upsert","payload":{{"block":{{"id":"b{number}",
               "type":"assistant_text","status":"complete","content":"text {number}"}}}}}}"#
        );
        SessionEvent::from_json(&json).unwrap()
    };
    blocks.map(block).collect()
}

#[test]
fn blocks_put_away_one_after_another_are_one_part_of_a_snapshot() {
    let (kept, shelf) = shelf();
    let mut state = ConversationState::default();
    for start in [0, 10, 20] {
        state.extend(&closed(start..start + 10));
        state.spill(&shelf);
    }
    state.extend(&closed(30..32));
    assert_eq!(snapshot_of_parts(&state), (json(&fold(&closed(0..32)).snapshot()), 1));

    let before = kept.len();
    state.spill(&shelf);
    state.spill(&shelf);
    let two = json(&fold(&closed(30..32)).snapshot()).len();
    assert!(kept.len() - before < two, "only what is new is put");
}

#[test]
fn a_block_that_is_open_stays_and_goes_once_it_is_closed() {
    let (kept, shelf) = shelf();
    let mut state = ConversationState::default();
    let story = events("start a\na+=Hello\nidle");
    for (event, is_put) in story.iter().zip([false, false, true]) {
        state.extend([event]);
        state.spill(&shelf);
        assert_eq!(!kept.is_empty(), is_put, "{event:?}");
    }
    assert_eq!(state, fold(&story));
}

fn rewind(head: &str) -> SessionEvent {
    let payload = format!(r#"{{"kind":"rewind","head":"{head}"}}"#);
    let json = format!(r#"{{"type":"context:changed","payload":{payload}}}"#);
    SessionEvent::from_json(&json).unwrap()
}

#[test]
fn blocks_that_are_away_go_off_the_active_path_and_come_back() {
    let (_, shelf) = shelf();
    let story = [closed(0..50), vec![rewind("b9")], closed(50..60), vec![rewind("b19")]];
    let mut state = ConversationState::default();
    for events in &story {
        state.extend(events);
        state.spill(&shelf);
    }
    let plain = fold(story.iter().flatten());
    assert_eq!(state, plain);
    assert!(!plain.blocks().get(15).unwrap().inactive, "it was off and came back");
}

#[test]
fn a_stream_finds_its_place_among_blocks_that_are_away() {
    let (_, shelf) = shelf();
    let story = events(
        "file say a A after=-\nfile say b B after=a\nstream say a A after=-\n\
         stream say x X after=a\nfile say c C after=b\nstream say c C after=x",
    );
    let mut state = ConversationState::default();
    for event in &story {
        state.extend([event]);
        state.spill(&shelf);
    }
    assert_eq!(show(&state), show(&fold(&story)));
}

#[test]
fn a_block_that_was_away_goes_away_again_when_it_is_marked() {
    let (_, shelf) = shelf();
    let mut state = ConversationState::default();
    state.extend(&closed(0..50));
    state.spill(&shelf);
    state.extend([&rewind("b9")]);
    let marked = state.blocks().iter().filter(|block| block.inactive).count();
    let (json, away) = snapshot_of_parts(&state);
    assert_eq!((marked, away), (40, 2), "all blocks are still away: 10 in one part, 40 in another");
    assert_eq!(json.matches("\"inactive\":true").count(), 40);
}

#[test]
fn blocks_of_another_type_are_not_fetched_to_find_one() {
    let (kept, shelf) = shelf();
    let mut state = ConversationState::default();
    state.extend(&closed(0..5));
    state.spill(&shelf);
    kept.break_down();
    assert_eq!(state.blocks().of_kind("user_message").count(), 0);
    assert_eq!(state.hash(), fold(&closed(0..5)).hash(), "hashes are kept");
}

#[test]
fn what_is_not_what_was_put_away_is_told_to_the_shelf() {
    let (kept, shelf) = shelf();
    let mut state = ConversationState::default();
    state.extend(&closed(0..5));
    state.spill(&shelf);
    kept.damage();
    assert!(!kept.is_broken());
    assert_eq!(state.blocks().iter().count(), 5);
    assert!(kept.is_broken());
}

#[test]
fn a_shelf_that_breaks_down_panics_nobody() {
    let (kept, shelf) = shelf();
    let mut state = ConversationState::default();
    state.extend(&closed(0..5));
    state.spill(&shelf);
    kept.break_down();
    assert_eq!(state.blocks().iter().count(), 5);
    state.extend(&closed(0..9));
    state.spill(&shelf);
    let again: Arc<dyn SpillStore> = shelf;
    state.spill(&again);
    assert_eq!(state.blocks().len(), 9);
}

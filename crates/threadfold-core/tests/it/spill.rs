//! Spilled blocks: the state equals one without spilling.

use std::sync::Arc;

use proptest::prelude::*;
use threadfold_core::{ConversationState, SessionEvent, SpillStore, fold};
use threadfold_testkit::sessions::{hostile, interleave, plausible};
use threadfold_testkit::spill_store::{MemorySpillStore, snapshot_of_parts, spill_store};
use threadfold_testkit::story::{events, show};

/// Folds events, spills after those that `turns` selects, and compares each step with a plain
/// fold: once with subagents in memory, and once with all of them spilled.
fn fold_spilling(events: &[SessionEvent], turns: &[bool]) -> Result<(), TestCaseError> {
    fold_spilling_beyond(usize::MAX, events, turns)?;
    fold_spilling_beyond(0, events, turns)
}

fn fold_spilling_beyond(
    subagents: usize,
    events: &[SessionEvent],
    turns: &[bool],
) -> Result<(), TestCaseError> {
    let (_, store) = spill_store();
    let mut plain = ConversationState::default();
    let mut spilled = ConversationState::default();
    let mut held = Vec::new();
    for (event, is_due) in events.iter().zip(turns.iter().cycle()) {
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        let outcome = plain.apply_with(event, &mut expected);
        prop_assert_eq!(spilled.apply_with(event, &mut found), outcome, "{:?}", event);
        prop_assert_eq!(found, expected, "{:?}", event);
        held.push((spilled.clone(), plain.hash()));
        if *is_due {
            spilled.spill_beyond(subagents, &store);
        }
        prop_assert_eq!(spilled.hash(), plain.hash(), "{:?}", event);
    }
    same(&spilled, &plain)?;
    spilled.spill_beyond(subagents, &store);
    same(&spilled, &plain)?;
    for (old, hash) in held {
        prop_assert_eq!(old.hash(), hash, "an old state stays as it was");
    }
    Ok(())
}

fn same(spilled: &ConversationState, plain: &ConversationState) -> Result<(), TestCaseError> {
    prop_assert_eq!(show(spilled), show(plain));
    prop_assert_eq!(spilled, plain);
    prop_assert_eq!(json(spilled), json(plain));
    let snapshot = json(&plain.snapshot());
    let (_, another) = spill_store();
    let restored = ConversationState::restore_spilling(&snapshot, &another);
    prop_assert_eq!(&restored.expect("it was just taken"), plain);
    prop_assert_eq!(json(&spilled.snapshot()), snapshot.as_str());
    prop_assert_eq!(snapshot_of_parts(spilled).0, snapshot.as_str());
    prop_assert_eq!(snapshot_of_parts(plain), (snapshot, 0));
    Ok(())
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data")
}

proptest! {
    #[test]
    fn spilling_after_every_event_does_not_change_the_state(events in hostile()) {
        fold_spilling(&events, &[true])?;
    }

    #[test]
    fn spilling_after_some_events_does_not_change_the_state(
        events in hostile(),
        turns in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        fold_spilling(&events, &turns)?;
    }

    #[test]
    fn stream_and_transcript_agree_with_spilled_blocks(
        session in plausible(),
        order in prop::collection::vec(any::<bool>(), 0..80),
        turns in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        fold_spilling(&interleave(&session, &order), &turns)?;
    }
}

/// Returns events for a range of closed blocks.
pub(crate) fn closed(blocks: std::ops::Range<usize>) -> Vec<SessionEvent> {
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
fn a_run_of_spilled_blocks_is_one_part_of_a_snapshot() {
    let (kept, store) = spill_store();
    let mut state = ConversationState::default();
    for start in [0, 10, 20] {
        state.extend(&closed(start..start + 10));
        state.spill(&store);
    }
    state.extend(&closed(30..32));
    assert_eq!(snapshot_of_parts(&state), (json(&fold(&closed(0..32)).snapshot()), 1));

    let before = kept.len();
    state.spill(&store);
    state.spill(&store);
    let two = json(&fold(&closed(30..32)).snapshot()).len();
    assert!(kept.len() - before < two, "only what is new is put");
}

#[test]
fn an_open_block_is_spilled_once_it_closes() {
    let (kept, store) = spill_store();
    let mut state = ConversationState::default();
    let story = events("start a\na+=Hello\nidle");
    for (event, is_put) in story.iter().zip([false, false, true]) {
        state.extend([event]);
        state.spill(&store);
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
fn spilled_blocks_can_leave_and_rejoin_the_active_path() {
    let (_, store) = spill_store();
    let story = [closed(0..50), vec![rewind("b9")], closed(50..60), vec![rewind("b19")]];
    let mut state = ConversationState::default();
    for events in &story {
        state.extend(events);
        state.spill(&store);
    }
    let plain = fold(story.iter().flatten());
    assert_eq!(state, plain);
    assert!(!plain.blocks().get(15).unwrap().inactive, "it was off and came back");
}

#[test]
fn stream_blocks_are_placed_among_spilled_blocks() {
    let (_, store) = spill_store();
    let story = events(
        "file say a A after=-\nfile say b B after=a\nstream say a A after=-\n\
         stream say x X after=a\nfile say c C after=b\nstream say c C after=x",
    );
    let mut state = ConversationState::default();
    for event in &story {
        state.extend([event]);
        state.spill(&store);
    }
    assert_eq!(show(&state), show(&fold(&story)));
}

#[test]
fn a_spilled_block_is_spilled_again_when_it_changes() {
    let (_, store) = spill_store();
    let mut state = ConversationState::default();
    state.extend(&closed(0..50));
    state.spill(&store);
    state.extend([&rewind("b9")]);
    let marked = state.blocks().iter().filter(|block| block.inactive).count();
    let (json, spilled) = snapshot_of_parts(&state);
    assert_eq!(
        (marked, spilled),
        (40, 2),
        "all blocks are still spilled: 10 in one part, 40 in another"
    );
    assert_eq!(json.matches("\"inactive\":true").count(), 40);
}

#[test]
fn finding_blocks_by_type_does_not_read_back_other_types() {
    let (kept, store) = spill_store();
    let mut state = ConversationState::default();
    state.extend(&closed(0..5));
    state.spill(&store);
    kept.break_down();
    assert_eq!(state.blocks().of_kind("user_message").count(), 0);
    assert_eq!(state.hash(), fold(&closed(0..5)).hash(), "hashes are kept");
}

#[test]
fn corrupt_spilled_text_is_reported_to_the_store() {
    let (kept, store) = spill_store();
    let mut state = ConversationState::default();
    state.extend(&closed(0..5));
    state.spill(&store);
    kept.damage();
    assert!(!kept.is_broken());
    assert_eq!(state.blocks().iter().count(), 5);
    assert!(kept.is_broken());
}

#[test]
fn a_failing_spill_store_causes_no_panic() {
    let (kept, store) = spill_store();
    let mut state = ConversationState::default();
    state.extend(&closed(0..5));
    state.spill(&store);
    kept.break_down();
    assert_eq!(state.blocks().iter().count(), 5);
    state.extend(&closed(0..9));
    state.spill(&store);
    let again: Arc<dyn SpillStore> = store;
    state.spill(&again);
    assert_eq!(state.blocks().len(), 9);
}

#[test]
fn calls_without_results_are_spilled_if_there_are_many() {
    let call = |number: usize| {
        let block = format!(
            r#"{{"id":"c{number}","type":"tool_use","toolName":"Read","toolUseId":"c{number}","input":{{"n":{number}}},"status":"pending"}}"#
        );
        SessionEvent::from_json(&format!(
            r#"{{"type":"block:upsert","payload":{{"block":{block}}}}}"#
        ))
        .unwrap()
    };
    let result = |number: usize| {
        let block = format!(
            r#"{{"id":"result:c{number}","type":"tool_result","toolUseId":"c{number}","output":"x","isError":false,"status":"complete"}}"#
        );
        SessionEvent::from_json(&format!(
            r#"{{"type":"block:upsert","payload":{{"block":{block}}}}}"#
        ))
        .unwrap()
    };
    let (kept, store) = spill_store();
    let mut story: Vec<SessionEvent> = (0..2_000).map(call).collect();
    let mut state = ConversationState::default();
    for event in &story {
        state.extend([event]);
    }
    state.spill(&store);
    assert!(kept.len() > 100_000, "{} bytes were spilled", kept.len());
    assert_eq!(state, fold(&story));
    // A result closes its call, and the end of a turn all others.
    let rest: Vec<SessionEvent> = (0..2_000)
        .step_by(7)
        .map(result)
        .chain([SessionEvent::from_json(r#"{"type":"session:idle"}"#).unwrap()])
        .collect();
    for event in &rest {
        state.extend([event]);
        state.spill(&store);
    }
    story.extend(rest);
    let plain = fold(&story);
    assert_eq!((&state, state.hash()), (&plain, plain.hash()));
    assert!(state.blocks().iter().all(|block| !block.status.is_open()));
}

/// Returns events for a range of subagents that begin one after another, each with a block. With
/// `is_chain`, each one's conversation calls the next.
fn subagents(numbers: std::ops::Range<usize>, is_chain: bool) -> Vec<SessionEvent> {
    let of_one = |number: usize| {
        let caller = match (is_chain, number) {
            (true, 1..) => format!("t{}", number - 1),
            _ => "main".to_owned(),
        };
        let block = format!(
            r#"{{"id":"b","type":"assistant_text","status":"complete","content":"text {number}"}}"#
        );
        [
            format!(
                r#"{{"type":"subagent:spawned","context":{{"conversationId":"{caller}"}},"payload":{{"toolUseId":"t{number}","agentId":"a{number}","prompt":"p"}}}}"#
            ),
            format!(
                r#"{{"type":"block:upsert","context":{{"conversationId":"a{number}"}},"payload":{{"block":{block}}}}}"#
            ),
        ]
    };
    numbers.flat_map(of_one).map(|json| SessionEvent::from_json(&json).unwrap()).collect()
}

/// Returns a state with spilled subagents, and its store.
fn with_spilled(
    events: &[SessionEvent],
) -> (ConversationState, Arc<MemorySpillStore>, Arc<dyn SpillStore>) {
    let (kept, store) = spill_store();
    let mut state = ConversationState::default();
    for event in events {
        state.extend([event]);
    }
    state.spill_beyond(0, &store);
    (state, kept, store)
}

#[test]
fn spilled_subagents_are_found_by_all_their_names_and_can_change() {
    for is_chain in [false, true] {
        let story = subagents(0..600, is_chain);
        let (mut state, _, store) = with_spilled(&story);
        same(&state, &fold(&story)).unwrap();
        for name in ["t7", "a7", "agent-a7"] {
            let subagent = state.subagent(&name.into()).unwrap();
            assert_eq!(subagent.tool_use_id().unwrap().as_str(), "t7");
            assert_eq!(subagent.blocks().iter().count(), 1 + usize::from(is_chain));
        }
        let more = r#"{"type":"subagent:completed","payload":{"toolUseId":"t7","status":"completed","output":"done"}}
            {"type":"session:idle","context":{"conversationId":"a3"}}
            {"type":"session:idle"}
            {"type":"block:upsert","context":{"conversationId":"a9"},"payload":{"block":{"id":"c","type":"assistant_text","status":"pending","content":"x"}}}
            {"type":"block:delta","context":{"conversationId":"t9"},"payload":{"blockId":"c","delta":"y"}}"#;
        let more: Vec<_> =
            more.lines().map(|line| SessionEvent::from_json(line.trim()).unwrap()).collect();
        let held = state.clone();
        let before = held.hash();
        for event in &more {
            state.extend([event]);
            state.spill_beyond(0, &store);
        }
        same(&state, &fold(story.iter().chain(&more))).unwrap();
        assert_eq!(
            (held.hash(), before),
            (before, fold(&story).hash()),
            "an old state is as it was"
        );
    }
}

#[test]
fn subagents_are_spilled_once_there_are_many() {
    let (kept, store) = spill_store();
    let mut state = ConversationState::default();
    let read = |state: &ConversationState| {
        let before = kept.fetched();
        let names = (0..250).map(|it| format!("a{it}"));
        names.for_each(|it| {
            assert!(state.subagent(&it.as_str().into()).is_some_and(|it| !it.is_internal()))
        });
        kept.fetched() - before
    };
    state.extend(&subagents(0..250, false));
    state.spill(&store);
    state.spill(&store);
    assert_eq!(read(&state), 0, "so many stay in memory");
    state.extend(&subagents(250..1_000, false));
    state.spill(&store);
    assert!(read(&state) > 250 * 100, "each is read back");
    assert_eq!(state, fold(&subagents(0..1_000, false)));
}

#[test]
fn a_spilled_subagent_is_written_again_only_if_it_changes() {
    let story = subagents(0..600, false);
    let (mut state, kept, store) = with_spilled(&story);
    let before = kept.len();
    state.hash();
    state.spill_beyond(0, &store);
    assert_eq!(kept.len(), before, "reading writes nothing");
    state.extend(&subagents(7..8, false));
    state.spill_beyond(0, &store);
    assert!((1..4_000).contains(&(kept.len() - before)), "{} bytes", kept.len() - before);
    same(&state, &fold(&story)).unwrap();
}

#[test]
fn corrupt_subagents_are_reported_to_the_store_and_cause_no_panic() {
    let story = subagents(0..600, true);
    for is_damaged in [true, false] {
        let (mut state, kept, store) = with_spilled(&story);
        if is_damaged {
            kept.damage();
            assert!(!kept.is_broken());
        } else {
            kept.break_down();
        }
        state.subagents().iter().for_each(|it| assert!(it.blocks().len() <= 2));
        state.hash();
        assert!(kept.is_broken());
        state.extend(&story);
        state.spill_beyond(0, &store);
    }
}

#[test]
fn subagents_that_were_spilled_to_several_stores_are_read_from_each() {
    let stores: Vec<_> = (0..3).map(|_| spill_store().1).collect();
    let story = subagents(0..90, true);
    let mut state = ConversationState::default();
    for (events, store) in story.chunks(60).zip(&stores) {
        state.extend(events);
        state.spill_beyond(0, store);
    }
    // Another state goes its own way with the same stores.
    let mut other = state.clone();
    let more = subagents(90..120, true);
    state.extend(&more);
    state.spill_beyond(0, &stores[1]);
    let rest = subagents(30..40, false);
    other.extend(&rest);
    other.spill_beyond(0, &spill_store().1);
    assert_eq!(state, fold(&subagents(0..120, true)));
    assert_eq!(other, fold(&[story, rest].concat()));
}

//! Property tests of the reducer, on generated sessions.
//!
//! Each test runs 256 cases; set `PROPTEST_CASES=20000` for more.

use proptest::prelude::*;
use threadfold_core::{
    AssistantTextBlock, Block, BlockBody, BlockDelta, BlockStatus, ConversationState, Outcome,
    Payload, SessionEvent, StateSnapshot, TextField, apply_changes, fold,
};
use threadfold_testkit::sessions::{any_event, hostile, interleave, plausible};
use threadfold_testkit::story::show;

fn restored(state: &ConversationState) -> ConversationState {
    let json = serde_json::to_string(&state.snapshot()).expect("a snapshot is plain data");
    let snapshot: StateSnapshot = serde_json::from_str(&json).expect("it was just written");
    ConversationState::restore(&snapshot).expect("it was just taken")
}

proptest! {
    #[test]
    fn folding_twice_gives_the_same_bytes(events in hostile()) {
        let (once, twice) = (fold(&events), fold(&events));
        prop_assert_eq!(once.hash(), twice.hash());
        prop_assert_eq!(
            serde_json::to_string(&once).expect("plain data"),
            serde_json::to_string(&twice).expect("plain data")
        );
    }

    #[test]
    fn applying_an_event_twice_is_idempotent(events in hostile(), mut event in any_event()) {
        if let Payload::BlockDelta(delta) = &mut event.payload {
            // A delta without an offset is not idempotent.
            delta.offset.get_or_insert(0);
        }
        let once = fold(events.iter().chain([&event]));
        let twice = fold(events.iter().chain([&event, &event]));
        prop_assert_eq!(show(&once), show(&twice));
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn the_state_does_not_depend_on_how_text_is_split_into_deltas(
        text in "\\PC{0,40}",
        cuts in prop::collection::vec(0usize..41, 0..8),
        offsets in any::<bool>(),
    ) {
        let mut block = Block::new("a", AssistantTextBlock { content: "".into(), model: None });
        block.status = BlockStatus::Pending;
        let mut places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        places.push(text.len());
        let mut at: Vec<usize> = cuts.iter().map(|&cut| places[cut % places.len()]).collect();
        at.extend([0, text.len()]);
        at.sort_unstable();
        let mut events = vec![SessionEvent::upsert(block.clone())];
        events.extend(at.windows(2).map(|pair| {
            SessionEvent::new(Payload::BlockDelta(BlockDelta {
                block_id: "a".into(),
                delta: text[pair[0]..pair[1]].into(),
                field: TextField::Content,
                offset: offsets.then_some(pair[0] as u64),
            }))
        }));
        block.body = AssistantTextBlock { content: text.into(), model: None }.into();
        let whole = fold(&[SessionEvent::upsert(block)]);
        let cut = fold(&events);
        prop_assert_eq!(cut.hash(), whole.hash());
        prop_assert_eq!(cut, whole);
    }

    #[test]
    fn folding_a_prefix_and_the_rest_equals_folding_all(
        events in prop_oneof![hostile(), plausible().prop_map(|session| session.stream)],
        at in any::<prop::sample::Index>(),
    ) {
        let at = at.index(events.len() + 1);
        let prefix = fold(&events[..at]);
        let kept = prefix.clone();
        let before = show(&kept);
        let whole = events[at..].iter().fold(prefix, threadfold_core::reduce);
        prop_assert_eq!(show(&kept), before, "an old state stays as it was");
        prop_assert_eq!(&whole, &fold(&events));
    }

    #[test]
    fn restoring_a_snapshot_and_folding_the_rest_equals_folding_all(events in hostile(), at in 0usize..60) {
        let at = at.min(events.len());
        let prefix = fold(&events[..at]);
        let back = restored(&prefix);
        prop_assert_eq!(show(&back), show(&prefix));
        prop_assert_eq!(back.hash(), prefix.hash());
        let whole = events[at..].iter().fold(back, threadfold_core::reduce);
        let expected = fold(&events);
        prop_assert_eq!(show(&whole), show(&expected));
        prop_assert_eq!(whole.hash(), expected.hash());
    }

    #[test]
    fn applying_the_changes_of_a_step_gives_the_new_state(events in hostile()) {
        let mut state = ConversationState::default();
        let mut shown = ConversationState::default();
        for event in &events {
            let before = state.clone();
            let mut changes = Vec::new();
            let outcome = state.apply_with(event, &mut changes);
            let made = apply_changes(&before, &changes);
            prop_assert_eq!(show(&made), show(&state), "{:?} {:?}", event, changes);
            prop_assert_eq!(&made, &state);
            shown = apply_changes(&shown, &changes);
            prop_assert_eq!(&shown, &state, "a client that has only changes, after {:?}", event);
            prop_assert_eq!(names(&shown), names(&state), "after {:?}", event);
            if changes.is_empty() {
                prop_assert!(matches!(outcome, Outcome::Unchanged | Outcome::Ignored(_)));
                prop_assert_eq!(&before, &state);
            }
        }
        prop_assert_eq!(shown.hash(), state.hash());
    }

    #[test]
    fn an_ignored_event_leaves_the_state_equal(events in hostile()) {
        let mut state = ConversationState::default();
        for event in &events {
            let before = state.clone();
            match state.apply(event) {
                Outcome::Ignored(_) | Outcome::Unchanged => prop_assert_eq!(&before, &state),
                Outcome::Applied | Outcome::Noted(_) => prop_assert_ne!(&before, &state),
            }
        }
    }

    #[test]
    fn an_event_survives_a_round_trip(event in any_event()) {
        let json = serde_json::to_string(&event).expect("plain data");
        prop_assert_eq!(SessionEvent::from_json(&json).expect("it was just written"), event);
    }

    #[test]
    fn independent_conversations_commute(
        ours in hostile(),
        theirs in hostile(),
        turns in prop::collection::vec(any::<bool>(), 0..120),
    ) {
        let apart = |events: &[SessionEvent], name: &str| -> Vec<SessionEvent> {
            let texts = events.iter().filter(|event| {
                matches!(
                    event.payload,
                    Payload::BlockUpsert(_)
                        | Payload::BlockDelta(_)
                        | Payload::BlockRemove(_)
                        | Payload::SessionIdle(_)
                        | Payload::ContextChanged(_)
                ) && !mentions_a_subagent(event)
            });
            texts.cloned().map(|event| event.within(name)).collect()
        };
        let session = threadfold_testkit::sessions::Session {
            stream: apart(&ours, "left"),
            files: apart(&theirs, "right"),
        };
        prop_assert_eq!(
            show(&fold(&interleave(&session, &turns))),
            show(&fold(&interleave(&session, &[])))
        );
    }

    #[test]
    fn every_interleaving_of_stream_and_transcript_gives_the_same_state(
        session in plausible(),
        turns in prop::collection::vec(any::<bool>(), 0..80),
    ) {
        let one = fold(&interleave(&session, &turns));
        let stream_first = fold(&interleave(&session, &[]));
        prop_assert_eq!(show(&one), show(&stream_first));
        prop_assert_eq!(one.hash(), stream_first.hash());
        let files_first = fold(session.files.iter().chain(&session.stream));
        prop_assert_eq!(show(&files_first), show(&stream_first));
        prop_assert_eq!(files_first.hash(), stream_first.hash());
    }

    #[test]
    fn every_subagent_stands_in_one_place_and_an_interrupted_one_has_nothing_open(
        session in plausible(),
        turns in prop::collection::vec(any::<bool>(), 0..80),
    ) {
        let mut state = ConversationState::default();
        let mut background = Vec::new();
        for event in interleave(&session, &turns) {
            if let Payload::SubagentSpawned(run) = &event.payload && run.background {
                background.push(run.tool_use_id.to_string());
            }
            // Odd events are part of the law: whether one was ignored does not matter here.
            drop(state.apply(&event));
            let found = faults(&state, &background);
            prop_assert_eq!(found, Vec::<String>::new(), "{:?}: {}", event, show(&state));
        }
        prop_assert_eq!(shown_twice(&state), Vec::<String>::new(), "{}", show(&state));
    }

    #[test]
    fn a_plausible_session_has_no_anomaly(session in plausible()) {
        for side in [&session.stream, &session.files] {
            let mut state = ConversationState::default();
            for event in side {
                let outcome = state.apply(event);
                let unheard = matches!(event.payload, Payload::SessionIdle(_));
                prop_assert!(unheard || outcome.anomaly().is_none(), "{:?} {:?}", event, outcome);
            }
        }
    }
}

/// Returns the name of each subagent's conversation, with the names that its blocks carry. States
/// are equal whatever these names are.
fn names(state: &ConversationState) -> Vec<(String, Vec<String>)> {
    let carried = |subagent: &threadfold_core::SubagentRef<'_>| {
        subagent.blocks().iter().map(|block| block.conversation_id.to_string()).collect()
    };
    let subagents = state.subagents();
    subagents.iter().map(|it| (it.conversation_id().to_string(), carried(it))).collect()
}

/// Returns all blocks of a state.
fn all_blocks(state: &ConversationState) -> Vec<Block> {
    let subagents = state.subagents();
    let others = subagents.iter().map(|subagent| subagent.blocks());
    let conversations = std::iter::once(state.blocks()).chain(others);
    conversations.flat_map(|blocks| blocks.iter().map(|block| block.into_owned())).collect()
}

/// Returns the call of a block that shows a subagent.
fn call_of(block: &Block) -> Option<String> {
    match &block.body {
        BlockBody::Subagent(body) => body.tool_use_id.as_ref().map(ToString::to_string),
        _ => None,
    }
}

/// Returns the calls that are shown more than once.
fn shown_twice(state: &ConversationState) -> Vec<String> {
    let mut calls: Vec<_> = all_blocks(state).iter().filter_map(call_of).collect();
    calls.sort();
    calls.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone()).collect()
}

/// Returns subagents that are marked unplaced and stand somewhere, and blocks that are open inside
/// an interrupted run. The calls in `background` outlive the interruption of what contains them.
fn faults(state: &ConversationState, background: &[String]) -> Vec<String> {
    let blocks = all_blocks(state);
    let mut faults = Vec::new();
    for subagent in state.subagents() {
        let call = subagent.tool_use_id().map(|call| call.to_string());
        let mut edges = blocks.iter().filter(|block| call.is_some() && call_of(block) == call);
        if subagent.is_unplaced() && edges.clone().next().is_some() {
            faults.push(format!("{call:?} is unplaced and shown"));
        }
        if edges.any(|block| block.interrupted) {
            let inside = subagent.blocks();
            let outlives =
                |block: &Block| call_of(block).is_some_and(|it| background.contains(&it));
            let open = inside.iter().filter(|it| it.status.is_open() && !outlives(it));
            faults.extend(open.map(|block| format!("{} is open in {call:?}", block.id)));
        }
    }
    faults
}

fn mentions_a_subagent(event: &SessionEvent) -> bool {
    let Payload::BlockUpsert(upsert) = &event.payload else {
        return false;
    };
    upsert.block.body.kind() == "subagent"
}

//! Property tests of a loop's state.

use super::*;

proptest! {
    #[test]
    fn applying_a_loop_event_twice_is_idempotent(events in plausible_loop()) {
        let mut state = TurnState::default();
        for event in &events {
            prop_assert_eq!(state.apply(event), Outcome::Applied);
            let once = state.clone();
            prop_assert_eq!(state.apply(event), Outcome::Unchanged);
            prop_assert_eq!(&state, &once);
        }
        for event in &events {
            prop_assert!(!matches!(state.apply(event), Outcome::Applied | Outcome::Noted(_)));
        }
        prop_assert_eq!(&state, &fold(&events));
    }

    #[test]
    fn loop_events_in_any_order_keep_the_invariants(
        events in plausible_loop(),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let mut state = TurnState::default();
        for index in order.iter().filter(|_| !events.is_empty()) {
            let event = index.get(&events);
            let before = state.clone();
            match state.apply(event) {
                Outcome::Ignored(_) | Outcome::Unchanged => prop_assert_eq!(&before, &state),
                Outcome::Applied | Outcome::Noted(_) => prop_assert_ne!(&before, &state),
            }
            let once = state.clone();
            prop_assert!(!matches!(state.apply(event), Outcome::Applied | Outcome::Noted(_)));
            prop_assert_eq!(&once, &state);
        }
    }

    #[test]
    fn a_plausible_loop_is_shown_without_an_anomaly(events in plausible_loop()) {
        let mut state = ConversationState::default();
        for event in &events {
            let outcome = state.apply(event);
            prop_assert!(outcome.anomaly().is_none(), "{:?} {:?}", event, outcome);
        }
        let before = state.clone();
        for event in &events {
            prop_assert_ne!(state.apply(event), Outcome::Applied, "{:?}", event);
        }
        prop_assert_eq!(state, before);
    }

    #[test]
    fn restoring_a_loop_and_folding_the_rest_equals_folding_all(
        events in plausible_loop(),
        at in any::<prop::sample::Index>(),
    ) {
        let at = at.index(events.len() + 1);
        let kept = fold(&events[..at]).to_json();
        let mut state = TurnState::restore(&kept).expect("it was just kept");
        state.extend(&events[at..]);
        prop_assert_eq!(&state, &fold(&events));
        prop_assert_eq!(state.prefix_hash(), fold(&events).prefix_hash());
    }

    #[test]
    fn only_finished_calls_are_replayed_wherever_a_loop_stopped(
        events in plausible_loop(),
        at in any::<prop::sample::Index>(),
    ) {
        let at = at.index(events.len() + 1);
        let state = fold(&events[..at]);
        let plan = resume_plan(&state, |_| Effect::Pure);
        for planned in &plan.calls {
            let is_finished = planned.call.result().is_some();
            prop_assert_eq!(planned.action == CallAction::Replay, is_finished);
            if planned.action == CallAction::Run {
                prop_assert_eq!(planned.call.attempt, 0, "it never ran before");
            }
        }
    }
}

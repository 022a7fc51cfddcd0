//! Where subagents stand, what their interruption closes, and the names that lead to them.

use insta::assert_snapshot;
use threadfold_core::{Change, ConversationState, SessionEvent, apply_changes, fold};
use threadfold_testkit::story::{events, play, show, state};

/// Applies a story, and checks after each step that a client that has only the changes sees the
/// same, under the same names.
fn play_as_client(story: &str) -> (ConversationState, Vec<Change>) {
    let (mut state, mut client) = (ConversationState::default(), ConversationState::default());
    let mut all = Vec::new();
    for event in events(story) {
        let mut changes = Vec::new();
        drop(state.apply_with(&event, &mut changes));
        client = apply_changes(&client, &changes);
        assert_eq!(show(&client), show(&state));
        assert_eq!(
            serde_json::to_string(&client).unwrap(),
            serde_json::to_string(&state).unwrap(),
            "after {event:?}"
        );
        all.extend(changes);
    }
    (state, all)
}

mod placing {
    use super::*;

    #[test]
    fn a_subagent_without_a_known_caller_stands_nowhere_and_is_listed_as_unplaced() {
        assert_snapshot!(play("say a hi; spawn c agent=A unplaced"), @r#"
        a assistant_text "hi"
        [A unplaced call c running]
        "#);
    }

    #[test]
    fn an_unplaced_subagent_stands_where_its_call_appears() {
        let story = "tool o Agent; spawn o agent=O; spawn c agent=A unplaced; @O tool c Agent";
        assert_snapshot!(play(story), @r#"
        o subagent running " -> "
        [O call o running]
          c subagent running " -> "
        [A call c running]
        "#);
    }

    #[test]
    fn the_order_of_the_run_and_its_call_does_not_matter() {
        let before = state("tool o Agent; spawn o; spawn c unplaced; @o tool c Agent; done c");
        let after = state("tool o Agent; spawn o; @o tool c Agent; spawn c; done c");
        assert_eq!(show(&before), show(&after));
        let after = state("tool o Agent; spawn o; @o tool c Agent; @o spawn c; done c");
        assert_eq!(before.hash(), after.hash());
    }

    #[test]
    fn an_unplaced_run_finds_a_call_that_another_source_reported_before() {
        let files = events("file tool o Agent; file spawn o agent=O; file @O tool c Agent");
        let stream = events("stream spawn c agent=A unplaced; stream done c unplaced output=3");
        let one = fold(files.iter().chain(&stream));
        let other = fold(stream.iter().chain(&files));
        assert_eq!(show(&one), show(&other));
        assert_eq!(one.hash(), other.hash());
        assert!(one.subagents().iter().all(|subagent| !subagent.is_unplaced()));
    }

    #[test]
    fn a_block_that_stands_in_for_a_call_makes_way_for_the_call() {
        // An event claims that `main` is the caller; the call itself appears elsewhere.
        let story = "tool o Agent; spawn o agent=O; spawn c agent=A; @O tool c Agent";
        assert_snapshot!(play(story), @r#"
        o subagent running " -> "
        [O call o running]
          c subagent running " -> "
        [A call c running]
        "#);
    }

    #[test]
    fn the_json_of_an_unplaced_subagent_has_the_mark_until_it_is_placed() {
        let json = |story: &str| serde_json::to_value(state(story)).unwrap();
        let waiting = json("spawn c unplaced");
        assert_eq!(waiting["subagents"][0]["unplaced"], true);
        let placed = json("spawn c unplaced; tool c Agent");
        assert_eq!(placed["subagents"][0].get("unplaced"), None);
    }

    #[test]
    fn a_client_sees_a_subagent_wait_and_then_stand() {
        let (_, changes) = play_as_client(
            "tool o Agent; spawn o agent=O; spawn c agent=A unplaced; @c say x hi; @O tool c Agent",
        );
        let marks: Vec<bool> = changes
            .iter()
            .filter_map(|change| match change {
                Change::SubagentChanged { subagent, .. } => {
                    (subagent.tool_use_id.as_ref()?.as_str() == "c").then_some(subagent.unplaced)
                }
                _ => None,
            })
            .collect();
        assert_eq!(marks, [true, false]);
    }

    #[test]
    fn an_unplaced_run_ends_with_its_own_turn() {
        assert_snapshot!(play("spawn c agent=A unplaced; @A tool t Bash; @A idle"), @r#"
        [A unplaced call c error]
          t tool_use interrupted "Bash"
        "#);
    }
}

mod interruption {
    use super::*;

    const NESTED: &str = "tool o Agent; spawn o agent=O; @O start a thinking; @O tool i Agent;
        @O spawn i agent=I; @I tool t Bash; @I tool j Agent; @I spawn j agent=J; @J start x deep";

    #[test]
    fn the_end_of_a_turn_closes_everything_inside_the_run_that_it_interrupts() {
        assert_snapshot!(play(&format!("{NESTED}; idle")), @r#"
        o subagent error interrupted " -> "
        [O call o error]
          a assistant_text interrupted "thinking"
          i subagent error interrupted " -> "
        [I call i error]
          t tool_use interrupted "Bash"
          j subagent error interrupted " -> "
        [J call j error]
          x assistant_text interrupted "deep"
        "#);
    }

    #[test]
    fn a_client_sees_the_same_close() {
        let (state, _) = play_as_client(&format!("{NESTED}; idle"));
        assert_eq!(state.hash(), super::state(&format!("{NESTED}; idle")).hash());
    }

    #[test]
    fn reports_of_another_source_inside_an_interrupted_run_are_closed_too() {
        let stream = events("stream tool o Agent; stream spawn o agent=O; stream idle");
        let files = events("file tool o Agent; file spawn o agent=O; file @O tool t Bash");
        let one = fold(stream.iter().chain(&files));
        let other = fold(files.iter().chain(&stream));
        assert_snapshot!(show(&one), @r#"
        o subagent error interrupted " -> "
        [O call o error]
          t tool_use interrupted "Bash"
        "#);
        assert_eq!(one.hash(), other.hash());
    }

    #[test]
    fn a_late_answer_opens_the_run_again_and_what_is_inside_it() {
        assert_snapshot!(play(&format!("{NESTED}; idle; done o output=late")), @r#"
        o subagent success " -> late"
        [O call o success] -> "late"
          a assistant_text pending "thinking"
          i subagent running " -> "
        [I call i running]
          t tool_use pending "Bash"
          j subagent running " -> "
        [J call j running]
          x assistant_text pending "deep"
        "#);
    }

    #[test]
    fn a_background_run_inside_outlives_the_interruption() {
        let story = "tool o Agent; spawn o agent=O; @O tool i Agent; @O spawn i agent=I background;
            @I tool t Bash; idle";
        assert_snapshot!(play(story), @r#"
        o subagent error interrupted " -> "
        [O call o error]
          i subagent running " -> "
        [I call i running]
          t tool_use pending "Bash"
        "#);
    }

    #[test]
    fn a_background_run_that_never_answers_ends_with_its_own_turn() {
        assert_snapshot!(play("tool o Agent; spawn o agent=O background; idle; @O idle"), @r#"
        o subagent error interrupted " -> "
        [O call o error]
        "#);
    }

    #[test]
    fn runs_that_contain_each_other_do_not_keep_each_other_interrupted() {
        let cycle = "@B tool a Agent; @B spawn a agent=A; @A tool b Agent; @A spawn b agent=B;
            @B idle; @A say x hi; @B say y hi";
        let whole = state(cycle);
        let json = serde_json::to_string(&whole.snapshot()).unwrap();
        let back = ConversationState::restore(&serde_json::from_str(&json).unwrap()).unwrap();
        assert_eq!(show(&back), show(&whole));
    }

    #[test]
    fn deep_nesting_closes_without_recursion() {
        let mut story: Vec<SessionEvent> = Vec::new();
        for depth in 0..20_000 {
            let caller = if depth == 0 { "main".to_owned() } else { format!("A{}", depth - 1) };
            story.extend(events(&format!(
                "@{caller} tool c{depth} Agent; @{caller} spawn c{depth} agent=A{depth}"
            )));
        }
        story.extend(events("@A19999 tool t Bash; idle"));
        let state = fold(&story);
        let deepest = state.conversation(&"A19999".into()).unwrap();
        assert!(deepest.find(&"t".into()).unwrap().interrupted);
    }
}

mod names {
    use super::*;

    #[test]
    fn a_conversation_keeps_the_name_that_it_was_first_shown_under() {
        let story = "@toolu_1 say a hi; tool toolu_1 Agent; spawn toolu_1 agent=agent-A;
            @A say b there";
        let (state, changes) = play_as_client(story);
        let subagent = state.subagent(&"A".into()).unwrap();
        assert_eq!(subagent.conversation_id().as_str(), "toolu_1");
        assert!(subagent.blocks().iter().all(|it| it.conversation_id.as_str() == "toolu_1"));
        assert!(!changes.iter().any(|it| matches!(it, Change::ConversationRenamed { .. })));
        for name in ["toolu_1", "A", "agent-A"] {
            assert_eq!(state.conversation(&name.into()).unwrap().len(), 2, "{name}");
        }
    }

    #[test]
    fn the_name_shown_does_not_count_for_equality_or_the_hash() {
        let by_call = state("@toolu_1 say a hi; tool toolu_1 Agent; spawn toolu_1 agent=A");
        let by_agent = state("@A say a hi; tool toolu_1 Agent; spawn toolu_1 agent=A");
        assert_eq!(by_agent.subagent(&"A".into()).unwrap().conversation_id().as_str(), "A");
        assert_eq!(by_call, by_agent);
        assert_eq!(by_call.hash(), by_agent.hash());
    }

    #[test]
    fn a_conversation_named_after_a_call_has_the_call_before_it_is_spawned() {
        let header = |story: &str| state(story).subagents()[0].header();
        let early = header("@toolu_1 say a hi");
        assert_eq!(early.tool_use_id.unwrap().as_str(), "toolu_1");
        assert_eq!((early.agent_id, early.unplaced), (None, true));
        let other = header("@a1b2 say a hi");
        assert_eq!(other.agent_id.unwrap().as_str(), "a1b2");
        assert_eq!((other.tool_use_id, other.unplaced), (None, false));
    }

    #[test]
    fn runs_are_in_the_order_of_the_transcript_whichever_source_came_first() {
        let stream = events("stream spawn a agent=A; stream done a; stream spawn b agent=A");
        let files = events("file spawn a agent=A; file done a; file spawn b agent=A; file done b");
        let one = fold(stream.iter().chain(&files));
        let late = fold(stream[2..].iter().chain(&files));
        let runs = |state: &ConversationState| -> Vec<String> {
            let header = state.subagents()[0].header();
            header.runs.iter().map(|run| run.tool_use_id.to_string()).collect()
        };
        assert_eq!(runs(&one), ["a", "b"]);
        assert_eq!(runs(&late), ["a", "b"]);
    }
}

mod time {
    use threadfold_core::{Payload, SubagentSpawned};

    use super::*;

    #[test]
    fn a_subagent_block_takes_the_time_of_the_event_that_spawned_it() {
        let spawned = |time: &str| {
            let mut event = SessionEvent::new(Payload::SubagentSpawned(SubagentSpawned::by("c")));
            event.context.timestamp = Some(time.into());
            event
        };
        // What is known is repeated later; that is not the time of the call.
        let state = fold(&[spawned("2026-01-02T03:04:05Z"), spawned("2026-01-02T03:09:00Z")]);
        let block = state.blocks().get(0).unwrap();
        assert_eq!(block.timestamp.as_deref(), Some("2026-01-02T03:04:05Z"));
    }
}

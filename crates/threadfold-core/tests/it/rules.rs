//! The rules of the reducer, by example.

use insta::assert_snapshot;
use threadfold_core::{ConversationState, SessionEvent, StateSnapshot, fold};
use threadfold_testkit::story::{events, play, show, state};

fn restored(state: &ConversationState) -> ConversationState {
    let json = serde_json::to_string(&state.snapshot()).unwrap();
    let snapshot: StateSnapshot = serde_json::from_str(&json).unwrap();
    ConversationState::restore(&snapshot).unwrap()
}

fn ids(state: &ConversationState) -> Vec<String> {
    state.blocks().iter().map(|block| block.id.to_string()).collect()
}

mod tools {
    use super::*;

    #[test]
    fn a_call_is_pending_until_its_result_arrives() {
        assert_snapshot!(play("tool c Bash; say a meanwhile; tool d Bash; result c ok"), @r#"
        c tool_use "Bash"
        a assistant_text "meanwhile"
        d tool_use pending "Bash"
        result:c tool_result "ok"
        "#);
    }

    #[test]
    fn a_result_before_its_call_closes_the_call() {
        assert_snapshot!(play("result c ok; tool c Bash"), @r#"
        result:c tool_result "ok"
        c tool_use "Bash"
        "#);
    }

    #[test]
    fn a_failing_result_makes_the_call_an_error() {
        assert_snapshot!(play("tool c Bash; result c error: no such file"), @r#"
        c tool_use error "Bash"
        result:c tool_result "error: no such file"
        "#);
    }

    #[test]
    fn removing_a_result_reopens_its_call() {
        assert_snapshot!(play("tool c Bash; result c ok; remove result:c"), @r#"c tool_use pending "Bash""#);
    }

    #[test]
    fn a_result_after_idle_closes_the_call_without_interruption() {
        assert_snapshot!(play("tool c Bash; idle; result c ok"), @r#"
        c tool_use "Bash"
        result:c tool_result "ok"
        "#);
    }

    #[test]
    fn streamed_input_text_is_dropped_once_the_input_is_complete() {
        assert_snapshot!(play(r#"tool c Bash; input c {"a; input c ":1}"#), @r#"c tool_use pending "Bash {\"a\":1}""#);
        let whole = SessionEvent::from_json(
            r#"{"type":"block:upsert","payload":{"block":{"id":"c","type":"tool_use",
                "status":"pending","toolName":"Bash","toolUseId":"c","input":{"a":1}}}}"#,
        )
        .unwrap();
        let story = events(r#"tool c Bash; input c {"a; input c ":1}"#);
        let state = fold(story.iter().chain([&whole]));
        assert_snapshot!(serde_json::to_string(&state.blocks()).unwrap(), @r#"[{"id":"c","type":"tool_use","status":"pending","conversationId":"main","toolName":"Bash","toolUseId":"c","input":{"a":1}}]"#);
    }
}

mod previews {
    use super::*;

    #[test]
    fn a_confirmed_preview_cannot_be_abandoned() {
        assert_snapshot!(play("preview start a; a+=hel; say a hello; remove a abandoned"), @r#"a assistant_text "hello""#);
    }

    #[test]
    fn an_unconfirmed_preview_can_be_abandoned() {
        assert_snapshot!(play("say b first; preview start a; a+=hel; remove a abandoned"), @r#"b assistant_text "first""#);
    }

    #[test]
    fn any_source_can_report_an_abandoned_block_again() {
        assert_snapshot!(
            play("stream preview start a; stream remove a abandoned; file say a hello"),
            @r#"a assistant_text "hello""#
        );
    }

    #[test]
    fn the_transcript_confirms_a_preview_of_the_stream() {
        assert_snapshot!(
            play("stream preview start a; stream a+=hel; file say a hello; stream remove a abandoned"),
            @r#"a assistant_text "hello""#
        );
    }

    #[test]
    fn a_preview_after_the_transcript_changes_nothing() {
        let file = "file say a hello; file think t";
        assert_eq!(
            play(&format!(
                "{file}; stream preview start a; stream a+=help; stream preview think t hm"
            )),
            play(file)
        );
    }

    #[test]
    fn a_preview_after_the_final_block_changes_nothing() {
        let report = "stream say a hello";
        assert_eq!(
            play(&format!("{report}; stream preview start a; stream preview say a bye")),
            play(report)
        );
    }
}

mod closing {
    use super::*;

    #[test]
    fn a_pending_upsert_does_not_reopen_a_block_that_its_source_closed() {
        assert_snapshot!(play("say a one; start a one more"), @r#"a assistant_text "one more""#);
        assert_snapshot!(play("file say a one; file start a one more"), @r#"a assistant_text "one more""#);
    }

    #[test]
    fn a_block_closed_by_one_source_stays_closed() {
        assert_eq!(play("stream say a x; file start a x"), play("file start a x; stream say a x"));
        assert_snapshot!(play("stream say a x; file start a x"), @r#"a assistant_text "x""#);
    }

    #[test]
    fn an_upsert_reopens_a_block_that_idle_closed() {
        assert_snapshot!(play("start a one; idle; start a one more"), @r#"a assistant_text pending "one more""#);
    }

    #[test]
    fn idle_in_the_transcript_does_not_close_blocks_only_in_the_stream() {
        assert_snapshot!(
            play("file prompt u hi; stream start a hello; stream tool c Bash; file idle"),
            @r#"
        u user_message "hi"
        a assistant_text pending "hello"
        c tool_use pending "Bash"
        "#
        );
    }

    #[test]
    fn idle_in_the_transcript_closes_its_own_open_blocks() {
        assert_snapshot!(play("stream tool c Bash; file tool c Bash; file idle"), @r#"c tool_use interrupted "Bash""#);
    }

    #[test]
    fn idle_closes_only_its_own_conversation() {
        assert_snapshot!(play("start a x; @A start b y; @A idle"), @r#"
        a assistant_text pending "x"
        [A success]
          b assistant_text interrupted "y"
        "#);
    }
}

mod removed {
    use super::*;

    #[test]
    fn a_block_removed_by_one_source_stays_removed_for_the_other() {
        assert_snapshot!(play("stream say a x; stream remove a; file say a x"), @"! block `a` was removed by the stream");
        assert_snapshot!(play("file say a x; file remove a superseded; stream say a x"), @"! block `a` was removed by the transcript");
    }

    #[test]
    fn the_same_source_can_restore_a_removed_block() {
        assert_snapshot!(
            play("stream say a x; stream remove a; stream say a y; file say a z"),
            @r#"a assistant_text "z""#
        );
    }
}

mod replaced {
    use super::*;

    #[test]
    fn a_replacement_takes_the_position_of_the_old_block() {
        assert_snapshot!(play("prompt tmp hi; say a hello; prompt u1 hi replaces=tmp"), @r#"
        u1 user_message "hi"
        a assistant_text "hello"
        "#);
    }

    #[test]
    fn events_for_the_old_id_reach_the_new_block() {
        assert_snapshot!(
            play("start tmp he; start u1 he replaces=tmp; tmp+=llo; prompt p q; tmp+=!"),
            @r#"
        u1 assistant_text pending "hello!"
        p user_message "q"
        "#
        );
        assert_snapshot!(play("prompt tmp hi; prompt u1 hi replaces=tmp; prompt tmp hi there"), @r#"u1 user_message "hi there""#);
        assert_snapshot!(play("prompt t1 hi; prompt t2 hi replaces=t1; prompt u hi replaces=t2; prompt t1 ho"), @r#"u user_message "ho""#);
    }

    #[test]
    fn the_old_id_can_be_an_anchor_and_can_be_removed() {
        assert_snapshot!(
            play("prompt tmp hi; prompt z end; prompt u1 hi replaces=tmp; say a hello after=tmp; remove tmp"),
            @r#"
        a assistant_text "hello"
        z user_message "end"
        "#
        );
    }

    #[test]
    fn replacing_an_unknown_id_still_records_the_alias() {
        assert_snapshot!(play("prompt u1 hi replaces=tmp; prompt tmp hi there"), @r#"u1 user_message "hi there""#);
    }

    #[test]
    fn aliases_of_merged_subagents_apply_to_both() {
        let united = "@A say tmp one; @c say u one replaces=tmp; spawn c agent=A";
        assert_snapshot!(play(united), @r#"
        c subagent running " -> "
        [A call c running]
          u assistant_text "one"
        "#);
        assert_eq!(
            play(united),
            play("@c say u one replaces=tmp; @A say tmp one; spawn c agent=A")
        );
        let twice = play(&format!("{united}; @A say v two; @A remove tmp; @A remove tmp"));
        assert_snapshot!(twice, @r#"
        c subagent running " -> "
        [A call c running]
          v assistant_text "two"
        ! block `tmp` does not exist
        "#);
    }

    #[test]
    fn chained_aliases_of_merged_subagents_resolve_to_the_last() {
        let one = "@A say t1 one; @A say t2 one replaces=t1";
        let other = "@c say t2 one; @c say u one replaces=t2";
        let united = play(&format!("{one}; {other}; spawn c agent=A; @A say t1 two; @c t2+=!"));
        assert_snapshot!(united, @r#"
        c subagent running " -> "
        [A call c running]
          u assistant_text "two!"
        "#);
        assert_eq!(
            united,
            play(&format!("{other}; {one}; spawn c agent=A; @A say t1 two; @c t2+=!"))
        );
        let ring = "@A say x 1 replaces=y; @c say y 2 replaces=x; spawn c agent=A";
        let state = state(&format!("{ring}; @A say x 3; @A say y 4"));
        assert_eq!(restored(&state).hash(), state.hash());
    }

    #[test]
    fn replacing_with_an_existing_id_keeps_its_position() {
        assert_snapshot!(
            play("stream prompt tmp hi; stream say a hello; file prompt u1 hi after=-; file prompt u1 hi replaces=tmp"),
            @r#"
        u1 user_message "hi"
        a assistant_text "hello"
        "#
        );
    }
}

mod microcompaction {
    use super::*;

    #[test]
    fn only_the_listed_blocks_leave_the_context() {
        assert_snapshot!(play("tool c Bash; result c ok; say a hello; microcompaction result:c gone"), @r#"
        c tool_use "Bash"
        result:c tool_result inactive "ok"
        a assistant_text "hello"
        "#);
    }
}

mod duplicates {
    use super::*;

    #[test]
    fn the_first_result_of_a_call_counts() {
        let events = [
            r#"{"type":"block:upsert","block":{"id":"c","type":"tool_use","status":"pending","toolName":"Bash","toolUseId":"c"}}"#,
            r#"{"type":"block:upsert","block":{"id":"result:c","type":"tool_result","status":"complete","toolUseId":"c","output":"ok"}}"#,
            r#"{"type":"block:upsert","block":{"id":"result:c:2","type":"tool_result","status":"complete","toolUseId":"c","output":"no","isError":true}}"#,
            r#"{"type":"block:upsert","block":{"id":"c:2","type":"tool_use","status":"pending","toolName":"Bash","toolUseId":"c"}}"#,
        ];
        let events: Vec<_> = events.iter().map(|it| SessionEvent::from_json(it).unwrap()).collect();
        assert_snapshot!(show(&fold(&events)), @r#"
        c tool_use "Bash"
        result:c tool_result "ok"
        result:c:2 tool_result "no"
        c:2 tool_use "Bash"
        "#);
    }

    #[test]
    fn a_second_block_of_a_call_does_not_show_its_subagent_again() {
        let second = r#"{"type":"block:upsert","block":{"id":"c:2","type":"tool_use","status":"pending","toolName":"Task","toolUseId":"c"}}"#;
        let mut events = events("tool c Task; spawn c agent=A");
        events.push(SessionEvent::from_json(second).unwrap());
        assert_snapshot!(show(&fold(&events)), @r#"
        c subagent running " -> "
        c:2 tool_use pending "Task"
        [A call c running]
        "#);
    }
}

mod subagents {
    use super::*;

    #[test]
    fn a_marked_conversation_is_internal_whatever_came_first() {
        let marked_first = "@acompact-1 internal; @acompact-1 say a summary; say b hello";
        assert_snapshot!(play(marked_first), @r#"
        b assistant_text "hello"
        [acompact-1 running internal]
          a assistant_text "summary"
        "#);
        let marked_last =
            state("say b hello; @acompact-1 say a summary; file @acompact-1 internal");
        assert_eq!(marked_last.hash(), state(marked_first).hash());
        assert_eq!(restored(&marked_last).hash(), marked_last.hash());
        assert!(restored(&marked_last).subagents()[0].is_internal());
    }

    #[test]
    fn a_subagent_with_a_call_is_not_internal() {
        assert_snapshot!(play("@A internal; spawn c agent=A; internal"), @r#"
        c subagent running " -> "
        [A call c running]
        "#);
    }

    #[test]
    fn a_background_subagent_outlives_its_callers_turn() {
        assert_snapshot!(play("spawn c agent=A background; idle"), @r#"
        c subagent running " -> "
        [A call c running]
        "#);
    }

    #[test]
    fn a_foreground_subagent_is_interrupted_by_the_end_of_its_callers_turn() {
        assert_snapshot!(play("spawn c agent=A prompt=look; idle"), @r#"
        c subagent error interrupted "look -> "
        [A call c error] "look"
        "#);
    }

    #[test]
    fn an_answer_after_the_callers_idle_wins() {
        assert_snapshot!(play("spawn c agent=A; idle; done c output=found"), @r#"
        c subagent success " -> found"
        [A call c success] -> "found"
        "#);
        assert_snapshot!(play("spawn c agent=A; idle; done c error output=no"), @r#"
        c subagent error " -> no"
        [A call c error] -> "no"
        "#);
    }

    #[test]
    fn the_calls_input_and_tool_stay_in_the_metadata() {
        let call = SessionEvent::from_json(
            r#"{"type":"block:upsert","payload":{"block":{"id":"c","type":"tool_use",
                "status":"pending","toolName":"Task","toolUseId":"c","description":"of the call",
                "input":{"prompt":"look","n":1e400},"metadata":{"kept":true}}}}"#,
        )
        .unwrap();
        let spawned = events("spawn c agent=A type=explorer prompt=look");
        let state = fold([&call].into_iter().chain(&spawned));
        assert_snapshot!(serde_json::to_string_pretty(&state).unwrap(), @r#"
        {
          "blocks": [
            {
              "id": "c",
              "type": "subagent",
              "status": "running",
              "conversationId": "main",
              "toolUseId": "c",
              "agentId": "A",
              "name": "explorer",
              "description": "of the call",
              "input": "look",
              "metadata": {
                "kept": true,
                "toolName": "Task",
                "input": {"prompt":"look","n":1e400}
              }
            }
          ],
          "subagents": [
            {
              "toolUseId": "c",
              "agentId": "A",
              "status": "running",
              "prompt": "look",
              "blocks": []
            }
          ]
        }
        "#);
        let other_order = fold(spawned.iter().chain([&call]));
        assert_eq!(state, other_order);
    }

    #[test]
    fn a_tool_use_never_replaces_its_subagent() {
        assert_eq!(play("spawn c agent=A; tool c Task"), play("tool c Task; spawn c agent=A"));
        assert_snapshot!(play("spawn c agent=A; tool c Task; stream tool c Task; file tool c Task"), @r#"
        c subagent running " -> "
        [A call c running]
        "#);
    }

    #[test]
    fn an_agent_id_with_and_without_its_prefix_is_the_same() {
        assert_snapshot!(
            play("spawn c agent=agent-A; @A say x one; @agent-A say y two; @c say z three; done c agent=A"),
            @r#"
        c subagent success " -> "
        [A call c success]
          x assistant_text "one"
          y assistant_text "two"
          z assistant_text "three"
        "#
        );
        assert_snapshot!(play("@agent-A say x one; @A say y two"), @r#"
        [A running]
          x assistant_text "one"
          y assistant_text "two"
        "#);
    }

    #[test]
    fn the_older_id_of_an_agent_resolves_to_it() {
        assert_snapshot!(play("spawn c older=S; @S say x one; done c agent=A older=S; @A say y two"), @r#"
        c subagent success " -> "
        [A call c success]
          x assistant_text "one"
          y assistant_text "two"
        "#);
        assert_snapshot!(play("@S say x one; @A say y two; spawn c agent=A older=S"), @r#"
        c subagent running " -> "
        [A call c running]
          x assistant_text "one"
          y assistant_text "two"
        "#);
    }

    #[test]
    fn the_shown_name_does_not_depend_on_the_order_of_events() {
        for [one, other] in [
            ["stream spawn c older=S", "file spawn c agent=A"],
            ["stream @A say x hi", "file @agent-A say x hi"],
            ["stream @agent-A say x hi", "file @A say x hi"],
            ["stream @A spawn d", "file @agent-A spawn d"],
            ["stream spawn c agent=A", "file @agent-A say x hi"],
            ["stream @S say x hi", "file spawn c agent=A older=S"],
            ["stream done c older=S", "file @A say x hi; file spawn c agent=A"],
        ] {
            assert_eq!(play(&format!("{one}; {other}")), play(&format!("{other}; {one}")));
        }
    }

    #[test]
    fn a_subagent_without_a_caller_comes_last() {
        assert_snapshot!(play("@warm say x up; spawn c agent=A; @A spawn d agent=B; @warm idle"), @r#"
        c subagent running " -> "
        [A call c running]
          d subagent running " -> "
        [B call d running]
        [warm success]
          x assistant_text "up"
        "#);
    }

    #[test]
    fn a_subagent_without_a_caller_runs_again_when_it_emits_a_block() {
        assert_snapshot!(play("@warm say x up; @warm idle; @warm say y more"), @r#"
        [warm running]
          x assistant_text "up"
          y assistant_text "more"
        "#);
    }

    #[test]
    fn a_subagent_that_spawns_itself_appears_once() {
        assert_snapshot!(play("@A spawn c agent=A; @A say x me"), @r#"
        [A call c running]
          c subagent running " -> "
          x assistant_text "me"
        "#);
        assert_snapshot!(play("@A spawn b agent=B; @B spawn a agent=A; @B say x me"), @r#"
        [A call a running]
          b subagent running " -> "
        [B call b running]
          a subagent running " -> "
          x assistant_text "me"
        "#);
        let cycle = state("@A spawn b agent=B; @B spawn a agent=A; @A idle; @B idle");
        assert_eq!(restored(&cycle).hash(), cycle.hash());
    }

    #[test]
    fn a_call_whose_renamed_block_was_removed_is_shown_again() {
        let call = SessionEvent::from_json(
            r#"{"type":"block:upsert","payload":{"block":{"id":"x","type":"tool_use",
                "status":"pending","toolName":"Task","toolUseId":"c"}}}"#,
        )
        .unwrap();
        let before = events("prompt c hi");
        let after = events("say e hello replaces=x; remove e; done c output=found");
        let state = fold(before.iter().chain([&call]).chain(&after));
        assert_eq!(ids(&state), ["c"], "a name stands once in a conversation");
        assert_eq!(restored(&state).hash(), state.hash());
        assert_snapshot!(show(&state), @r#"
        c subagent success " -> found"
        [c call c success] -> "found"
        "#);
    }

    #[test]
    fn a_call_of_another_agent_is_an_anomaly_and_does_not_merge() {
        assert_snapshot!(play("spawn c agent=A; spawn d agent=B; done c agent=B"), @r#"
        c subagent success " -> "
        d subagent running " -> "
        [A call c success]
        [B call d running]
        ? call `c` belongs to another agent, not to `B`
        "#);
    }
}

mod permissions {
    use super::*;

    #[test]
    fn a_question_is_pending_until_it_is_answered() {
        assert_snapshot!(play("ask q1 may I?; ask q2 and this?; answer q1 yes"), @r#"
        permission:q1 permission "may I? -> yes"
        permission:q2 permission pending "and this? -> "
        "#);
    }

    #[test]
    fn an_answer_without_a_question_is_ignored_with_an_anomaly() {
        assert_snapshot!(play("answer q1 yes; @ghost answer q1 yes"), @"
        ! request `q1` does not exist
        ! request `q1` does not exist
        ");
    }

    #[test]
    fn a_question_asked_again_keeps_its_answer() {
        assert_snapshot!(play("ask q1 may I?; answer q1 yes; ask q1 may I?"), @r#"permission:q1 permission "may I? -> yes""#);
    }

    #[test]
    fn an_answer_after_idle_is_applied() {
        assert_snapshot!(play("ask q1 may I?; idle"), @r#"permission:q1 permission interrupted "may I? -> ""#);
        assert_snapshot!(play("ask q1 may I?; idle; answer q1 no"), @r#"permission:q1 permission "may I? -> no""#);
    }
}

mod placement {
    use super::*;

    #[test]
    fn blocks_only_in_the_transcript_precede_blocks_only_in_the_stream() {
        let stream = "stream say a 1 after=-; stream say s 2 after=a; stream say b 3 after=s";
        let file = "file say a 1 after=-; file say f 2 after=a; file say b 3 after=f";
        assert_snapshot!(play(&format!("{stream}; {file}")), @r#"
        a assistant_text "1"
        f assistant_text "2"
        s assistant_text "2"
        b assistant_text "3"
        "#);
        assert_eq!(play(&format!("{stream}; {file}")), play(&format!("{file}; {stream}")));
    }

    #[test]
    fn a_block_with_an_unknown_anchor_is_appended_with_an_anomaly() {
        assert_snapshot!(play("say a x; say b y after=nowhere"), @r#"
        a assistant_text "x"
        b assistant_text "y"
        ? block `b` should follow `nowhere`, which does not exist; it was appended at the end
        "#);
    }

    #[test]
    fn a_source_can_move_its_block() {
        assert_snapshot!(play("say a 1; say b 2; say c 3; say c 3 after=a; say b 2 after=-"), @r#"
        b assistant_text "2"
        a assistant_text "1"
        c assistant_text "3"
        "#);
    }

    #[test]
    fn thousands_of_insertions_after_one_block_keep_the_order() {
        for source in ["file", "stream"] {
            let mut story =
                events(&format!("{source} say first x after=-; {source} say last x after=first"));
            story.extend(
                (0..5_000)
                    .flat_map(|number| events(&format!("{source} say b{number} x after=first"))),
            );
            let state = fold(&story);
            let mut expected = vec!["first".to_owned()];
            expected.extend((0..5_000).rev().map(|number| format!("b{number}")));
            expected.push("last".to_owned());
            assert_eq!(ids(&state), expected);
            assert_found_and_restored(&state);
        }
    }

    #[test]
    fn ascending_insertions_in_the_middle_keep_the_order() {
        let mut story = events("file say a x after=-; file say m x after=a; file say z x after=m");
        let mut run = |name: &str, start: &str| {
            let mut before = start.to_owned();
            for number in 0..2_500 {
                let id = format!("{name}{number}");
                story.extend(events(&format!("file say {id} x after={before}")));
                before = id;
            }
        };
        run("n", "m");
        run("b", "a");
        run("o", "n1200");
        let state = fold(&story);
        let names = |name: &str, from: usize, to: usize| -> Vec<String> {
            (from..to).map(|number| format!("{name}{number}")).collect()
        };
        let expected = [
            vec!["a".to_owned()],
            names("b", 0, 2_500),
            vec!["m".to_owned()],
            names("n", 0, 1_201),
            names("o", 0, 2_500),
            names("n", 1_201, 2_500),
            vec!["z".to_owned()],
        ];
        assert_eq!(ids(&state), expected.concat());
        assert_found_and_restored(&state);
    }

    #[test]
    fn thousands_of_insertions_at_the_front_keep_the_order() {
        let story: Vec<_> = (0..5_000)
            .flat_map(|number| events(&format!("file say b{number} x after=-")))
            .collect();
        let state = fold(&story);
        let expected: Vec<_> = (0..5_000).rev().map(|number| format!("b{number}")).collect();
        assert_eq!(ids(&state), expected);
        assert_found_and_restored(&state);
    }

    /// Checks that every block is found by its id, and that a snapshot preserves the order.
    fn assert_found_and_restored(state: &ConversationState) {
        for (position, block) in state.blocks().iter().enumerate() {
            assert_eq!(state.blocks().position(&block.id), Some(position));
        }
        let back = restored(state);
        assert_eq!(ids(&back), ids(state));
        assert_eq!(back.hash(), state.hash());
    }
}

mod texts {
    use super::*;

    #[test]
    fn more_texts_than_the_open_limit_can_grow_at_once() {
        let count = 40;
        let mut story: Vec<_> =
            (0..count).flat_map(|text| events(&format!("start a{text}"))).collect();
        for round in 0..5 {
            story.extend((0..count).flat_map(|text| events(&format!("a{text}+={round}{text},"))));
        }
        let mut seen = Vec::new();
        let mut state = ConversationState::default();
        for event in &story {
            state = threadfold_core::reduce(state, event);
            seen.push((state.clone(), show(&state)));
        }
        for (text, block) in state.blocks().iter().enumerate() {
            let whole: String = (0..5).map(|round| format!("{round}{text},")).collect();
            assert!(
                matches!(&block.body, threadfold_core::BlockBody::AssistantText(body)
                    if body.content.to_str() == whole),
                "{block:?}"
            );
        }
        for (kept, before) in &seen {
            assert_eq!(show(kept), *before, "an old state stays as it was");
        }
    }

    #[test]
    fn diverged_states_grow_independently() {
        let common = state("start a; a+=x");
        let left = events("a+=left").iter().fold(common.clone(), threadfold_core::reduce);
        let right = events("a+=right").iter().fold(common.clone(), threadfold_core::reduce);
        let left = events("a+=!").iter().fold(left, threadfold_core::reduce);
        assert_snapshot!([show(&common), show(&left), show(&right)].concat(), @r#"
        a assistant_text pending "x"
        a assistant_text pending "xleft!"
        a assistant_text pending "xright"
        "#);
    }
}

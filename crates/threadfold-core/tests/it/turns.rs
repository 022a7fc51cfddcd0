//! Turns of a loop: what is kept, what is odd, and what is done on resume.

use std::sync::Arc;

use insta::assert_snapshot;
use proptest::prelude::*;
use threadfold_core::{
    CallAction, CallState, CheckpointSaved, ConversationMessage, ConversationState, Effect, Json,
    NextStep, Outcome, Payload, ResultSource, Role, SessionEvent, Setup, SetupPart, ToolCall,
    ToolFinished, TurnState, WayOut, call_key, resume_plan,
};
use threadfold_testkit::loops::{LoopWriter, plausible_loop};

fn fold(events: &[SessionEvent]) -> TurnState {
    let mut state = TurnState::default();
    state.extend(events);
    state
}

/// Returns a loop of one turn with the calls `c1` and `c2`, of which the first has its result.
fn half_done() -> LoopWriter {
    let mut writer = LoopWriter::default();
    writer.ask("look").call(&[("c1", "Read"), ("c2", "Pay")]);
    writer.run("c1", Effect::Pure).finish("c1", "found");
    writer
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Applied => "applied".to_owned(),
        Outcome::Noted(anomaly) => format!("noted: {anomaly}"),
        Outcome::Unchanged => "unchanged".to_owned(),
        Outcome::Ignored(anomaly) => format!("ignored: {anomaly}"),
    }
}

mod keeping {
    use super::*;

    #[test]
    fn all_that_was_sent_and_answered_is_there() {
        let mut writer = half_done();
        writer.run("c2", Effect::Unsafe).finish("c2", "paid").close();
        writer.ask("thanks").answer(ConversationMessage::text(Role::Assistant, "done")).close();
        let turns = &writer.turns;
        assert_eq!(turns.state_id().unwrap().as_str(), "s1");
        assert_eq!(turns.evaluation_id().unwrap().as_str(), "e1");
        assert_eq!(turns.created_at(), Some("2026-01-15T09:30:00Z"));
        assert_eq!(
            (turns.prompt_namespace(), turns.prompt_key()),
            (Some("prompts"), Some("coder"))
        );
        assert_eq!(turns.system(), Some("You write code."), "said in the first turn only");
        let said: Vec<_> = turns
            .history()
            .iter()
            .map(|it| format!("{}: {} {}", it.role, it.to_text(), it.tool_calls.len()))
            .collect();
        assert_snapshot!(said.join("\n"), @r"
        user: look 0
        assistant:  2
        tool: found 0
        tool: paid 0
        user: thanks 0
        assistant: done 0
        ");
        let first = turns.turns().next().unwrap();
        assert_eq!((first.number(), first.answer_seq()), (1, Some(2)));
        let keys: Vec<_> = first.calls().filter_map(|call| call.key.clone()).collect();
        assert_eq!(keys, [call_key("log", 2, 0), call_key("log", 2, 1)]);
        assert!(first.provider_payload().unwrap().as_str().contains("toolCalls"));
    }

    #[test]
    fn a_calls_key_never_changes() {
        assert_snapshot!(call_key("log", 7, 0), @"139104bba580252ba75055fa757fd688d3e29608fc7d01214266b836b83fa98a");
    }

    #[test]
    fn a_key_tells_its_parts_apart() {
        let keys =
            [call_key("a", 1, 1), call_key("a", 1, 2), call_key("a", 2, 1), call_key("b", 1, 1)];
        for (place, key) in keys.iter().enumerate() {
            assert!(!keys[place + 1..].contains(key));
        }
    }

    #[test]
    fn results_stand_in_the_order_of_the_calls() {
        let mut writer = LoopWriter::default();
        writer.ask("look").call(&[("c1", "Read"), ("c2", "Read")]);
        writer.run("c1", Effect::Pure).run("c2", Effect::Pure);
        writer.finish("c2", "second").finish("c1", "first");
        let texts: Vec<_> = writer.turns.history()[2..].iter().map(|it| it.to_text()).collect();
        assert_eq!(texts, ["first", "second"]);
    }

    #[test]
    fn a_result_that_is_sent_again_is_told_once() {
        let mut writer = LoopWriter::default();
        writer.ask("look").call(&[("c1", "Read")]).run("c1", Effect::Pure).finish("c1", "found");
        writer.close().start(vec![
            ConversationMessage::result("c1", "found"),
            ConversationMessage::text(Role::User, "and now"),
        ]);
        let roles: Vec<_> = writer.turns.history().iter().map(|it| it.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::User]);
    }

    #[test]
    fn the_prefix_hash_follows_every_byte_that_was_sent() {
        let hash = |prompt: &str, result: &str| {
            let mut writer = LoopWriter::default();
            writer.ask(prompt).call(&[("c1", "Read")]).run("c1", Effect::Pure);
            writer.finish("c1", result).close();
            writer.turns.prefix_hash()
        };
        assert_eq!(hash("a", "b"), hash("a", "b"));
        assert_ne!(hash("a", "b"), hash("a", "c"));
        assert_ne!(hash("a", "b"), hash("c", "b"));
        assert_ne!(TurnState::default().prefix_hash(), hash("a", "b"));
    }

    #[test]
    fn turns_of_another_conversation_pass() {
        let writer = half_done();
        let mut theirs = TurnState::of("agent-A".into());
        theirs.extend(&writer.events);
        assert_eq!(theirs, TurnState::of("agent-A".into()));
        let moved: Vec<_> = writer.events.iter().map(|it| it.clone().within("agent-A")).collect();
        theirs.extend(&moved);
        assert_eq!(theirs.state_id().unwrap().as_str(), "s1/agent-A");
        assert_eq!(theirs.turns().len(), 1);
    }

    #[test]
    fn the_last_checkpoint_counts() {
        let mut writer = half_done();
        for (id, seq) in [("p1", 3), ("p2", 5)] {
            let saved = CheckpointSaved { checkpoint_id: id.into(), seq: Some(seq) };
            writer.say(Payload::CheckpointSaved(saved));
        }
        assert_eq!(writer.turns.checkpoint().unwrap().checkpoint_id.as_str(), "p2");
    }
}

mod oddities {
    use super::*;

    fn event(kind: &str, payload: &str) -> SessionEvent {
        SessionEvent::from_json(&format!(r#"{{"type":"{kind}","payload":{payload}}}"#)).unwrap()
    }

    /// Says one thing more, which must leave the state equal unless it is noted.
    fn after(writer: &LoopWriter, kind: &str, payload: &str) -> String {
        let mut state = writer.turns.clone();
        let outcome = state.apply(&event(kind, payload));
        match outcome {
            Outcome::Ignored(_) | Outcome::Unchanged => assert_eq!(state, writer.turns),
            Outcome::Applied | Outcome::Noted(_) => assert_ne!(state, writer.turns),
        }
        told(&outcome)
    }

    fn started(turn: u64, hash: &str) -> String {
        format!(
            r#"{{"turn":{turn},"evaluationId":"e","provider":"p","model":"m","prefixHash":"{hash}"}}"#
        )
    }

    #[test]
    fn what_does_not_follow_is_left_aside_and_told() {
        let writer = half_done();
        let said = [
            after(&writer, "turn:started", &started(1, "")),
            after(&writer, "turn:started", &started(2, "")),
            after(&writer, "turn:started", &started(0, "")),
            after(&writer, "turn:started", &started(u64::MAX, "")),
            after(
                &writer,
                "turn:answered",
                r#"{"turn":1,"message":{"role":"assistant"},"payload":1}"#,
            ),
            after(
                &writer,
                "turn:answered",
                r#"{"turn":2,"message":{"role":"assistant"},"payload":1}"#,
            ),
            after(&writer, "turn:completed", r#"{"turn":1}"#),
            after(&writer, "turn:completed", r#"{"turn":9}"#),
            after(
                &writer,
                "tool:requested",
                r#"{"turn":1,"callId":"c1","ordinal":0,"key":"k","name":"Read","arguments":"{}"}"#,
            ),
            after(
                &writer,
                "tool:requested",
                r#"{"turn":2,"callId":"c1","ordinal":0,"key":"k","name":"Read","arguments":"{}"}"#,
            ),
            after(
                &writer,
                "tool:started",
                r#"{"callId":"c2","key":"k","attempt":1,"effect":"pure"}"#,
            ),
            after(
                &writer,
                "tool:started",
                r#"{"callId":"c9","key":"k","attempt":1,"effect":"pure"}"#,
            ),
            after(
                &writer,
                "tool:finished",
                r#"{"callId":"c1","attempt":1,"result":{"role":"tool"},"source":"tool"}"#,
            ),
            after(
                &writer,
                "tool:finished",
                r#"{"callId":"c2","attempt":0,"result":{"role":"user"},"source":"tool"}"#,
            ),
            after(
                &writer,
                "tool:finished",
                r#"{"callId":"c2","attempt":1,"result":{"role":"tool"},"source":"tool"}"#,
            ),
            after(&writer, "tool:failed", r#"{"callId":"c1","attempt":1,"error":1}"#),
            after(&writer, "tool:failed", r#"{"callId":"c2","attempt":0,"error":1}"#),
            after(&writer, "tool:unknown", r#"{"callId":"c2","attempt":1,"reason":"r"}"#),
        ];
        assert_snapshot!(said.join("\n"), @"
        ignored: turn 1 was told otherwise before
        ignored: turn 1 lacks its answer or the result of a call
        ignored: turn 0 came where turn 2 should
        ignored: turn 18446744073709551615 came where turn 2 should
        ignored: turn 1 was told otherwise before
        ignored: turn 2 never began
        ignored: turn 1 lacks its answer or the result of a call
        ignored: turn 9 never began
        ignored: call `c1` was told otherwise before
        ignored: call `c1` was never made
        ignored: call `c2` was told otherwise before
        ignored: call `c9` was never made
        ignored: call `c1` has its result already
        ignored: a message of the role `user` stands where `tool` should speak
        noted: attempt 1 of call `c2` was never started
        ignored: call `c1` has its result already
        ignored: attempt 0 of call `c2` was never started
        ignored: attempt 1 of call `c2` was never started
        ");
    }

    #[test]
    fn an_attempt_that_another_followed_is_stale() {
        let mut writer = half_done();
        writer.run("c2", Effect::Pure).lose("c2").run("c2", Effect::Pure);
        let said = [
            after(
                &writer,
                "tool:finished",
                r#"{"callId":"c2","attempt":1,"result":{"role":"tool"},"source":"tool"}"#,
            ),
            after(&writer, "tool:failed", r#"{"callId":"c2","attempt":1,"error":1}"#),
        ];
        assert_snapshot!(said.join("\n"), @"
        ignored: attempt 1 of call `c2` came after attempt 2
        ignored: attempt 1 of call `c2` came after attempt 2
        ");
    }

    #[test]
    fn an_answer_before_its_turn_and_one_of_the_wrong_role_are_told() {
        let mut writer = LoopWriter::default();
        writer.ask("look");
        let said = [
            after(&writer, "turn:answered", r#"{"turn":1,"message":{"role":"user"},"payload":1}"#),
            after(
                &writer,
                "turn:answered",
                r#"{"turn":1,"message":{"role":"assistant","toolCalls":[{"callId":"c","name":"n","arguments":""},{"callId":"c","name":"n","arguments":""}]},"payload":1}"#,
            ),
            after(&writer, "turn:started", &started(2, "other")),
            after(&writer, "turn:completed", r#"{"turn":1}"#),
        ];
        assert_snapshot!(said.join("\n"), @"
        ignored: a message of the role `user` stands where `assistant` should speak
        noted: an answer has two calls `c`
        noted: what was sent before turn 2 is not what is kept here
        ignored: turn 1 lacks its answer or the result of a call
        ");
    }

    #[test]
    fn another_prefix_than_was_kept_is_told() {
        let state = &mut TurnState::default();
        let outcome = state.apply(&event("turn:started", &started(1, "other")));
        assert_snapshot!(told(&outcome), @"noted: what was sent before turn 1 is not what is kept here");
        let hash = TurnState::default().prefix_hash();
        let outcome =
            TurnState::default().apply(&event("turn:started", &started(1, hash.as_str())));
        assert_eq!(outcome, Outcome::Applied);
    }
}

mod resuming {
    use super::*;

    /// Tells what comes next and what is done with each call.
    fn plan(writer: &LoopWriter, effect: Effect) -> String {
        let plan = resume_plan(&writer.turns, |_| effect);
        let calls = plan.calls.iter().map(|it| match &it.action {
            CallAction::Decide(error) => format!("\n{}: {error}", it.call.call_id),
            action => format!("\n{}: {action:?}", it.call.call_id),
        });
        format!("{:?}{}", plan.next, calls.collect::<String>())
    }

    #[test]
    fn what_comes_next_follows_from_how_far_it_came() {
        let mut writer = LoopWriter::default();
        let mut seen = vec![plan(&writer, Effect::Pure)];
        writer.ask("look");
        seen.push(plan(&writer, Effect::Pure));
        writer.call(&[("c1", "Read")]);
        seen.push(plan(&writer, Effect::Pure));
        writer.run("c1", Effect::Pure).finish("c1", "found");
        seen.push(plan(&writer, Effect::Pure));
        writer.close();
        seen.push(plan(&writer, Effect::Pure));
        writer.start(Vec::new()).answer(ConversationMessage::text(Role::Assistant, "done"));
        seen.push(plan(&writer, Effect::Pure));
        writer.close();
        seen.push(plan(&writer, Effect::Pure));
        assert_snapshot!(seen.join("\n"), @"
        BeginTurn { turn: 1 }
        AskAgain { turn: 1 }
        RunTools { turn: 1 }
        c1: Run
        CloseTurn { turn: 1 }
        c1: Replay
        BeginTurn { turn: 2 }
        c1: Replay
        CloseTurn { turn: 2 }
        Done
        ");
    }

    #[test]
    fn a_call_that_was_started_is_treated_as_its_effect_wants() {
        for (effect, wanted) in [
            (Effect::Pure, CallAction::RunAgain),
            (Effect::Idempotent, CallAction::RunAgainWithKey),
            (Effect::Probe, CallAction::Probe),
            (Effect::Compensable, CallAction::UndoThenRun),
        ] {
            let mut writer = half_done();
            writer.run("c2", effect);
            let started = resume_plan(&writer.turns, |_| effect);
            assert_eq!(started.calls[0].action, CallAction::Replay);
            assert_eq!(started.calls[1].action, wanted);
            assert_eq!(started.next, NextStep::RunTools { turn: 1 });
            writer.lose("c2");
            assert_eq!(resume_plan(&writer.turns, |_| effect).calls[1].action, wanted);
        }
    }

    #[test]
    fn an_unsafe_call_that_was_started_waits_for_a_person() {
        let mut writer = half_done();
        writer.run("c2", Effect::Unsafe);
        assert_snapshot!(plan(&writer, Effect::Unsafe), @"
        RunTools { turn: 1 }
        c1: Replay
        c2: call `c2` of tool `Pay` was started and its outcome is not known after attempt 1: run it again, give its result, or give it up
        ");
        let plan = resume_plan(&writer.turns, |_| Effect::Unsafe);
        let error = plan.undecided().next().unwrap();
        assert_eq!((error.call.as_str(), &*error.tool, error.attempt), ("c2", "Pay", 1));
        assert_eq!(error.ways_out(), [WayOut::Retry, WayOut::GiveResult, WayOut::GiveUp]);
    }

    #[test]
    fn of_two_effects_the_more_careful_one_counts() {
        for (then, today) in [(Effect::Unsafe, Effect::Pure), (Effect::Pure, Effect::Unsafe)] {
            let mut writer = half_done();
            writer.run("c2", then);
            assert_eq!(resume_plan(&writer.turns, |_| today).undecided().count(), 1);
        }
    }

    #[test]
    fn the_effect_is_asked_by_the_tools_name() {
        let mut writer = half_done();
        writer.run("c2", Effect::Pure);
        let effect_of = |tool: &str| if tool == "Pay" { Effect::Unsafe } else { Effect::Pure };
        assert_eq!(resume_plan(&writer.turns, effect_of).undecided().count(), 1);
    }

    #[test]
    fn a_failure_is_told_and_not_tried_again() {
        let mut writer = half_done();
        writer.run("c2", Effect::Unsafe).fail("c2");
        assert_snapshot!(plan(&writer, Effect::Unsafe), @r#"
        RunTools { turn: 1 }
        c1: Replay
        c2: TellFailure { error: "no such file" }
        "#);
    }

    #[test]
    fn a_changed_prompt_tool_or_model_is_named() {
        let writer = half_done();
        let tools = Json::parse(r#" [ "Bash" ] "#).unwrap();
        let other = Json::parse(r#"["Read"]"#).unwrap();
        let today = Setup {
            system: Some("You write code."),
            tools: Some(&tools),
            provider: "anthropic",
            model: "model-1",
        };
        writer.turns.check(&today.fingerprint()).unwrap();
        let mismatch = |setup: Setup<'_>| {
            let error = writer.turns.check(&setup.fingerprint()).unwrap_err();
            (error.to_string(), error.changed.iter().map(|it| it.part).collect::<Vec<_>>())
        };
        let (text, parts) = mismatch(Setup { system: None, model: "model-2", ..today });
        assert_eq!(text, "the system prompt and the model changed since the conversation was kept");
        assert_eq!(parts, [SetupPart::SystemPrompt, SetupPart::Model]);
        assert_eq!(mismatch(Setup { tools: Some(&other), ..today }).1, [SetupPart::Tools]);
        assert_eq!(mismatch(Setup { provider: "openai", ..today }).1, [SetupPart::Model]);
    }
}

mod showing {
    use super::*;
    use threadfold_core::MessagePart;
    use threadfold_testkit::story::show;

    fn shown(writer: &LoopWriter) -> String {
        show(&threadfold_core::fold(&writer.events))
    }

    #[test]
    fn a_loop_is_shown_like_any_session() {
        let mut writer = LoopWriter::default();
        let mut message = ConversationMessage::text(Role::Assistant, "I look.");
        message.content.insert(0, MessagePart::thinking("Hm", "sig"));
        message.message_id = Some("m1".into());
        message.tool_calls.push(ToolCall::new("c1", "Read", r#"{"path":"a"}"#));
        writer.ask("look").answer(message).run("c1", Effect::Pure).finish("c1", "found").close();
        writer.ask("thanks").answer(ConversationMessage::text(Role::Assistant, "done")).close();
        assert_snapshot!(shown(&writer), @r#"
        turn:1:0 user_message "look"
        m1:0 thinking "Hm"
        m1:1 assistant_text "I look."
        c1 tool_use "Read"
        result:c1 tool_result "found"
        turn:2:0 user_message "thanks"
        turn:2:answer:0 assistant_text "done"
        "#);
    }

    #[test]
    fn a_call_is_open_until_it_failed_or_has_its_result() {
        let mut writer = half_done();
        let open = shown(&writer);
        writer.run("c2", Effect::Pure).fail("c2");
        let failed = shown(&writer);
        writer.run("c2", Effect::Pure).finish("c2", "paid");
        assert_snapshot!([open, failed, shown(&writer)].join("\n---\n"), @r#"
        turn:1:0 user_message "look"
        c1 tool_use "Read"
        c2 tool_use pending "Pay"
        result:c1 tool_result "found"

        ---
        turn:1:0 user_message "look"
        c1 tool_use "Read"
        c2 tool_use error "Pay"
        result:c1 tool_result "found"
        result:c2 tool_result "no such file"

        ---
        turn:1:0 user_message "look"
        c1 tool_use "Read"
        c2 tool_use "Pay"
        result:c1 tool_result "found"
        result:c2 tool_result "paid"
        "#);
    }

    #[test]
    fn a_call_whose_outcome_is_not_known_is_marked() {
        let mut writer = half_done();
        writer.run("c2", Effect::Unsafe).lose("c2");
        let state = threadfold_core::fold(&writer.events);
        let marked = state.blocks().iter().find(|it| it.id.as_str() == "c2").unwrap();
        assert_snapshot!(Json::of(&*marked), @r#"{"id":"c2","type":"tool_use","timestamp":"2026-01-15T09:30:00Z","status":"pending","conversationId":"main","toolName":"Pay","toolUseId":"c2","input":{},"metadata":{"unknownOutcome":"the process ended"}}"#);
        let again = threadfold_core::fold(writer.events.iter().chain([&writer.events[1]]));
        assert_eq!(again, state, "the answer, told late once more, takes no mark away");
    }

    #[test]
    fn the_first_result_stays_and_a_late_failure_changes_nothing() {
        let writer = half_done();
        let mut state = threadfold_core::fold(&writer.events);
        let before = state.clone();
        let said = [
            r#"{"type":"tool:finished","payload":{"callId":"c1","attempt":1,"result":{"role":"tool"},"source":"tool"}}"#,
            r#"{"type":"tool:failed","payload":{"callId":"c1","attempt":1,"error":"no"}}"#,
            r#"{"type":"tool:unknown","payload":{"callId":"c1","attempt":1,"reason":"no"}}"#,
            r#"{"type":"tool:unknown","payload":{"callId":"c9","attempt":1,"reason":"no"}}"#,
        ];
        let outcomes = said.map(|line| told(&state.apply(&SessionEvent::from_json(line).unwrap())));
        assert_snapshot!(outcomes.join("\n"), @"
        ignored: call `c1` has its result already
        ignored: call `c1` has its result already
        ignored: call `c1` has its result already
        ignored: call `c9` was never made
        ");
        assert_eq!(state, before);
    }

    #[test]
    fn a_result_that_is_an_error_is_told_and_shown_as_one() {
        let mut writer = half_done();
        writer.say(Payload::ToolFinished(ToolFinished {
            call_id: "c2".into(),
            attempt: 0,
            result: ConversationMessage::result("c2", "given up"),
            is_error: true,
            duration_ms: None,
            source: ResultSource::Person,
        }));
        let told: Vec<_> = writer.turns.history()[2..].iter().map(|it| it.is_error).collect();
        assert_eq!(told, [false, true]);
        assert_snapshot!(shown(&writer), @r#"
        turn:1:0 user_message "look"
        c1 tool_use "Read"
        c2 tool_use error "Pay"
        result:c1 tool_result "found"
        result:c2 tool_result "given up"
        "#);
    }

    #[test]
    fn a_result_that_is_sent_again_leaves_the_one_that_is_shown() {
        let mut writer = LoopWriter::default();
        writer.ask("look").call(&[("c1", "Read")]).run("c1", Effect::Pure).finish("c1", "found");
        let before = shown(&writer);
        writer.close().start(vec![ConversationMessage::result("c1", "otherwise")]);
        assert_eq!(shown(&writer), before);
    }

    #[test]
    fn two_messages_of_one_name_are_two_blocks_and_stay_so() {
        let named = |text| ConversationMessage {
            message_id: Some("u1".into()),
            ..ConversationMessage::text(Role::User, text)
        };
        let mut writer = LoopWriter::default();
        writer.start(vec![named("one"), named("two")]);
        let mut state = threadfold_core::fold(&writer.events);
        assert_snapshot!(show(&state), @r#"
        u1 user_message "one"
        u1#2 user_message "two"
        "#);
        assert_eq!(state.apply(&writer.events[0]), Outcome::Unchanged);
    }

    #[test]
    fn messages_of_every_role_are_shown() {
        let mut earlier = ConversationMessage::text(Role::Assistant, "I look.");
        earlier.tool_calls.push(ToolCall::new("c1", "Read", "{}"));
        let item = Json::parse(r#"{"type":"reasoning"}"#).unwrap();
        earlier.content.push(MessagePart::native("openai", item));
        let mut writer = LoopWriter::default();
        writer.start(vec![
            ConversationMessage::text(Role::System, "be kind"),
            earlier,
            ConversationMessage::result("c1", "found"),
        ]);
        assert_snapshot!(shown(&writer), @r#"
        turn:1:0 system ""
        turn:1:1:0 assistant_text "I look."
        turn:1:1:1 unknown ""
        c1 tool_use "Read"
        result:c1 tool_result "found"
        "#);
    }

    #[test]
    fn a_call_that_stands_in_its_providers_form_too_is_shown_once() {
        let mut message = ConversationMessage::new(Role::Assistant);
        let item = |text: &str| MessagePart::native("openai", Json::parse(text).unwrap());
        message.content.push(item(r#"{"type":"function_call","call_id":"c1"}"#));
        message.content.push(item(r#"{"type":"function_call","call_id":"c2"}"#));
        message.tool_calls.push(ToolCall::new("c1", "Read", "{}"));
        let mut writer = LoopWriter::default();
        writer.start(Vec::new()).answer(message);
        assert_snapshot!(shown(&writer), @r#"
        turn:1:answer:1 unknown ""
        c1 tool_use pending "Read"
        "#);
    }

    #[test]
    fn arguments_that_are_not_json_are_shown_as_they_were_written() {
        let mut message = ConversationMessage::new(Role::Assistant);
        message.tool_calls.push(ToolCall::new("c1", "Read", "{ not json"));
        let mut writer = LoopWriter::default();
        writer.start(Vec::new()).answer(message);
        assert_snapshot!(shown(&writer), @r#"c1 tool_use pending "Read { not json""#);
    }
}

#[test]
fn a_step_copies_the_turn_it_is_about_and_no_other() {
    let mut writer = LoopWriter::default();
    let mut kept = vec![writer.turns.clone()];
    for turn in 0..200 {
        let call = format!("c{turn}");
        writer.ask("look");
        kept.push(writer.turns.clone());
        writer.call(&[(&call, "Read")]).run(&call, Effect::Pure);
        kept.push(writer.turns.clone());
        writer.finish(&call, "found").close();
        kept.push(writer.turns.clone());
    }
    for pair in kept.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let both = before.turns().zip(after.turns());
        let copied = both.filter(|(before, after)| !Arc::ptr_eq(before, after)).count();
        let added = after.turns().len() - before.turns().len();
        assert!(copied + added <= 1, "{copied} turns were copied");
    }
    for (step, state) in kept.iter().enumerate() {
        assert_eq!(state.turns().len(), step.div_ceil(3), "an old state stays as it was");
    }
}

#[test]
fn a_step_copies_the_call_it_is_about_and_no_other() {
    let names: Vec<_> = (0..300).map(|it| format!("c{it}")).collect();
    let calls: Vec<_> = names.iter().map(|name| (name.as_str(), "Read")).collect();
    let mut writer = LoopWriter::default();
    writer.ask("look").call(&calls);
    for name in &names {
        let before = Arc::clone(writer.turns.last().unwrap());
        writer.run(name, Effect::Pure);
        let after = writer.turns.last().unwrap();
        let both = before.calls().zip(after.calls());
        assert_eq!(both.filter(|(before, after)| !Arc::ptr_eq(before, after)).count(), 1);
    }
}

#[test]
fn what_is_kept_of_another_version_or_out_of_order_is_refused() {
    let kept = half_done().turns.to_json();
    let wrong = [
        kept.as_str().replace(r#""version":1"#, r#""version":2"#),
        kept.as_str().replace(r#""turn":1,"evaluationId""#, r#""turn":2,"evaluationId""#),
        r#"{"version":1}"#.to_owned(),
        "[]".to_owned(),
    ];
    let told = wrong
        .iter()
        .map(|text| TurnState::restore(&Json::parse(text).unwrap()).unwrap_err().to_string());
    assert_snapshot!(told.collect::<Vec<_>>().join("\n"), @"
    the loop's state has version 2, and this program reads version 1
    turn 2 stands where turn 1 should
    the loop's state cannot be read
    the loop's state cannot be read
    ");
}

#[test]
fn every_state_of_a_call_survives_keeping() {
    let mut writer = LoopWriter::default();
    let calls = ["r", "s", "f", "e", "u"].map(|id| (id, "Read"));
    writer.ask("look").call(&calls);
    for call in ["s", "f", "e", "u"] {
        writer.run(call, Effect::Probe);
    }
    writer.finish("f", "found").fail("e").lose("u");
    let back = TurnState::restore(&writer.turns.to_json()).unwrap();
    assert_eq!(back, writer.turns);
    assert_eq!(back.to_json().as_str(), writer.turns.to_json().as_str());
    assert_eq!(back.call(&"r".into()).unwrap().state, CallState::Requested);
    let odd = ToolCall::new("x", "Read", "{ not json");
    let mut message = ConversationMessage::new(Role::Assistant);
    message.tool_calls.push(odd);
    let mut writer = LoopWriter::default();
    writer.ask("look").answer(message);
    let back = TurnState::restore(&writer.turns.to_json()).unwrap();
    assert_eq!(&*back.call(&"x".into()).unwrap().arguments, "{ not json");
}

proptest! {
    #[test]
    fn an_event_of_a_loop_said_twice_is_said_once(events in plausible_loop()) {
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
    fn events_of_a_loop_in_any_order_break_nothing(
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
    fn a_kept_loop_and_the_rest_is_the_whole(
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
    fn whatever_stopped_a_loop_finished_calls_are_replayed_and_no_others(
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

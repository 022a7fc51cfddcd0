//! The resume plan of a loop that stopped at any point.

use super::*;

/// Describes the next step and the action for each call.
fn plan(writer: &LoopWriter, effect: Effect) -> String {
    let plan = resume_plan(&writer.turns, |_| effect);
    let calls = plan.calls.iter().map(|it| match &it.action {
        CallAction::Decide(error) => format!("\n{}: {error}", it.call.call_id),
        action => format!("\n{}: {action:?}", it.call.call_id),
    });
    format!("{:?}{}", plan.next, calls.collect::<String>())
}

#[test]
fn the_next_step_depends_on_the_progress_of_the_turn() {
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
fn the_action_for_a_started_call_depends_on_its_effect() {
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
fn a_started_unsafe_call_needs_a_decision() {
    let mut writer = half_done();
    writer.run("c2", Effect::Unsafe);
    assert_snapshot!(plan(&writer, Effect::Unsafe), @"
    RunTools { turn: 1 }
    c1: Replay
    c2: the outcome of call `c2` of tool `Pay` is unknown after attempt 1: retry it, supply its result, or give it up
    ");
    let plan = resume_plan(&writer.turns, |_| Effect::Unsafe);
    let error = plan.undecided().next().unwrap();
    assert_eq!((error.call.as_str(), &*error.tool, error.attempt), ("c2", "Pay", 1));
    assert_eq!(
        error.options(),
        [DecisionOption::Retry, DecisionOption::SupplyResult, DecisionOption::GiveUp]
    );
}

#[test]
fn the_more_cautious_of_two_effects_applies() {
    for (then, today) in [(Effect::Unsafe, Effect::Pure), (Effect::Pure, Effect::Unsafe)] {
        let mut writer = half_done();
        writer.run("c2", then);
        assert_eq!(resume_plan(&writer.turns, |_| today).undecided().count(), 1);
    }
}

#[test]
fn the_effect_is_looked_up_by_tool_name() {
    let mut writer = half_done();
    writer.run("c2", Effect::Pure);
    let effect_of = |tool: &str| if tool == "Pay" { Effect::Unsafe } else { Effect::Pure };
    assert_eq!(resume_plan(&writer.turns, effect_of).undecided().count(), 1);
}

#[test]
fn a_failure_is_reported_and_not_retried() {
    let mut writer = half_done();
    writer.run("c2", Effect::Unsafe).fail("c2");
    assert_snapshot!(plan(&writer, Effect::Unsafe), @r#"
    RunTools { turn: 1 }
    c1: Replay
    c2: ReportFailure { error: "no such file" }
    "#);
}

#[test]
fn a_mismatch_names_the_changed_parts() {
    let writer = half_done();
    let tools = Json::parse(r#" [ "Bash" ] "#).unwrap();
    let other = Json::parse(r#"["Read"]"#).unwrap();
    let today = Setup {
        namespace: Some("prompts"),
        key: Some("coder"),
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
    assert_eq!(text, "the system prompt and the model changed since the conversation started");
    assert_eq!(parts, [SetupPart::SystemPrompt, SetupPart::Model]);
    assert_eq!(mismatch(Setup { tools: Some(&other), ..today }).1, [SetupPart::Tools]);
    assert_eq!(mismatch(Setup { provider: "openai", ..today }).1, [SetupPart::Model]);
    let (text, parts) = mismatch(Setup { namespace: Some("bills"), key: Some("add-up"), ..today });
    let names = "the prompt's namespace and the prompt's key";
    assert_eq!(text, format!("{names} changed since the conversation started"));
    assert_eq!(parts, [SetupPart::PromptNamespace, SetupPart::PromptKey]);
}

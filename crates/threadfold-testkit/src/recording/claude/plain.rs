//! Scenarios of one conversation: text, thinking, tools, pictures, permissions, hooks.

use serde_json::json;
use threadfold_fold::parity::RunGap;

use super::{Act, Run, Scenario, scenario::Permissions};
use crate::{Script, Step};

/// A picture of one dot, as PNG in Base64.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/// The same picture as a file.
const DOT_FILE: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52,
    0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4,
    0x89, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0xfc, 0xcf, 0xc0, 0x50,
    0x0f, 0x00, 0x04, 0x85, 0x01, 0x80, 0x84, 0xa9, 0x8c, 0x21, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45,
    0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![
        Scenario::play("text"),
        Scenario::play("thinking"),
        Scenario::play("tools"),
        Scenario::play("parallel"),
        Scenario::play("maxtokens"),
        Scenario::of("text_whole", Run::with_prompt("[[play:text]] please run").whole_messages()),
        Scenario::of("tools_whole", Run::with_prompt("[[play:tools]] please run").whole_messages()),
        Scenario::of(
            "parallel_whole",
            Run::with_prompt("[[play:parallel]] please run").whole_messages(),
        ),
        many_texts(),
        bad_tool(),
        image_prompt(),
        image_read(),
        hooks(),
        plan(),
    ];
    all.extend(permissions());
    all
}

fn many_texts() -> Scenario {
    Scenario::play("many_texts").script(
        Script::new("many_texts")
            .step(
                Step::new()
                    .thinking("One thought.", "c2lnbmF0dXJlLTQ=")
                    .text("First text.")
                    .thinking("Another thought.", "c2lnbmF0dXJlLTU=")
                    .text("Second text.")
                    .tool_use("Bash", json!({"command": "echo between"}))
                    .text("A text after a tool call."),
            )
            .step(Step::new().text("First end.").text("Second end.")),
    )
}

fn bad_tool() -> Scenario {
    Scenario::play("bad_tool").script(
        Script::new("bad_tool")
            .step(Step::new().text("An unknown tool.").tool_use("NoSuchTool", json!({"a": 1})))
            .step(Step::new().tool_use("Read", json!({"wrong": true})))
            .step(Step::new().tool_use("Read", json!({"file_path": "missing.txt"})))
            .step(Step::new().text("None of that worked.")),
    )
}

fn image_prompt() -> Scenario {
    let words = json!({"type": "text", "text": "[[play:text]] what is this?"});
    let source = json!({"type": "base64", "media_type": "image/png", "data": DOT});
    let picture = json!({"type": "image", "source": source});
    Scenario::acts("image_prompt", [Act::Prompt(json!([words, picture])), Act::wait_for_result()])
}

fn image_read() -> Scenario {
    Scenario::play("image_read").file("dot.png", DOT_FILE).script(
        Script::new("image_read")
            .step(Step::new().tool_use("Read", json!({"file_path": "dot.png"})))
            .step(Step::new().text("One dot.")),
    )
}

fn hooks() -> Scenario {
    let hook =
        |words: &str| json!([{"matcher": "", "hooks": [{"type": "command", "command": words}]}]);
    let settings = json!({"hooks": {
        "SessionStart": hook("echo started"),
        "UserPromptSubmit": hook("echo submitted"),
        "PreToolUse": hook("echo before"),
        "PostToolUse": hook("echo after"),
        "Stop": hook("echo stopped"),
    }});
    Scenario::of(
        "hooks",
        Run::with_prompt("[[play:tools]] please run")
            .arguments(&["--settings", &settings.to_string()]),
    )
    // The run does not ask for hooks in its stream.
    .may_lack(RunGap::UnstreamedHooks)
}

fn plan() -> Scenario {
    let run = Run::with_prompt("[[play:plan]] please run")
        .arguments(&["--permission-mode", "plan"])
        .permissions(Permissions::Allowed);
    Scenario::of("plan", run).script(
        Script::new("plan")
            .step(Step::new().text("I look first.").tool_use("Bash", json!({"command": "ls"})))
            .step(Step::new().tool_use("ExitPlanMode", json!({"plan": "1. Do it."})))
            .step(Step::new().text("That was the plan.")),
    )
}

/// A tool that is denied by a rule, by nobody to ask, and by the host; and one that is allowed.
fn permissions() -> Vec<Scenario> {
    let script = || {
        let touch = json!({"command": "touch asked.txt", "description": "Touch a file"});
        Script::new("asked")
            .step(Step::new().text("I try.").tool_use("Bash", touch))
            .step(Step::new().text("Tried."))
    };
    let prompt = || Run::with_prompt("[[play:asked]] please run");
    let deny = json!({"permissions": {"deny": ["Bash(touch asked.txt)"]}}).to_string();
    let ask = json!({"permissions": {"ask": ["Bash(touch asked.txt)"]}}).to_string();
    let asked = |permissions| {
        Run::with_acts([Act::play("asked"), Act::wait_for_result()])
            .arguments(&["--permission-prompt-tool", "stdio", "--settings", &ask])
            .permissions(permissions)
    };
    let scenarios = [
        ("denied_by_rule", prompt().arguments(&["--settings", &deny])),
        ("denied_unasked", prompt().permissions(Permissions::Denied)),
        ("asked_and_allowed", asked(Permissions::Allowed)),
        ("asked_and_denied", asked(Permissions::Denied)),
    ];
    scenarios.map(|(name, run)| Scenario::of(name, run).script(script())).into()
}

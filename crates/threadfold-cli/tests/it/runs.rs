//! Runs of the loop: killed, resumed, decided.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use serde_json::json;
use threadfold_testkit::{Script, ScriptedModel};

use crate::env::{TestEnv, seen};

/// Starts the program, and kills it as soon as a line of its stderr has `mark` in it.
fn killed_at(env: &TestEnv, arguments: &[&str], mark: &str) {
    let mut child = start(env.command(arguments));
    let said = BufReader::new(child.stderr.take().unwrap());
    let reached = said.lines().map_while(Result::ok).any(|line| line.contains(mark));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(reached, "nothing had `{mark}` in it");
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Writes a script whose first answer is one call of `shell`.
fn shell_script(env: &TestEnv, command: &str) {
    let script = json!({ "name": "shell", "steps": [
        { "text": "I run it.", "calls": [{ "name": "shell", "arguments": { "command": command } }] },
        { "text": "It ran." },
    ] });
    env.write("script.json", script.to_string());
}

const SCRIPTED: [&str; 6] = ["run", "--script", "script.json", "--tools", "all", "Go."];

#[test]
fn a_killed_demo_counts_each_number_once() {
    let env = TestEnv::new();
    killed_at(&env, &["run", "--demo", "--session", "demo"], "\"number\": 4");
    assert!(env.done(&["runs"]).contains("turn 2 has tools to run"), "{}", env.run(&["runs"]));
    let resumed = env.done(&["resume"]);
    assert_snapshot!(resumed, @r"
    Half of it.
    The last two.
    I counted to eight.
    ");
    let file = env.path(".local/share/threadfold/demo/demo.txt");
    let text = fs::read_to_string(file).unwrap();
    let mut numbers: Vec<_> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6", "7", "8"]);
    assert_snapshot!(env.run(&["runs"]), @r"
    exit 1
    --- stdout
    --- stderr
    every run is finished
    ");
    assert!(env.done(&["view", "demo"]).contains("counted 8"), "it is a session like any other");
}

#[test]
fn an_interrupted_unsafe_tool_needs_a_decision_and_leaves_no_process() {
    let env = TestEnv::new();
    let mark = format!("{}", 400_000 + std::process::id());
    shell_script(&env, &format!("echo once >> counted; sleep {mark} & sleep {mark}"));
    let arguments = [&SCRIPTED[..], &["--session", "s1"]].concat();
    let mut child = start(env.command(&arguments));
    wait_until(|| env.path("counted").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until(|| !is_running(&mark));
    assert_snapshot!(env.run(&["resume", "s1"]).replace(&mark, "<mark>"), @r#"
    exit 2
    --- stdout
    --- stderr
    session s1
    ? toolu_shell_0_0 shell {"command":"echo once >> counted; sleep <mark> & sleep <mark>"}
    error: the outcome of call `toolu_shell_0_0` of tool `shell` is unknown after attempt 1: retry it, supply its result, or give it up
    hint: check whether the call took effect, then pass its result with `threadfold resume s1 --result toolu_shell_0_0=TEXT`, run it again with `--retry toolu_shell_0_0`, or give it up with `--give-up toolu_shell_0_0`
    "#);
    let done = env.done(&["resume", "s1", "--result", "toolu_shell_0_0=it ran = fine"]);
    assert_eq!(done, "It ran.\n");
    assert_eq!(fs::read_to_string(env.path("counted")).unwrap(), "once\n");
    assert!(env.done(&["view", "s1", "--full"]).contains("it ran = fine"));
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "it did not come about");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns whether a process has this among its arguments.
fn is_running(mark: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.map(|it| it.path().join("cmdline")).any(|path| {
        let line = fs::read(path).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    })
}

#[test]
fn conflicting_decisions_and_unknown_calls_are_refused() {
    let env = TestEnv::new();
    shell_script(&env, "true");
    env.done(&[&SCRIPTED[..], &["--session", "s1"]].concat());
    assert_snapshot!(env.run(&["resume", "s1", "--result", "c1"]), @"
    exit 2
    --- stdout
    --- stderr
    error: `--result c1` has no call
    hint: use the form `--result CALL=TEXT`
    ");
    assert_snapshot!(env.run(&["resume", "s1", "--retry", "c1", "--give-up", "c1"]), @"
    exit 2
    --- stdout
    --- stderr
    error: call `c1` has two decisions
    hint: use only one of `--retry`, `--result` and `--give-up` per call
    ");
}

#[test]
fn a_run_that_cannot_start_creates_no_session() {
    let env = TestEnv::new();
    env.write("script.json", "[]");
    let long = "x".repeat(100);
    for arguments in [
        &["run", "--script", "script.json", "--session", "s1", "Go."][..],
        &["run", "--script", "script.json", "--provider", "openai", "--session", "s1", "Go."],
        &[
            "run",
            "--base-url",
            "http://me:secret@localhost/",
            "--model",
            "m",
            "--session",
            "s1",
            &long,
        ],
    ] {
        let told = env.run(arguments);
        assert!(told.starts_with("exit 2"), "{told}");
        assert!(!told.contains("new session"), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
    assert!(!env.run(&["list"]).contains("s1"), "{}", env.run(&["list"]));
}

#[test]
fn changed_tools_are_reported_and_can_be_adopted() {
    let env = TestEnv::new();
    shell_script(&env, "echo hello");
    let limited = [&SCRIPTED[..], &["--session", "s1", "--max-turns", "1"]].concat();
    let stopped = env.run(&limited);
    assert!(stopped.contains("limit of 1 turns"), "{stopped}");
    let told = env.run(&["run", "--script", "script.json", "--session", "s1", "More."]);
    assert!(told.contains("the tools changed since the conversation started"), "{told}");
    assert!(told.contains("add `--adopt`"), "{told}");
    let told = env.run(&["resume", "s1", "--tools", "read", "--max-turns", "9"]);
    assert!(told.contains("threadfold resume s1 --adopt"), "{told}");
    let adopted = ["resume", "s1", "--tools", "read", "--max-turns", "9", "--adopt"];
    assert_eq!(env.done(&adopted), "It ran.\n");
    let again = env.run(&["resume", "s1"]);
    assert!(
        again.contains("the run was already finished"),
        "the adopted setup was recorded: {again}"
    );
}

#[test]
fn a_run_without_a_key_or_with_an_unknown_tool_stores_nothing() {
    let env = TestEnv::new();
    let mut command = env.command(&["run", "--model", "m", "Hello"]);
    let told = seen(&command.env_remove("ANTHROPIC_API_KEY").output().unwrap());
    assert!(told.contains("the key is empty"), "{told}");
    assert!(told.contains("ANTHROPIC_API_KEY"), "{told}");
    shell_script(&env, "true");
    let told = env.run(&["run", "--script", "script.json", "--tools", "fly", "Go."]);
    assert!(told.contains("there is no tool `fly`"), "{told}");
    assert!(env.run(&["runs"]).contains("every run is finished"), "{}", env.run(&["runs"]));
}

#[test]
fn a_run_that_is_refused_changes_nothing_of_how_it_is_resumed() {
    let env = TestEnv::new();
    shell_script(&env, "echo hello");
    let limited = [&SCRIPTED[..], &["--session", "s1", "--max-turns", "1"]].concat();
    env.run(&limited);
    let other = ["run", "--script", "script.json", "--model", "zzz", "--session", "s1", "More."];
    assert!(env.run(&other).starts_with("exit 2"));
    assert_eq!(env.done(&["resume", "s1", "--max-turns", "9"]), "It ran.\n");
    for blank in ["", " \n "] {
        let told = env.run(&["run", "--script", "script.json", "--session", "s2", blank]);
        assert!(told.contains("the prompt is empty"), "{told}");
    }
    assert!(!env.done(&["list"]).contains("s2"));
}

#[test]
fn another_agents_session_is_not_gone_on_in() {
    let env = TestEnv::with_events(
        r#"{"type":"block:upsert","payload":{"block":{"id":"b1","type":"assistant_text","status":"complete","content":"hi"}},"context":{"sessionId":"s1"}}"#,
    );
    env.done(&["import", "events.jsonl"]);
    let entry: serde_json::Value =
        serde_json::from_str(env.done(&["list", "--json"]).lines().next().unwrap()).unwrap();
    shell_script(&env, "true");
    let id = entry["id"].as_str().unwrap();
    let told = env.run(&["run", "--script", "script.json", "--session", id, "Go."]);
    assert!(told.contains("belongs to another agent"), "{told}");
}

#[test]
fn a_model_is_called_over_http_and_its_key_is_stored_nowhere() {
    let key = "sk-test-0123456789abcdef";
    let script = r#"{ "name": "hello", "steps": [{ "text": "Hello there." }] }"#;
    let model =
        ScriptedModel::builder().script(Script::from_json(script).unwrap()).start().unwrap();
    for provider in ["anthropic", "openai", "openai-responses"] {
        let env = TestEnv::new();
        let base = model.base_url();
        let arguments =
            ["run", "--provider", provider, "--model", "m", "--base-url", &base, "[[play:hello]]"];
        let mut command = env.command(&arguments);
        command.env("ANTHROPIC_API_KEY", key).env("OPENAI_API_KEY", key);
        let output = command.output().unwrap();
        let told = seen(&output);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "Hello there.\n", "{provider}: {told}");
        assert!(!told.contains(key), "{told}");
        let folder = env.path(".local/share/threadfold");
        for file in fs::read_dir(folder).unwrap().flatten() {
            let bytes = fs::read(file.path()).unwrap();
            let holds = bytes.windows(key.len()).any(|it| it == key.as_bytes());
            assert!(!holds, "{} holds the key", file.path().display());
        }
    }
}

#[test]
fn a_run_has_no_files_to_export_or_restore_but_its_events() {
    let env = TestEnv::new();
    shell_script(&env, "true");
    env.done(&[&SCRIPTED[..], &["--session", "s1"]].concat());
    let refused = env.told(&["export", "s1"]);
    assert_snapshot!(refused, @"
    exit 2
    --- stdout
    --- stderr
    error: the session has no original files
    hint: `threadfold export` writes it with `--format events`, which can be imported again, `markdown` or `json`
    ");
    for arguments in [
        &["export", "s1", "--output", "out"][..],
        &["export", "s1", "--output", "out/"],
        &["restore", "s1"],
        &["restore", "s1", "--to", "out"],
    ] {
        assert_eq!(env.told(arguments), refused, "{arguments:?}");
    }
    let all = env.told(&["export", "--output", "out"]);
    assert!(all.starts_with("exit 0") && all.contains("skipped `s1`"), "{all}");
    env.done(&["export", "s1", "--format", "events", "--output", "s1.events.jsonl"]);
    env.done(&["import", "s1.events.jsonl", "--store", "other"]);
    assert!(env.done(&["view", "s1", "--store", "other"]).contains("It ran."));
}

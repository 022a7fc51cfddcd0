//! Parity on the real program: both live views of Codex are folded, and its rollouts after.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use threadfold_convert::codex::AGENT;
use threadfold_core::{ConversationState, SessionId};
use threadfold_fold::parity::{Comparison, RunGap, SideState, Verdict, compare_sides, replay};
use threadfold_fold::{
    Fold, Record, RecordKind, SessionFile, Slices, SourceRole, SourceSpec, file_records,
};
use threadfold_testkit::{
    AgentHome, AppServer, Availability, Codex, CodexOptions, CodexTools, ScriptedModel,
    codex_scripts, report_skipped,
};

/// The number of the source that the stream is.
const STREAM: u32 = 1;

/// Returns Codex, or reports that the test is skipped.
pub(crate) fn codex() -> Option<Codex> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    match Codex::find(&target.join("agents")).unwrap() {
        Availability::Found(codex) => Some(codex),
        Availability::Unavailable(reason) => {
            report_skipped(target, "real Codex", &reason).unwrap();
            None
        }
    }
}

fn model() -> ScriptedModel {
    ScriptedModel::builder().scripts(codex_scripts(CodexTools::NEWEST)).start().unwrap()
}

fn prompt(script: &str) -> String {
    format!("[[play:{script}]] please run")
}

/// A run of the real program, folded from both sides.
struct LiveRun {
    comparison: Comparison,
    /// How many times the state was seen to grow.
    seen_growing: usize,
    stream: ConversationState,
    /// The scripted steps that the model played, with their attempts.
    played: Vec<String>,
    home: AgentHome,
}

impl LiveRun {
    /// Folds a stream line by line, then the rollouts, and pushes both in many interleavings.
    fn fold(
        name: &str,
        lines: &[Vec<u8>],
        transcripts: &[PathBuf],
        run: (AgentHome, &ScriptedModel),
    ) -> Self {
        let spec = SourceSpec::new(AGENT, SourceRole::Stream, "stdout");
        let mut records = vec![Record::new(RecordKind::Source, STREAM, 0, spec.to_json())];
        let line = |line: &Vec<u8>| Record::new(RecordKind::Line, STREAM, 0, line.clone());
        records.extend(lines.iter().map(line));
        records.push(Record::new(RecordKind::End, STREAM, 0, ""));
        let session = SessionId::from("");
        let mut live = Fold::new(session.clone(), Slices::default());
        let mut seen_growing = 0;
        for record in &records {
            let before = live.conversation().clone();
            let seq = live.seq() + 1;
            let step = live.push(&record.clone().at(seq));
            assert_eq!(step.oddities, [], "{name}: {:?}", step.events);
            seen_growing += usize::from(before != *live.conversation());
        }

        let read = |path: &PathBuf| (path.display().to_string(), fs::read(path).unwrap());
        let files: Vec<_> = transcripts
            .iter()
            .filter(|it| it.file_name().unwrap().to_string_lossy().starts_with("rollout-"))
            .map(read)
            .collect();
        assert!(!files.is_empty(), "{name}: there is no rollout");
        let files: Vec<_> = files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
        let stored = file_records(AGENT, STREAM + 1, &files);
        let replayed = replay(&session, &records, &stored);
        assert!(replayed.holds(), "{name}: {replayed:?}");
        let sides = [
            SideState::fold_stream(AGENT, &session, &records, &stored),
            SideState::fold(AGENT, &session, &stored),
        ];
        let comparison = compare_sides(AGENT, &sides[0], &sides[1]);
        assert_eq!(comparison.differences, [], "{name}");
        assert!(comparison.blocks > 0, "{name}");
        let (home, model) = run;
        let played = model.requests().into_iter().filter_map(|it| it.played);
        let played = played.map(|it| format!("{} {} {}", it.script, it.step, it.attempt));
        let stream = live.conversation().clone();
        Self { comparison, seen_growing, stream, played: played.collect(), home }
    }

    /// Returns what a block of the live state is, by the type and a field of it.
    fn blocks(&self, kind: &str, field: &str) -> Vec<Value> {
        let state = serde_json::to_value(&self.stream).unwrap();
        let blocks = state["blocks"].as_array().unwrap();
        blocks.iter().filter(|it| it["type"] == kind).map(|it| it[field].clone()).collect()
    }

    fn lacking(&self) -> Vec<RunGap> {
        self.comparison.lacking.keys().copied().collect()
    }
}

/// Plays scripts with `codex exec`, each but the first in a process that resumes the thread.
fn exec(scripts: &[&str]) -> Option<LiveRun> {
    let codex = codex()?;
    let (model, home) = (model(), prepared_home());
    let options = CodexOptions::new(&home, model.base_url(), codex.version());
    let (mut lines, mut transcripts) = (Vec::<Vec<u8>>::new(), Vec::new());
    for script in scripts {
        let first = lines.first().map(|it| serde_json::from_slice::<Value>(it).unwrap());
        let thread = first.map(|it| it["thread_id"].as_str().unwrap().to_owned());
        let prompt = prompt(script);
        let mut arguments = vec!["--json", "--skip-git-repo-check"];
        if let Some(thread) = &thread {
            arguments.insert(0, "resume");
            arguments.push(thread);
        }
        arguments.push(&prompt);
        let output = codex.exec(&options, &arguments).unwrap().finish().unwrap();
        lines.extend(output.lines);
        transcripts = output.transcripts;
    }
    Some(LiveRun::fold(scripts[0], &lines, &transcripts, (home, &model)))
}

/// Lets a client do something with the app-server and a thread of it.
fn app_server(
    thread: &Value,
    act: impl FnOnce(&mut AppServer<'_>, &str, &AgentHome),
) -> Option<LiveRun> {
    let codex = codex()?;
    let (model, home) = (model(), prepared_home());
    let options = CodexOptions::new(&home, model.base_url(), codex.version());
    let mut server = codex.app_server(&options).unwrap();
    let thread = server.start_thread(&home.project(), thread).unwrap();
    act(&mut server, &thread, &home);
    server.wait_until_idle().unwrap();
    let output = server.finish().unwrap();
    Some(LiveRun::fold("app-server", &output.lines, &output.transcripts, (home, &model)))
}

fn play(script: &str) -> Option<LiveRun> {
    app_server(&json!({}), |server, thread, _| {
        server.prompt(thread, &prompt(script)).unwrap();
    })
}

fn prepared_home() -> AgentHome {
    let home = AgentHome::new().unwrap();
    fs::write(home.project().join("given.txt"), "old line\nlast line\n").unwrap();
    home
}

macro_rules! equal {
    ($($test:ident: $script:literal,)*) => {$(
        #[test]
        fn $test() {
            for run in [exec(&[$script]), play($script)].into_iter().flatten() {
                assert_eq!(run.comparison.verdict(), Verdict::Equal, "{:?}", run.lacking());
                assert!(run.seen_growing > 0);
            }
        }
    )*};
}

equal! {
    text_is_equal: "text",
    thinking_in_parts_is_equal: "thinking_parts",
    tools_are_equal: "tools",
    a_failing_command_is_equal: "failing",
    a_patch_is_equal: "patch",
    a_patch_that_does_not_apply_is_equal: "patch_fails",
    a_subagent_is_equal: "subagent",
    a_refused_request_is_equal: "error400",
    a_request_that_is_retried_is_equal: "error_retry",
    a_cut_stream_is_equal: "drop_midstream",
    a_stream_cut_after_a_tool_is_equal: "drop_after_tool",
}

#[test]
fn parallel_calls_lack_at_most_their_order() {
    for run in [exec(&["parallel"]), play("parallel")].into_iter().flatten() {
        let lacking = run.lacking();
        assert!(lacking.iter().all(|it| *it == RunGap::ParallelOrder), "{lacking:?}");
        let mut outputs: Vec<_> =
            run.blocks("tool_result", "output").iter().map(Value::to_string).collect();
        outputs.sort();
        assert_eq!(outputs, ["\"fast\\n\"", "\"middle\\n\"", "\"slow\\n\""]);
    }
}

#[test]
fn what_the_tools_did_is_in_the_state_and_on_disk() {
    let Some(run) = play("patch") else { return };
    let given = fs::read_to_string(run.home.project().join("given.txt")).unwrap();
    assert_eq!(given, "new line\nlast line\n");
    assert_eq!(run.blocks("tool_use", "toolName"), ["apply_patch"]);

    let Some(run) = play("failing") else { return };
    let metadata = run.blocks("tool_result", "metadata");
    assert_eq!(metadata[0]["exitCode"], 3);
}

#[test]
fn a_retry_is_a_notice_and_a_request_is_repeated() {
    let Some(run) = play("drop_midstream") else { return };
    assert_eq!(run.played, ["drop_midstream 0 1", "drop_midstream 0 2"]);
    assert_eq!(run.blocks("system", "subtype"), ["retry"]);
    assert!(run.comparison.explained.contains_key("retries-in-stream"));
    let Some(run) = exec(&["error_retry"]) else { return };
    assert_eq!(run.played, ["error_retry 0 1", "error_retry 0 2", "error_retry 0 3"]);
}

#[test]
fn an_interrupted_command_has_no_result_and_the_next_turn_works() {
    let run = app_server(&json!({}), |server, thread, _| {
        let input = json!([{"type": "text", "text": prompt("held_tool")}]);
        let turn = server.start_turn(thread, &input).unwrap();
        let is_command = |it: &Value| {
            it["method"] == "item/started" && it["params"]["item"]["type"] == "commandExecution"
        };
        server.wait_for("the start of a command", is_command).unwrap();
        server.interrupt(thread, &turn).unwrap();
        server.prompt(thread, &prompt("text2")).unwrap();
    });
    let Some(run) = run else { return };
    assert_eq!(run.comparison.verdict(), Verdict::Equal, "{:?}", run.lacking());
    assert_eq!(run.blocks("tool_use", "interrupted"), [true]);
    assert_eq!(run.blocks("tool_result", "output"), Vec::<Value>::new());
    assert_eq!(
        run.blocks("assistant_text", "content"),
        ["This takes long.", "A second answer."].map(Value::from)
    );
}

#[test]
fn an_interrupted_text_is_not_kept() {
    let run = app_server(&json!({}), |server, thread, _| {
        let input = json!([{"type": "text", "text": prompt("held_text")}]);
        let turn = server.start_turn(thread, &input).unwrap();
        let is_delta = |it: &Value| it["method"] == "item/agentMessage/delta";
        server.wait_for("a part of a text", is_delta).unwrap();
        server.interrupt(thread, &turn).unwrap();
    });
    let Some(run) = run else { return };
    assert_eq!(run.comparison.verdict(), Verdict::Equal, "{:?}", run.lacking());
    assert_eq!(run.blocks("system", "subtype"), ["interrupted"]);
}

#[test]
fn a_question_is_answered_and_decides_whether_a_command_runs() {
    let asking = json!({"approvalPolicy": "on-request", "sandbox": "read-only"});
    let run = app_server(&asking, |server, thread, _| {
        server.answer_with(|request| {
            let command = request["params"]["command"].as_str().unwrap_or_default();
            let is_refused = command.contains("refused");
            json!({"decision": if is_refused { "decline" } else { "accept" }})
        });
        server.prompt(thread, &prompt("ask_twice")).unwrap();
    });
    let Some(run) = run else { return };
    assert_eq!(run.comparison.verdict(), Verdict::Equal, "{:?}", run.lacking());
    let answers = run.blocks("permission", "answer");
    assert_eq!(answers, [json!({"decision": "accept"}), json!({"decision": "decline"})]);
    let exists = |name: &str| run.home.project().join(name).exists();
    assert_eq!((exists("allowed.txt"), exists("refused.txt")), (true, false));
}

#[test]
fn a_resumed_thread_is_one_conversation_over_two_processes() {
    let Some(run) = exec(&["tools", "text"]) else { return };
    assert_eq!(run.comparison.verdict(), Verdict::Equal, "{:?}", run.lacking());
    assert_eq!(run.blocks("assistant_text", "content").len(), 3);
}

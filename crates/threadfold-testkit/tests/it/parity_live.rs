//! Parity on the real program: its stream is folded while it runs, its transcript after.

use std::fs;

use serde_json::json;
use threadfold_convert::lines::lines;
use threadfold_convert::parity::{Comparison, Lack, Verdict, compare, replay};
use threadfold_convert::{Agent, Feed, FeedKind, Record, SessionFile, converter, parse_transcript};
use threadfold_core::ConversationState;
use threadfold_testkit::{AgentHome, Input, RunOptions, Script, ScriptedModel, Step};

use crate::real::{SESSION, claude};

/// A run of the real program, folded from both sides.
struct Folded {
    comparison: Comparison,
    /// How many times the state was seen to grow while the program ran.
    seen_growing: usize,
}

/// Plays a script with the words of subagents forwarded.
fn fold_live(script: &str, settings: Option<serde_json::Value>) -> Option<Folded> {
    let claude = claude()?;
    let model = ScriptedModel::builder()
        .scripts(threadfold_testkit::ready_scripts(threadfold_testkit::SubagentTool::Agent))
        .script(
            Script::new("denied")
                .step(
                    Step::new()
                        .text("I try.")
                        .tool_use("Bash", json!({"command": "touch denied.txt"})),
                )
                .step(Step::new().text("It was not allowed.")),
        )
        .start()
        .unwrap();
    let home = AgentHome::new().unwrap();
    if let Some(settings) = settings {
        let folder = home.path().join(".claude");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("settings.json"), settings.to_string()).unwrap();
    }
    let input = Input::Prompt(format!("[[play:{script}]] please run"));
    let options =
        RunOptions::new(&home, model.base_url(), input).session_id(SESSION).forward_subagent_text();

    let feed = Feed::new(Agent::Claude, FeedKind::Stream, "stdout");
    let mut live = converter(Agent::Claude);
    let mut state = ConversationState::default();
    let (mut streamed, mut events, mut seen_growing) = (Vec::new(), Vec::new(), 0);
    let mut running = claude.start(&options).unwrap();
    for line in running.by_ref() {
        let line = line.unwrap();
        let record = Record { feed: &feed, line: streamed.len() as u64 + 1, bytes: &line };
        live.push(&record, &mut events);
        let before = state.clone();
        for event in events.drain(..) {
            assert_eq!(state.apply(&event).anomaly(), None, "{script}: {event:?}");
        }
        seen_growing += usize::from(before != state);
        streamed.push(line);
    }
    running.finish().unwrap();
    live.finish(&feed, &mut events);
    for event in events.drain(..) {
        assert_eq!(state.apply(&event).anomaly(), None, "{script}: {event:?}");
    }

    let files = threadfold_testkit::sessions_on_disk::read_sessions(&home.transcript_root())
        .unwrap()
        .remove(0)
        .files;
    let files: Vec<_> = files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
    assert!(files.iter().any(|file| lines(file.bytes).next().is_some()), "{script}: no transcript");
    let told = parse_transcript(Agent::Claude, &files);
    let records: Vec<_> =
        (1..).zip(&streamed).map(|(line, bytes)| Record { feed: &feed, line, bytes }).collect();
    let replayed = replay(Agent::Claude, &records, &files);
    assert!(replayed.holds(), "{script}: {replayed:?}");
    Some(Folded { comparison: compare(&state, &told), seen_growing })
}

fn assert_equal(script: &str) {
    let Some(Folded { comparison, seen_growing }) = fold_live(script, None) else { return };
    assert_eq!(comparison.differences, [], "{script}");
    assert_eq!(comparison.verdict(), Verdict::Equal, "{script}: {:?}", comparison.lacking);
    assert!(comparison.blocks > 0 && seen_growing > comparison.blocks, "{script}");
}

macro_rules! equal {
    ($($test:ident: $script:literal,)*) => {$(
        #[test]
        fn $test() {
            assert_equal($script);
        }
    )*};
}

equal! {
    text_is_equal: "text",
    thinking_is_equal: "thinking",
    tools_are_equal: "tools",
    parallel_tools_are_equal: "parallel",
    a_subagent_is_equal: "subagent",
    parallel_subagents_are_equal: "subagents_parallel",
    nested_subagents_are_equal: "nested",
    a_background_subagent_is_equal: "background",
    a_retry_is_equal: "error_retry",
    a_cut_stream_is_equal: "drop_midstream",
    a_stream_cut_after_a_tool_is_equal: "drop_after_tool",
    an_answer_that_was_too_long_is_equal: "maxtokens",
}

#[test]
fn a_refused_request_is_an_error_block_on_both_sides() {
    let Some(Folded { comparison, .. }) = fold_live("error400", None) else { return };
    assert_eq!(comparison.differences, []);
    assert!(comparison.blocks > 0);
}

#[test]
fn hooks_have_other_names_in_stream_and_file() {
    let hook = json!({"matcher": "", "hooks": [{"type": "command", "command": "echo hooked"}]});
    let settings = json!({"hooks": {"PreToolUse": [hook.clone()], "SessionStart": [hook]}});
    let Some(Folded { comparison, .. }) = fold_live("tools", Some(settings)) else { return };
    assert_eq!(comparison.differences, []);
    let explained: Vec<_> = comparison.explained.keys().copied().collect();
    assert!(explained.contains(&"hooks-in-stream"), "{explained:?}");
    assert!(explained.contains(&"hooks-in-file"), "{explained:?}");
}

#[test]
fn a_denial_is_told_by_the_stream_and_by_the_calls_result() {
    let settings = json!({"permissions": {"deny": ["Bash(touch denied.txt)"]}});
    let Some(Folded { comparison, .. }) = fold_live("denied", Some(settings)) else { return };
    assert_eq!(comparison.differences, []);
    assert!(comparison.explained.contains_key("denials-in-stream"), "{:?}", comparison.explained);
}

#[test]
fn lacks_have_names() {
    assert!(Lack::SubagentWords.tell().contains("forward"));
}

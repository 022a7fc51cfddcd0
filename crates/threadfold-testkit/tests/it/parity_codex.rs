//! Stream and rollout of recorded runs of Codex state the same, in all five versions.

use std::path::Path;

use serde_json::Value;
use threadfold_convert::codex;
use threadfold_fold::parity::{RunGap, Verdict};
use threadfold_testkit::parity_pairs::{RecordedPair, read_pairs};

fn pairs() -> Vec<RecordedPair> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pairs = read_pairs(&root.join("../threadfold-convert/tests/data/codex")).unwrap();
    assert!(pairs.len() > 55, "only {} pairs were found", pairs.len());
    assert!(pairs.iter().all(|pair| pair.agent == codex::AGENT));
    pairs
}

fn pair(name: &str) -> RecordedPair {
    pairs().into_iter().find(|pair| pair.name == name).unwrap()
}

/// The runs that lack something, and what.
const PARTIAL: [(&str, RunGap); 5] = [
    ("app_drop_after_tool@0.98.0", RunGap::CutResult),
    ("app_interrupt_subagent@0.98.0", RunGap::AfterInterruption),
    ("app_parallel@0.147.0", RunGap::ParallelOrder),
    ("app_sigterm_tool", RunGap::StreamEndsAtKill),
    ("exec_drop_after_tool@0.98.0", RunGap::CutResult),
];

#[test]
fn every_recorded_run_is_equal_or_lacks_exactly_what_it_must() {
    let mut found = Vec::new();
    for pair in pairs() {
        let comparison = pair.compare();
        assert_eq!(comparison.differences, [], "{}", pair.name);
        assert!(comparison.blocks > 0, "{}", pair.name);
        found.extend(comparison.lacking.keys().map(|gap| (pair.name.clone(), *gap)));
    }
    assert_eq!(found, PARTIAL.map(|(name, gap)| (name.to_owned(), gap)));
}

#[test]
fn every_interleaving_of_stream_and_files_gives_one_state() {
    for pair in pairs() {
        let replayed = pair.replay();
        assert!(replayed.tried > 3, "{}", pair.name);
        assert!(replayed.holds(), "{}: {replayed:?}", pair.name);
    }
}

#[test]
fn a_call_that_was_interrupted_before_its_start_is_in_the_file_alone() {
    let mut early = pair("app_interrupt_hangtool");
    let stream = String::from_utf8(early.stream).unwrap();
    let is_start = |line: &&str| line.contains("item/started") && line.contains("commandExecution");
    assert_eq!(stream.lines().filter(is_start).count(), 1);
    let rest: Vec<&str> =
        stream.lines().filter(|line| !line.contains("commandExecution")).collect();
    early.stream = rest.join("\n").into_bytes();
    let comparison = early.compare();
    assert_eq!(comparison.verdict(), Verdict::Equal, "{:?}", comparison.differences);
    assert_eq!(comparison.explained.get("unstarted-calls-in-file"), Some(&1));
    assert!(early.replay().holds());
}

/// Returns the pair without the late end of its interrupted command.
fn without_late_end(name: &str) -> RecordedPair {
    let mut early = pair(name);
    let mut removed = 0;
    for (_, bytes) in &mut early.files {
        let text = String::from_utf8(std::mem::take(bytes)).unwrap();
        let is_late =
            |line: &&str| line.contains("item_completed") && line.contains("CommandExecution");
        removed += text.lines().filter(is_late).count();
        let rest: Vec<&str> = text.lines().filter(|line| !is_late(line)).collect();
        *bytes = (rest.join("\n") + "\n").into_bytes();
    }
    assert_eq!(removed, 1, "{name}");
    early
}

#[test]
fn a_file_may_end_before_an_interrupted_command_does() {
    for name in ["app_interrupt_hangtool", "app_interrupt_subkill"] {
        assert_eq!(pair(name).compare().explained.get("late-ends-in-file"), None);
        let early = without_late_end(name);
        let comparison = early.compare();
        assert_eq!(comparison.verdict(), Verdict::Equal, "{:?}", comparison.differences);
        assert_eq!(comparison.explained.get("late-ends-in-file"), Some(&1));
        assert!(early.replay().holds());
    }
}

#[test]
fn a_lost_result_is_only_excused_where_the_connection_was_cut() {
    let mut uncut = pair("app_drop_after_tool@0.98.0");
    let stream = String::from_utf8(uncut.stream).unwrap();
    let rest: Vec<&str> = stream.lines().filter(|line| !line.contains("willRetry")).collect();
    uncut.stream = rest.join("\n").into_bytes();
    assert_eq!(uncut.compare().verdict(), Verdict::Different);
}

/// Returns a pair whose stream has another text in place of one.
fn tampered(name: &str, from: &str, to: &str) -> RecordedPair {
    let mut changed = pair(name);
    let stream = String::from_utf8(changed.stream).unwrap();
    assert!(stream.contains(from), "{name} has no {from}");
    changed.stream = stream.replacen(from, to, 1).into_bytes();
    changed
}

#[test]
fn a_change_of_either_view_is_seen() {
    for (name, from, to) in [
        // A text, a command, its output and its exit code; with and without names.
        ("exec_parallel", "All three came back.", "All four came back."),
        ("exec_parallel", "slow\\n", "quick\\n"),
        ("exec_parallel", "\"exit_code\":0", "\"exit_code\":7"),
        ("exec_parallel", "'echo fast'", "'echo last'"),
        ("app_shell", "\"exitCode\": 3", "\"exitCode\": 4"),
        ("app_reasoning", "Looking around", "Looking up"),
        ("app_sub2", "Child B report.", "Child C report."),
        // A part of reasoning, which this version prints as an item of its own.
        ("exec_turns@0.98.0", "**Second part**", "**Third part**"),
        // What a subagent did, which this version mixes into the stream.
        ("exec_sub2@0.98.0", "about it", "about that"),
        ("exec_sub2@0.98.0", "child\\nREADME.md", "child\\nLICENSE"),
        // A call of a review, whose own file has it.
        ("app_review@0.147.0", "1 insertion(+)", "2 insertions(+)"),
    ] {
        let changed = match name.starts_with("app") {
            // A text is in its deltas and in its item.
            true => {
                let mut changed = pair(name);
                let stream = String::from_utf8(changed.stream).unwrap();
                assert!(stream.contains(from), "{name} has no {from}");
                changed.stream = stream.replace(from, to).into_bytes();
                changed
            }
            false => tampered(name, from, to),
        };
        let verdict = changed.compare().verdict();
        assert_eq!(verdict, Verdict::Different, "{name} {from}");
    }
}

/// Returns lines without those that contain a text.
fn without(bytes: &[u8], text: &str) -> Vec<u8> {
    let lines = std::str::from_utf8(bytes).unwrap().lines();
    let kept: String =
        lines.filter(|line| !line.contains(text)).map(|line| format!("{line}\n")).collect();
    assert!(kept.len() < bytes.len(), "no line contains {text}");
    kept.into_bytes()
}

#[test]
fn a_rollout_that_lost_a_record_is_different() {
    for (name, file, text) in [
        ("app_shell", 0, "All three are done."),
        // The file of a review.
        ("app_review@0.147.0", 1, "function_call"),
        // The file of a subagent, whose items are in the stream.
        ("exec_sub2@0.98.0", 1, "Child thinks"),
    ] {
        let mut changed = pair(name);
        changed.files[file].1 = without(&changed.files[file].1, text);
        assert_eq!(changed.compare().verdict(), Verdict::Different, "{name} {text}");
    }
}

/// Changes one value of the first line that contains a text.
fn with_value(lines: &[u8], text: &str, pointer: &str) -> Vec<u8> {
    let mut is_done = false;
    let mut out = String::new();
    for line in std::str::from_utf8(lines).unwrap().lines() {
        let mut record: Value = serde_json::from_str(line).unwrap();
        let found = record.pointer_mut(pointer).filter(|it| !is_done && !it.is_null());
        match found.filter(|_| line.contains(text)) {
            Some(value) => {
                *value = match value.as_u64() {
                    Some(number) => Value::from(number + 1),
                    None => Value::from(format!("{}~", value.as_str().unwrap())),
                };
                is_done = true;
                out += &format!("{record}\n");
            }
            None => out += &format!("{line}\n"),
        }
    }
    assert!(is_done, "no {text} has {pointer}");
    out.into_bytes()
}

#[test]
fn what_no_block_shows_is_compared() {
    for (text, pointer) in [
        ("task_complete", "/payload/duration_ms"),
        ("task_started", "/payload/turn_id"),
        ("task_started", "/payload/started_at"),
        ("CommandExecution", "/payload/item/process_id"),
        ("CommandExecution", "/payload/item/parsed_cmd/0/type"),
        ("CommandExecution", "/payload/started_at_ms"),
        ("UserMessage", "/payload/item/id"),
        ("total_token_usage", "/payload/info/total_token_usage/reasoning_output_tokens"),
        ("world_state", "/ordinal"),
    ] {
        let mut changed = pair("app_shell");
        changed.files[0].1 = with_value(&changed.files[0].1, text, pointer);
        assert_eq!(changed.compare().verdict(), Verdict::Different, "file {text} {pointer}");
    }
    for (text, pointer) in [
        ("turn/completed", "/msg/params/turn/completedAt"),
        ("turn/started", "/msg/params/turn/startedAt"),
        ("item/agentMessage/delta", "/msg/params/delta"),
        ("item/started", "/msg/params/startedAtMs"),
        ("item/completed", "/msg/params/turnId"),
        ("item/completed", "/msg/params/completedAtMs"),
        ("thread/tokenUsage/updated", "/msg/params/tokenUsage/total/totalTokens"),
    ] {
        let mut changed = pair("app_shell");
        changed.stream = with_value(&changed.stream, text, pointer);
        assert_eq!(changed.compare().verdict(), Verdict::Different, "stream {text} {pointer}");
    }
}

#[test]
fn a_numbered_file_that_lost_any_record_is_different() {
    let whole = pair("app_shell");
    let file = String::from_utf8(whole.files[0].1.clone()).unwrap();
    let lines: Vec<&str> = file.lines().collect();
    for lost in 1..lines.len() - 1 {
        let mut changed = whole.clone();
        let kept = lines.iter().enumerate().filter(|(number, _)| *number != lost);
        let kept: String = kept.map(|(_, line)| format!("{line}\n")).collect();
        changed.files[0].1 = kept.into_bytes();
        assert_eq!(changed.compare().verdict(), Verdict::Different, "without line {lost}");
    }
}

#[test]
fn only_calls_of_a_review_are_in_the_stream_alone() {
    let mut changed = pair("app_review@0.98.0");
    assert_eq!(changed.compare().explained["review-calls-in-stream"], 2);
    // The same call, before the review.
    let stream = String::from_utf8(changed.stream).unwrap();
    let call = |line: &&str| line.contains("call_0692") && !line.contains("codex/event/");
    let calls: Vec<&str> = stream.lines().filter(call).collect();
    let moved = calls.join("\n").replace("call_0692", "call_1692");
    let first = stream.find("\"item/completed\"").unwrap();
    let first = first + stream[first..].find('\n').unwrap() + 1;
    changed.stream = format!("{}{moved}\n{}", &stream[..first], &stream[first..]).into_bytes();
    let comparison = changed.compare();
    assert_eq!(comparison.verdict(), Verdict::Different, "{:?}", comparison.explained);
}

#[test]
fn a_session_that_another_view_continues_lacks_prompts_only_where_no_view_repeats_them() {
    let whole = pair("exec_upgrade_from_0.128");
    assert_eq!(whole.compare().explained["prompts-in-file"], 2);
    let mut changed = whole.clone();
    changed.stream = without(&changed.stream, "userMessage");
    assert_eq!(changed.compare().verdict(), Verdict::Different);
}

#[test]
fn a_long_output_without_its_middle_is_partial_and_another_output_is_different() {
    let long: String = (1..3000).map(|number| format!("{number}\\n")).collect();
    let cut = format!("{}…77 tokens truncated…{}", &long[..60], &long[long.len() - 60..]);
    let mut changed = pair("app_text@0.128.0");
    let stream = String::from_utf8(changed.stream.clone()).unwrap();
    let ids = |key: &str| {
        let start = stream.find(&format!("\"{key}\": \"")).unwrap() + key.len() + 5;
        stream[start..].split('"').next().unwrap().to_owned()
    };
    let (thread, turn) = (ids("threadId"), ids("turnId"));
    let item = format!(
        r#"{{"dir":"server","msg":{{"method":"item/completed","params":{{"item":{{"type":"commandExecution","id":"call_1","command":"/bin/bash -lc 'seq 3000'","status":"completed","aggregatedOutput":"{long}","exitCode":0}},"threadId":"{thread}","turnId":"{turn}"}}}}}}"#
    );
    let end = stream.find("turn/completed").unwrap();
    let end = stream[..end].rfind('\n').unwrap() + 1;
    let start = item.replace("item/completed", "item/started");
    changed.stream = format!("{}{start}\n{item}\n{}", &stream[..end], &stream[end..]).into_bytes();
    for (output, verdict) in [
        (cut.clone(), Verdict::Partial),
        (cut.replace("2999", "2998"), Verdict::Different),
        (cut.replace("truncated", "gone"), Verdict::Different),
    ] {
        let mut pair = changed.clone();
        let file = String::from_utf8(pair.files[0].1.clone()).unwrap();
        let time = "2026-11-16T12:00:00.000Z";
        let call = format!(
            r#"{{"timestamp":"{time}","type":"response_item","payload":{{"type":"function_call","name":"exec_command","arguments":"{{\"cmd\":\"seq 3000\"}}","call_id":"call_1"}}}}"#
        );
        let told =
            format!("Wall time: 0.1 seconds\\nProcess exited with code 0\\nOutput:\\n{output}");
        let result = format!(
            r#"{{"timestamp":"{time}","type":"response_item","payload":{{"type":"function_call_output","call_id":"call_1","output":"{told}"}}}}"#
        );
        let end = file.find("task_complete").unwrap();
        let end = file[..end].rfind('\n').unwrap() + 1;
        pair.files[0].1 =
            format!("{}{call}\n{result}\n{}", &file[..end], &file[end..]).into_bytes();
        let comparison = pair.compare();
        assert_eq!(comparison.verdict(), verdict, "{:?}", comparison.differences);
    }
}

/// Returns a pair whose output of a call has another text, in the file that has the call.
fn with_output(name: &str, tool: &str, from: &str, to: &str) -> RecordedPair {
    let mut changed = pair(name);
    let mut is_done = false;
    for (_, bytes) in &mut changed.files {
        let (mut out, mut call) = (String::new(), None);
        for line in std::str::from_utf8(bytes).unwrap().lines() {
            let mut record: Value = serde_json::from_str(line).unwrap();
            let payload = &mut record["payload"];
            if payload["type"] == "function_call" && payload["name"] == tool {
                call = Some(payload["call_id"].clone());
            }
            let is_output = payload["type"] == "function_call_output"
                && call.as_ref() == Some(&payload["call_id"])
                && payload["output"].as_str().is_some_and(|it| it.contains(from));
            if is_output && !is_done {
                payload["output"] = payload["output"].as_str().unwrap().replace(from, to).into();
                is_done = true;
                out += &format!("{record}\n");
            } else {
                out += &format!("{line}\n");
            }
        }
        *bytes = out.into_bytes();
    }
    assert!(is_done, "{name}: no output of {tool} has {from}");
    changed
}

#[test]
fn the_order_of_keys_has_no_meaning() {
    for name in ["app_sub2", "app_shell", "app_patch@0.147.0", "exec_v2sub"] {
        let mut sorted = pair(name);
        for (_, bytes) in &mut sorted.files {
            let lines = std::str::from_utf8(bytes).unwrap().lines();
            let sort = |line: &str| format!("{}\n", serde_json::from_str::<Value>(line).unwrap());
            *bytes = lines.map(sort).collect::<String>().into_bytes();
        }
        assert_ne!(sorted.files, pair(name).files);
        assert_eq!(sorted.compare().differences, [], "{name}");
    }
}

#[test]
fn what_calls_about_subagents_returned_is_what_their_items_have() {
    for (name, tool, from, to) in [
        // The thread that began, where the file has the item and where only the stream does.
        ("app_sub2", "spawn_agent", "agent_id\":\"01a1", "agent_id\":\"01a2"),
        ("app_sub2", "spawn_agent", "agent_id", "agent"),
        ("app_sub2@0.128.0", "spawn_agent", "agent_id\":\"01a1", "agent_id\":\"01a2"),
        ("exec_sub2@0.98.0", "spawn_agent", "agent_id\":\"01a1", "agent_id\":\"01a2"),
        ("exec_sub@0.128.0", "spawn_agent", "}", "}~"),
        ("exec_subsend", "spawn_agent", "agent_id\":\"01a1", "agent_id\":\"01a2"),
        // The name of the subagent, which several records of the file have.
        ("app_sub2", "spawn_agent", "nickname\":\"", "nickname\":\"Another "),
        // The path of one of the newer kind.
        ("app_v2msg", "spawn_agent", "/root/helper", "/root/another"),
        ("app_v2sub@0.147.0", "spawn_agent", "/root/helper", "/root/another"),
        ("exec_v2sub", "spawn_agent", "/root/helper", "/root/another"),
        ("exec_v2sub", "spawn_agent", "task_name", "name"),
        // What was sent is the turn that it began.
        ("app_subsend", "send_input", "submission_id\":\"01a1", "submission_id\":\"01a2"),
        ("exec_subsend", "send_input", "submission_id", "id"),
        // The state of a subagent that was resumed or closed.
        ("app_subsend", "resume_agent", "pending_init", "running"),
        ("exec_subsend", "resume_agent", "pending_init", "running"),
        ("exec_subsend", "close_agent", "second report", "third report"),
    ] {
        let comparison = with_output(name, tool, from, to).compare();
        assert_eq!(comparison.verdict(), Verdict::Different, "{name} {tool} {from} {to}");
    }
}

#[test]
fn the_stream_has_what_calls_about_subagents_returned() {
    // In these versions no item of the file has it.
    for (name, method, from) in [
        ("app_sub2@0.128.0", "spawnAgent", "\"receiverThreadIds\": [\"01a1"),
        ("app_v2sub@0.147.0", "subAgentActivity", "\"agentPath\": \"/root/"),
    ] {
        let mut changed = pair(name);
        let stream = String::from_utf8(changed.stream.clone()).unwrap();
        let change = |line: &str| match line.contains(method) && line.contains("item/completed") {
            true => line.replace(from, &format!("{from}9")) + "\n",
            false => line.to_owned() + "\n",
        };
        changed.stream = stream.lines().map(change).collect::<String>().into_bytes();
        assert_ne!(changed.stream, stream.as_bytes(), "{name} has no {from}");
        let found = changed.compare().differences;
        assert!(
            found.iter().any(|it| it.conversation.as_str().contains("agent_output")
                || format!("{it:?}").contains("agent_output")),
            "{name}: {found:?}"
        );
    }
}

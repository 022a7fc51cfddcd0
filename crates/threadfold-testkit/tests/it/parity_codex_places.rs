//! Where a rollout has its records, and what it has more than once: the classes of changes that no state
//! shows and that a comparison must notice nevertheless.

use std::path::Path;

use serde_json::Value;
use threadfold_convert::codex;
use threadfold_fold::parity::Verdict;
use threadfold_testkit::parity_pairs::mutation_count::count_permutations;
use threadfold_testkit::parity_pairs::{RecordedPair, read_pairs};

fn pair(name: &str) -> RecordedPair {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data");
    let pairs = read_pairs(&root.join(codex::AGENT.name())).unwrap();
    pairs.into_iter().find(|pair| pair.name == name).unwrap()
}

fn is_different(pair: &RecordedPair) -> bool {
    pair.compare().verdict() == Verdict::Different
}

/// Changes the lines of each file of a pair.
fn with_lines(pair: &RecordedPair, mut change: impl FnMut(&mut Vec<Value>)) -> RecordedPair {
    let mut changed = pair.clone();
    for (_, bytes) in &mut changed.files {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        change(&mut lines);
        *bytes = lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
    }
    changed
}

/// Returns the kind of a line: the type of its payload, or of its item.
fn kind(line: &Value) -> &str {
    let payload = &line["payload"];
    let kind = payload["item"]["type"].as_str().or(payload["type"].as_str());
    kind.filter(|_| line["type"] != "compacted").unwrap_or("")
}

/// Moves the first line of one kind to the place of the next line of another kind, which is before or
/// behind it. The numbers and times of all lines stay in their places.
fn moved(pair: &RecordedPair, from: (&str, &str), to: &str) -> RecordedPair {
    let mut times = 0;
    let changed = with_lines(pair, |lines| {
        let is_moved = |it: &Value| kind(it) == from.0 && it.to_string().contains(from.1);
        let Some(first) = lines.iter().position(is_moved) else { return };
        let mut others: Vec<usize> =
            (0..lines.len()).filter(|it| kind(&lines[*it]) == to).collect();
        others.sort_by_key(|it| it.abs_diff(first));
        let Some(place) = others.first().copied() else { return };
        let numbers: Vec<[Value; 2]> = lines.iter().map(number).collect();
        let line = lines.remove(first);
        lines.insert(place, line);
        for (line, [ordinal, timestamp]) in lines.iter_mut().zip(numbers) {
            line["timestamp"] = timestamp;
            if ordinal.is_u64() {
                line["ordinal"] = ordinal;
            }
        }
        times += 1;
    });
    assert_eq!(times, 1, "{}: {} and {to}", pair.name, from.0);
    changed
}

fn number(line: &Value) -> [Value; 2] {
    [line["ordinal"].clone(), line["timestamp"].clone()]
}

#[test]
fn records_of_a_rollout_that_leave_their_turn_call_or_review_are_different() {
    let mut unseen = Vec::new();
    for (name, from, to) in [
        // Into the turn before, which has not ended there.
        ("app_review", ("EnteredReviewMode", ""), "task_complete"),
        ("app_review@0.169.0", ("EnteredReviewMode", ""), "task_complete"),
        // Out of the turn, which has ended there.
        ("app_compact", ("ContextCompaction", ""), "task_complete"),
        ("app_compact@0.169.0", ("ContextCompaction", ""), "task_complete"),
        ("app_ask", ("Plan", ""), "task_complete"),
        // What the thread says once its review has ended, into the review.
        ("app_review", ("message", "msg_01a1e44c-d87a"), "ExitedReviewMode"),
        ("app_review@0.147.0", ("message", "msg_01a1e453-6e10"), "exited_review_mode"),
        // What a call does, after it returned, and before it was made.
        ("app_v2msg", ("SubAgentActivity", "interacted"), "function_call_output"),
        ("app_v2msg", ("SubAgentActivity", "interacted"), "function_call"),
        ("app_v2sub@0.147.0", ("sub_agent_activity", "started"), "function_call_output"),
        ("app_view_image", ("ImageView", ""), "function_call"),
        // A search, behind the text that follows it.
        ("app_web_search@0.169.0", ("web_search_call", ""), "AgentMessage"),
    ] {
        let changed = moved(&pair(name), from, to);
        unseen.extend((!is_different(&changed)).then_some((name, from.0, to)));
    }
    assert_eq!(unseen, []);
}

#[test]
fn what_a_subagent_copies_of_its_caller_is_compared_with_it() {
    let pair = pair("app_v2fork");
    for (kind_of_copy, field) in
        [("function_call", "call_id"), ("message", "id"), ("message", "phase")]
    {
        // One of both, in the file of the caller and in that of the subagent.
        for which in 0..2 {
            let mut seen = 0;
            let changed = with_lines(&pair, |lines| {
                let is_copied = |it: &&mut Value| {
                    let text = it.to_string();
                    let is_one = text.contains("spawn_agent") || text.contains("Some context.");
                    kind(it) == kind_of_copy && it["type"] == "response_item" && is_one
                };
                if let Some(line) = lines.iter_mut().find(is_copied) {
                    if seen == which {
                        line["payload"][field] = "another".into();
                    }
                    seen += 1;
                }
            });
            assert_eq!(seen, 2);
            assert!(is_different(&changed), "{kind_of_copy} {field} of file {which}");
        }
    }
}

#[test]
fn the_phase_of_a_text_is_the_same_in_all_its_records() {
    for (name, other) in [
        // Beside an event, and beside an item of the agent.
        ("app_twotexts@0.128.0", "agent_message"),
        ("exec_cm_shell", "AgentMessage"),
    ] {
        let pair = pair(name);
        for wanted in ["message", other] {
            let mut times = 0;
            let changed = with_lines(&pair, |lines| {
                for line in lines.iter_mut().filter(|it| kind(it) == wanted) {
                    let payload = &mut line["payload"];
                    let inner =
                        if payload["item"].is_object() { &mut payload["item"] } else { payload };
                    let phase = inner.as_object_mut().and_then(|it| it.remove("phase"));
                    times += usize::from(phase.is_some());
                    // An event of these versions has a phase, also if it is none.
                    if wanted == "agent_message" {
                        inner["phase"] = Value::Null;
                    }
                }
            });
            assert!(times > 0 && is_different(&changed), "{name}: {wanted}");
        }
    }
}

#[test]
fn an_item_of_a_call_has_the_id_of_the_call() {
    for (name, item) in [("exec_mcp", "McpToolCall"), ("exec_parallel", "CommandExecution")] {
        let changed = with_lines(&pair(name), |lines| {
            let line = lines.iter_mut().find(|it| kind(it) == item).unwrap();
            let id = format!("{}~", line["payload"]["item"]["id"].as_str().unwrap());
            line["payload"]["item"]["id"] = id.into();
        });
        assert!(is_different(&changed), "{name}");
    }
}

#[test]
fn two_records_of_one_answer_have_no_order() {
    // The item of a plan lacks the plan's tags, and both records of hidden reasoning have no text.
    for name in ["app_ask", "app_thinking_hidden@0.169.0"] {
        let count = count_permutations(&pair(name), |_| true);
        assert_eq!(count.unseen, [""; 0], "{name}");
        assert!(count.placeless["copies of one object"] > 0, "{name}");
    }
}

/// A stream may show calls of a script, and a file may have calls that no item stands for; both at once
/// would explain each call whose output or name was changed.
#[test]
fn calls_of_a_run_without_scripts_are_compared() {
    for name in ["exec_parallel@0.128.0", "exec_shell_long@0.98.0"] {
        let with = |kind_of_line: &str, field: &str, value: &str| {
            with_lines(&pair(name), |lines| {
                for line in lines.iter_mut().filter(|it| kind(it) == kind_of_line) {
                    line["payload"][field] = value.into();
                }
            })
        };
        let outputs = with("function_call_output", "output", "replaced");
        assert!(is_different(&outputs), "{name} with other outputs");
        assert!(is_different(&with("function_call", "name", "other_tool")), "{name}");
    }
}

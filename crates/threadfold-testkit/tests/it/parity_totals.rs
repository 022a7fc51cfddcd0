//! The totals of a run are compared with its messages, its lines and its tasks, in every version.

use serde_json::{Value, json};
use threadfold_fold::parity::Verdict;
use threadfold_testkit::parity_pairs::RecordedPair;

use crate::parity_evidence::{assert_different, bytes, lines, pair, pairs, with_stream};

/// Changes the lines of the files of subagents.
fn with_subagents(pair: &RecordedPair, change: impl Fn(&mut Value)) -> RecordedPair {
    let mut changed = pair.clone();
    let is_subagent = |path: &str| path.ends_with(".jsonl") && path.contains("agent-");
    for (_, file) in changed.files.iter_mut().filter(|(path, _)| is_subagent(path)) {
        let mut all = lines(file);
        all.iter_mut().for_each(&change);
        *file = bytes(&all);
    }
    changed
}

fn is_report(line: &Value) -> bool {
    line["type"] == "result"
}

#[test]
fn the_tokens_of_a_model_are_those_of_its_messages() {
    for name in ["text@2.1.197", "text@2.1.239", "tools", "subagent", "nested", "text_nopartial"] {
        let pair = pair(name);
        for field in
            ["inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"]
        {
            let more = with_stream(&pair, |stream| {
                for line in stream.iter_mut().filter(|line| is_report(line)) {
                    for (_, model) in line["modelUsage"].as_object_mut().unwrap().iter_mut() {
                        model[field] = json!(model[field].as_u64().unwrap() + 1);
                    }
                }
            });
            assert_different(&more, field);
            let without = with_stream(&pair, |stream| {
                for line in stream.iter_mut().filter(|line| is_report(line)) {
                    for (_, model) in line["modelUsage"].as_object_mut().unwrap().iter_mut() {
                        model.as_object_mut().unwrap().remove(field);
                    }
                }
            });
            assert_different(&without, field);
        }
    }
}

#[test]
fn the_tokens_in_the_file_of_a_subagent_are_those_of_the_report() {
    for name in ["subagent", "nested@2.1.239", "subagents_parallel@2.1.197"] {
        let pair = pair(name);
        for field in ["input_tokens", "output_tokens"] {
            let more = with_subagents(&pair, |line| {
                if let Some(count) = line["message"]["usage"][field].as_u64() {
                    line["message"]["usage"][field] = json!(count + 1);
                }
            });
            assert_different(&more, field);
        }
    }
}

/// A request of the agent itself has input and output, and is in the report only.
#[test]
fn the_report_may_have_the_tokens_of_a_request_that_is_no_message() {
    let pair = pair("text@2.1.197");
    let with_request = |output: u64| {
        with_stream(&pair, |stream| {
            for line in stream.iter_mut().filter(|line| is_report(line)) {
                for (_, model) in line["modelUsage"].as_object_mut().unwrap().iter_mut() {
                    model["inputTokens"] = json!(model["inputTokens"].as_u64().unwrap() + 500);
                    model["outputTokens"] = json!(model["outputTokens"].as_u64().unwrap() + output);
                }
            }
        })
    };
    assert_eq!(with_request(20).compare().verdict(), Verdict::Equal);
    assert_different(&with_request(0), "with input and no output");
}

#[test]
fn a_run_has_as_many_turns_as_its_stream_shows() {
    let mut tried = 0;
    for pair in pairs() {
        // 1.0 counts the turns of subagents as well, and a late report has lines of the next run.
        let is_left_out = ["1.0.", "subagent_default"].iter().any(|it| pair.name.contains(it));
        if is_left_out || pair.name.contains("compact") || pair.name == "slash2" {
            continue;
        }
        let Some(last) = lines(&pair.stream).iter().rposition(is_report) else { continue };
        let more = with_stream(&pair, |stream| {
            stream[last]["num_turns"] = json!(stream[last]["num_turns"].as_u64().unwrap() + 1);
        });
        assert_different(&more, "with one more turn");
        tried += 1;
    }
    assert!(tried > 60, "{tried}");
}

fn is_task(line: &Value, kind: &str) -> bool {
    line["type"] == "system" && line["subtype"] == kind
}

#[test]
fn the_end_of_a_task_is_that_of_its_start_and_of_its_result() {
    for name in ["subagent", "nested", "subagent_background_stdin", "bgbash", "named_agent"] {
        let pair = pair(name);
        let with_ends = |change: &dyn Fn(&mut Value)| {
            with_stream(&pair, |stream| {
                let ends = stream.iter_mut().filter(|line| is_task(line, "task_notification"));
                ends.for_each(change);
            })
        };
        assert_different(&with_ends(&|it| it["task_id"] = json!("a0")), "of another task");
        assert_different(&with_ends(&|it| it["tool_use_id"] = json!("toolu_0")), "of another call");
        assert_different(&with_ends(&|it| it["status"] = json!("failed")), "with another status");
        let without_starts =
            with_stream(&pair, |stream| stream.retain(|line| !is_task(line, "task_started")));
        assert_different(&without_starts, "without the starts of tasks");
    }
    let background = pair("subagent_background_stdin");
    let moved = with_stream(&background, |stream| {
        for line in stream.iter_mut().filter(|line| is_task(line, "task_notification")) {
            line["output_file"] = json!("/tmp/other.output");
        }
    });
    assert_different(&moved, "with another output file");
}

/// A compaction writes results again, under the same `uuid`.
#[test]
fn a_result_that_is_stored_twice_has_one_id() {
    let pair = pair("compact_manual@2.1.100");
    let is_result = |line: &Value| line["message"]["content"][0]["type"] == "tool_result";
    for number in 0..2 {
        let mut changed = pair.clone();
        let (_, file) =
            changed.files.iter_mut().find(|(path, _)| path.ends_with(".jsonl")).unwrap();
        let mut all = lines(file);
        let mut results = all.iter_mut().filter(|line| is_result(line));
        results.nth(number).unwrap()["uuid"] = json!("00000000-0000-4000-8000-000000000002");
        *file = bytes(&all);
        assert_different(&changed, "with another id of a result");
    }
}

#[test]
fn the_type_of_a_subagent_is_that_of_its_call() {
    let pair = pair("subagent_background@2.1.100");
    let mut changed = pair.clone();
    let (_, meta) =
        changed.files.iter_mut().find(|(path, _)| path.ends_with(".meta.json")).unwrap();
    let mut about: Value = serde_json::from_slice(meta).unwrap();
    about["agentType"] = json!("explorer");
    *meta = about.to_string().into_bytes();
    assert_different(&changed, "with another type of a subagent");
    let unlisted = pair.compare().unlisted;
    assert!(
        !unlisted.keys().any(|field| format!("{field:?}").contains("agentType")),
        "{unlisted:?}"
    );
}

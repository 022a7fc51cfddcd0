//! A comparison is not talked into `equal` or `partial`: counts and reports are compared wherever the
//! stream has them, invented lines need evidence, and only a run that died was killed.

use std::path::Path;

use serde_json::{Value, json};
use threadfold_convert::claude;
use threadfold_fold::parity::{Comparison, RunGap, Verdict};
use threadfold_testkit::parity_pairs::{RecordedPair, read_pairs};

pub(crate) fn pairs() -> Vec<RecordedPair> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    read_pairs(&root.join("../threadfold-convert/tests/data").join(claude::AGENT.name())).unwrap()
}

pub(crate) fn pair(name: &str) -> RecordedPair {
    pairs().into_iter().find(|pair| pair.name == name).unwrap()
}

pub(crate) fn lines(bytes: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub(crate) fn bytes(lines: &[Value]) -> Vec<u8> {
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

/// Changes the lines of a stream.
pub(crate) fn with_stream(pair: &RecordedPair, change: impl Fn(&mut Vec<Value>)) -> RecordedPair {
    let mut stream = lines(&pair.stream);
    change(&mut stream);
    RecordedPair { stream: bytes(&stream), ..pair.clone() }
}

/// Changes the lines of the last main file.
fn with_file(pair: &RecordedPair, change: impl Fn(&mut Vec<Value>)) -> RecordedPair {
    let mut changed = pair.clone();
    let is_main = |path: &str| {
        path.ends_with(".jsonl") && !path.contains("agent-") && !path.contains("journal")
    };
    let main = changed.files.iter_mut().rfind(|(path, _)| is_main(path)).unwrap();
    let mut file = lines(&main.1);
    change(&mut file);
    main.1 = bytes(&file);
    changed
}

fn last_answer(file: &[Value]) -> usize {
    file.iter().rposition(|line| line["type"] == "assistant").unwrap()
}

/// Returns whether a run came to its end, and was neither interrupted nor killed.
fn has_ended(pair: &RecordedPair) -> bool {
    let stream = lines(&pair.stream);
    let last = stream.iter().rfind(|line| line["type"] == "result");
    // What precedes the stream of a resumed session is not in it.
    pair.name != "resume_compact"
        && last.is_some_and(|it| it["subtype"] == "success" && it["is_error"] == false)
}

/// Checks that a changed pair is different, and that it says in what.
pub(crate) fn assert_different(pair: &RecordedPair, what: &str) -> Comparison {
    let comparison = pair.compare();
    assert_eq!(comparison.verdict(), Verdict::Different, "{} {what}", pair.name);
    assert!(!comparison.differences.is_empty(), "{} {what}", pair.name);
    comparison
}

fn is_end(line: &Value) -> bool {
    line["event"]["type"] == "message_delta" && line["event"]["delta"]["stop_reason"].is_string()
}

#[test]
fn the_tokens_at_the_end_of_a_streamed_message_are_required_in_every_version() {
    let mut versions = std::collections::BTreeSet::new();
    for pair in pairs() {
        let stream = lines(&pair.stream);
        if !stream.iter().any(is_end) {
            continue;
        }
        let without_usage = with_stream(&pair, |stream| {
            for line in stream.iter_mut().filter(|line| is_end(line)) {
                line["event"].as_object_mut().unwrap().remove("usage");
            }
        });
        assert_different(&without_usage, "without the counts at the ends of messages");
        let without_ends = with_stream(&pair, |stream| stream.retain(|line| !is_end(line)));
        assert_different(&without_ends, "without the ends of messages");
        let more = with_stream(&pair, |stream| {
            for line in stream.iter_mut().filter(|line| is_end(line)) {
                let count = line["event"]["usage"]["output_tokens"].as_u64().unwrap();
                line["event"]["usage"]["output_tokens"] = json!(count + 1);
            }
        });
        // Some versions store no counts of the end, but the report of the run has them.
        if stream.iter().any(|line| line["type"] == "result") {
            assert_different(&more, "with other counts at the ends of messages");
        }
        versions.extend(pair.name.split_once('@').map(|(_, version)| version.to_owned()));
    }
    assert!(versions.len() > 8, "{versions:?}");
}

#[test]
fn the_report_of_a_run_is_compared_with_what_it_sums_up() {
    let mut tried = 0;
    for pair in pairs() {
        let stream = lines(&pair.stream);
        let Some(last) = stream.iter().rposition(|line| line["type"] == "result") else {
            continue;
        };
        let is_success = stream[last]["subtype"] == "success";
        let with_report =
            |change: &dyn Fn(&mut Value)| with_stream(&pair, |stream| change(&mut stream[last]));
        let add = |report: &mut Value, path: &str, more: f64| {
            let value = report.pointer_mut(path).unwrap();
            *value = match value.as_u64() {
                Some(count) => json!(count + more as u64),
                None => json!(value.as_f64().unwrap() + more),
            };
        };
        let counts = ["input_tokens", "output_tokens", "cache_read_input_tokens"];
        for count in counts.map(|it| format!("/usage/{it}")) {
            assert_different(&with_report(&|it| add(it, &count, 1000.0)), &count);
        }
        assert_different(&with_report(&|it| add(it, "/total_cost_usd", 1.0)), "cost");
        let invented = json!([{"tool_name": "Bash", "tool_use_id": "x", "tool_input": {}}]);
        let denied = with_report(&|it| it["permission_denials"] = invented.clone());
        assert_different(&denied, "with an invented denial");
        if is_success {
            let flipped = with_report(&|it| {
                it["is_error"] = json!(it["is_error"] == false);
            });
            assert_different(&flipped, "with the other mark of an error");
            let failed = with_report(&|it| it["subtype"] = json!("error_during_execution"));
            assert_different(&failed, "with another outcome");
        } else {
            let succeeded = with_report(&|it| {
                it["subtype"] = json!("success");
                it["is_error"] = json!(false);
                it["result"] = json!("");
            });
            // A run that failed before its first message left nothing else.
            if pair.name != "error_midstream@2.0.76" {
                assert_different(&succeeded, "with success");
            }
        }
        tried += 1;
    }
    assert!(tried > 90, "{tried}");
}

#[test]
fn a_denial_that_the_stream_reports_is_in_the_report_of_the_run() {
    let pair = pair("permission@2.1.239");
    for change in [json!([]), json!([{"tool_name": "Read"}])] {
        let changed = with_stream(&pair, |stream| {
            for line in stream.iter_mut().filter(|line| line["type"] == "result") {
                line["permission_denials"] = change.clone();
            }
        });
        assert_different(&changed, "without its denial");
    }
}

#[test]
fn a_denial_has_the_whole_input_of_its_call() {
    for field in ["command", "description"] {
        let changed = with_stream(&pair("permission@2.1.239"), |stream| {
            let denials = stream.iter_mut().filter(|line| line["type"] == "result");
            for denial in denials.map(|line| &mut line["permission_denials"][0]) {
                denial["tool_input"].as_object_mut().unwrap().remove(field).unwrap();
            }
        });
        assert_different(&changed, &format!("with a denial without `{field}`"));
    }
}

#[test]
fn the_report_of_a_run_names_the_error_of_its_last_answer() {
    for (name, field) in [("drop_always", "api_error"), ("error400@2.1.50", "stop_reason")] {
        for value in [Value::Null, json!("another")] {
            let changed = with_stream(&pair(name), |stream| {
                let report = stream.iter_mut().rfind(|line| line["type"] == "result").unwrap();
                assert!(report[field].is_string(), "{name} {field}");
                report[field] = value.clone();
            });
            assert_different(&changed, &format!("with {value} as `{field}`"));
        }
    }
}

#[test]
fn an_answer_that_was_interrupted_has_an_end_without_a_reason() {
    for name in ["interrupt_text", "sigint_text", "interrupt_text@2.1.303"] {
        let is_end = |line: &Value| line["event"]["type"] == "message_delta";
        let without_end = with_stream(&pair(name), |stream| stream.retain(|line| !is_end(line)));
        assert_different(&without_end, "without the end of its answer");
        let stopped = with_stream(&pair(name), |stream| {
            for line in stream.iter_mut().filter(|line| is_end(line)) {
                line["event"]["delta"]["stop_sequence"] = json!("stop");
            }
        });
        assert_different(&stopped, "with a sequence that stopped its answer");
    }
}

#[test]
fn every_account_of_a_file_has_the_cost_of_its_models() {
    for name in ["tools", "sigint_text"] {
        for removed in ["totalCostUSD", "modelUsage"] {
            let changed = with_file(&pair(name), |file| {
                let account = file.iter_mut().find(|line| line["type"] == "cost-state").unwrap();
                account.as_object_mut().unwrap().remove(removed).unwrap();
            });
            assert_different(&changed, &format!("with an account without `{removed}`"));
        }
    }
}

#[test]
fn the_totals_of_a_run_are_those_of_its_file() {
    let changed = with_file(&pair("tools"), |file| {
        for line in file.iter_mut().filter(|line| line["type"] == "cost-state") {
            for (_, model) in line["modelUsage"].as_object_mut().unwrap().iter_mut() {
                model["outputTokens"] = json!(1);
            }
        }
    });
    assert_different(&changed, "with other totals");
}

/// Returns a line of the file like its first prompt, below its last answer.
fn line_after_answer(file: &[Value], words: &str) -> Value {
    let mut line = file.iter().find(|line| line["type"] == "user").unwrap().clone();
    line["uuid"] = json!("00000000-0000-4000-8000-000000000001");
    line["parentUuid"] = file[last_answer(file)]["uuid"].clone();
    line["message"] = json!({"role": "user", "content": words});
    line
}

#[test]
fn a_line_for_which_there_is_no_evidence_is_different() {
    let notification = "<task-notification>\n<task-id>zz</task-id>\n<status>failed</status>\n\
        <summary>boom</summary>\n</task-notification>";
    let words = [
        "a prompt that nobody sent",
        "<command-name>/approve</command-name>",
        "<system-reminder>nobody was reminded</system-reminder>",
        notification,
    ];
    let mut tried = 0;
    for pair in pairs().into_iter().filter(has_ended) {
        for words in words {
            let changed = with_file(&pair, |file| {
                let line = line_after_answer(file, words);
                file.insert(last_answer(file) + 1, line);
            });
            assert_different(&changed, &format!("with {words:?}"));
        }
        for attachment in [
            json!({"type": "queued_command", "prompt": "do it as well", "commandMode": "prompt"}),
            json!({"type": "queued_command", "prompt": notification,
                "commandMode": "task-notification"}),
            json!({"type": "hook_success", "hookName": "Stop", "hookEvent": "Stop", "content": "x",
                "stdout": "approved", "stderr": "", "exitCode": 0, "command": "c"}),
        ] {
            let changed = with_file(&pair, |file| {
                let session = file[last_answer(file)]["sessionId"].clone();
                file.push(json!({"type": "attachment", "uuid": "q", "sessionId": session,
                    "timestamp": "2026-11-15T19:56:08.235Z", "attachment": attachment}));
            });
            assert_different(&changed, &format!("with {attachment}"));
        }
        let filled = with_file(&pair, |file| {
            let mut line = file[last_answer(file)].clone();
            line["uuid"] = json!("00000000-0000-4000-8000-000000000002");
            line["message"]["id"] = json!("filler");
            line["message"]["model"] = json!("<synthetic>");
            line["message"]["content"] =
                json!([{"type": "text", "text": "No response requested."}]);
            file.push(line);
        });
        // A turn without a report may have been cut off, and a resume writes a filler after it.
        if pair.name != "background_stdin@2.1.160" {
            assert_different(&filled, "with a filler");
        }
        tried += 1;
    }
    assert!(tried > 60, "{tried}");
}

#[test]
fn a_turn_has_one_prompt() {
    for name in ["tools", "text@2.1.239", "multi"] {
        let changed = with_file(&pair(name), |file| {
            let first = file.iter().position(|line| line["type"] == "user").unwrap();
            let mut line = line_after_answer(file, "a prompt that nobody sent");
            line["parentUuid"] = file[first]["parentUuid"].clone();
            file[first]["parentUuid"] = line["uuid"].clone();
            file.insert(first, line);
        });
        assert_different(&changed, "with two prompts in its first turn");
    }
}

fn is_delivery(line: &Value) -> bool {
    line["attachment"]["type"] == "queued_command"
}

#[test]
fn a_prompt_that_was_delivered_while_the_agent_worked_opens_no_turn() {
    let comparison = pair("queued").compare();
    assert_eq!(comparison.verdict(), Verdict::Equal, "{:?}", comparison.differences);
    assert_eq!(comparison.explained.get("prompt"), Some(&2));
}

#[test]
fn a_delivered_prompt_was_queued_once_and_taken_from_the_queue() {
    let queued = pair("queued");
    let deleted = with_file(&queued, |file| {
        let place = file.iter().position(is_delivery).unwrap();
        let (line, parent) = (file[place]["uuid"].clone(), file[place]["parentUuid"].clone());
        file.remove(place);
        // The lines after it follow the one before it, as if it had never been there.
        file.iter_mut().filter(|it| it["parentUuid"] == line).for_each(|it| {
            it["parentUuid"] = parent.clone();
        });
    });
    assert_different(&deleted, "without its queued prompt");
    for words in ["a prompt that nobody sent", "[[play:held]] please run"] {
        let invented = with_file(&queued, |file| {
            let place = file.iter().position(is_delivery).unwrap();
            let mut line = file[place].clone();
            line["uuid"] = json!("00000000-0000-4000-8000-000000000001");
            line["attachment"]["source_uuid"] = json!("00000000-0000-4000-8000-000000000002");
            line["attachment"]["prompt"] = json!(words);
            file.insert(place, line);
        });
        assert_different(&invented, &format!("with {words:?} as a second queued prompt"));
    }
    let altered = with_file(&queued, |file| {
        let place = file.iter().position(is_delivery).unwrap();
        file[place]["attachment"]["prompt"] = json!("a prompt that nobody sent");
    });
    assert_different(&altered, "with another queued prompt");
    let unqueued = with_file(&queued, |file| {
        file.retain(|line| {
            line["operation"] != "enqueue" || line["content"] != "[[play:text]] please run"
        });
    });
    assert_different(&unqueued, "with a prompt that was not queued");
}

#[test]
fn a_prompt_that_only_the_file_has_cannot_be_removed() {
    let is_prompt = |line: &Value| {
        let content = &line["message"]["content"];
        line["type"] == "user" && content[0]["type"] != "tool_result"
    };
    for name in ["text", "multi", "tools", "queued", "text@2.1.239", "text@2.0.76"] {
        let changed = with_file(&pair(name), |file| {
            let last = file.iter().rposition(is_prompt).unwrap();
            file.remove(last);
        });
        assert_different(&changed, "without its last prompt");
    }
}

#[test]
fn hooks_that_the_host_did_not_ask_for_are_missing_and_listed() {
    let unasked = with_stream(&pair("hooks@2.1.239"), |stream| {
        stream.retain(|line| !line["subtype"].as_str().is_some_and(|it| it.starts_with("hook_")));
    });
    let comparison = unasked.compare();
    assert_eq!(comparison.verdict(), Verdict::Partial, "{:?}", comparison.differences);
    assert_eq!(comparison.lacking.get(&RunGap::UnstreamedHooks), Some(&3));
    // Hooks are asked for all at once.
    let without_stop = with_stream(&pair("hooks@2.1.239"), |stream| {
        stream.retain(|line| line["hook_event"] != "Stop");
    });
    assert_different(&without_stop, "without the hooks of one event");
}

#[test]
fn a_run_that_came_to_its_end_was_not_killed() {
    let mut tried = 0;
    for pair in pairs().into_iter().filter(has_ended) {
        let has_ends = lines(&pair.stream).iter().any(is_end);
        let is_told = pair
            .files
            .iter()
            .any(|(_, it)| lines(it).last().is_some_and(|line| line["type"] == "cost-state"));
        let has_tasks = String::from_utf8_lossy(&pair.stream).contains("\"local_bash\"")
            || String::from_utf8_lossy(&pair.stream).contains("ackground")
            || pair.name.contains("default");
        if (!has_ends || has_tasks) && !is_told {
            continue;
        }
        let without_report =
            with_stream(&pair, |stream| stream.retain(|line| line["type"] != "result"));
        let cut = with_file(&without_report, |file| {
            let last = last_answer(file);
            file.remove(last);
        });
        assert_different(&cut, "without its last answer and without a report");
        tried += 1;
    }
    assert!(tried > 50, "{tried}");
}

#[test]
fn a_file_may_lack_its_end_if_the_agent_was_killed_in_the_middle_of_a_turn() {
    for name in ["kill_between_tools@2.1.197", "kill_subagent@2.1.50"] {
        let comparison = pair(name).compare();
        assert_ne!(comparison.verdict(), Verdict::Different, "{name}");
    }
    let comparison = pair("kill_between_tools@2.1.197").compare();
    assert!(comparison.lacking.contains_key(&RunGap::FileEndsAtKill));
}

#[test]
fn the_status_of_a_streamed_error_is_compared() {
    for value in [Value::Null, json!(418)] {
        let changed = with_stream(&pair("error400"), |stream| {
            let is_error = |line: &&mut Value| line["api_error_status"].is_number();
            let mut errors = stream.iter_mut().filter(|line| line["type"] == "assistant");
            errors.find(is_error).unwrap()["api_error_status"] = value.clone();
        });
        assert_different(&changed, &format!("with {value} as the status of its error"));
    }
}

/// Returns the events of a message whose connection was lost at its start, with or without a block.
fn lost_message(start: &Value, with_block: bool) -> Vec<Value> {
    let mut opened = start.clone();
    opened["event"]["message"]["id"] = json!("msg_lost");
    opened["uuid"] = json!("00000000-0000-4000-8000-000000000001");
    let mut events = vec![opened.clone()];
    let block = json!({"type": "text", "text": ""});
    let block = json!({"type": "content_block_start", "index": 0, "content_block": block});
    for (number, event) in [block, json!({"type": "message_stop"})].into_iter().enumerate() {
        if with_block || number > 0 {
            opened["event"] = event;
            opened["uuid"] = json!(format!("00000000-0000-4000-8000-00000000000{}", number + 2));
            events.push(opened.clone());
        }
    }
    events
}

#[test]
fn a_message_that_was_lost_before_its_first_whole_block_has_a_stop_without_a_reason() {
    let lose = |with_block| {
        with_stream(&pair("text@2.1.280"), |stream| {
            let is_start = |line: &Value| line["event"]["type"] == "message_start";
            let place = stream.iter().position(is_start).unwrap();
            let lost = lost_message(&stream[place], with_block);
            stream.splice(place..place, lost);
        })
    };
    for with_block in [false, true] {
        let comparison = lose(with_block).compare();
        assert_eq!(comparison.verdict(), Verdict::Equal, "{:?}", comparison.differences);
    }
    let unended = with_stream(&pair("text@2.1.280"), |stream| {
        stream.retain(|line| line["event"]["type"] != "message_delta");
    });
    assert_different(&unended, "with lines of a message without an end");
}

#[test]
fn an_account_before_the_last_answers_counts_less_only_at_a_signal() {
    // The report counts what the account, which precedes the last answers, does not.
    let counts = json!({
        "inputTokens": 20,
        "outputTokens": 10,
        "cacheReadInputTokens": 0,
        "cacheCreationInputTokens": 0,
        "webSearchRequests": 0,
    });
    let totals = |cost: &Value| {
        let mut totals = counts.clone();
        totals["costUSD"] = cost.clone();
        json!({"claude-sonnet-4-5": totals})
    };
    let counted = with_stream(&pair("sigint_text"), |stream| {
        let report = stream.iter_mut().rfind(|line| line["type"] == "result").unwrap();
        report["total_cost_usd"] = json!(0.25);
        report["modelUsage"] = totals(&json!(0.25));
    });
    let early = |pair: &RecordedPair, cost: Value| {
        with_file(pair, |file| {
            let is_account = |line: &Value| line["type"] == "cost-state";
            let mut account = file.remove(file.iter().rposition(is_account).unwrap());
            account["modelUsage"] = match cost.as_f64() {
                Some(0.0) => json!({}),
                _ => totals(&cost),
            };
            account["totalCostUSD"] = cost.clone();
            let is_answer = |line: &Value| line["type"] == "assistant";
            let first = file.iter().position(is_answer).unwrap();
            file.insert(first, account);
        })
    };
    let comparison = early(&counted, json!(0)).compare();
    assert_eq!(comparison.verdict(), Verdict::Partial, "{:?}", comparison.differences);
    assert_eq!(Vec::from_iter(comparison.lacking.keys()), [&RunGap::FileEndsAtSignal]);
    assert_different(&early(&counted, json!(0.5)), "with an account of too much");
    assert_different(&early(&pair("text"), json!(0)), "without a signal");
    assert_different(&early(&pair("interrupt_tool"), json!(0)), "with an interruption by its host");
}

#[test]
fn a_turn_before_the_end_of_a_task_need_not_have_a_report_in_old_versions() {
    let without_first = |pair: &RecordedPair| {
        with_stream(pair, |stream| {
            let is_report = |line: &Value| line["type"] == "result";
            stream.remove(stream.iter().position(is_report).unwrap());
        })
    };
    let newer = pair("background@2.1.328");
    assert_different(&without_first(&newer), "2.1.328 reports every turn");
    let older = pair("subagent_background@2.1.100");
    let comparison = without_first(&older).compare();
    assert_eq!(comparison.verdict(), Verdict::Partial, "{:?}", comparison.differences);
    let changed = with_stream(&older, |stream| {
        let report = stream.iter_mut().rfind(|line| line["type"] == "result").unwrap();
        let tokens = report["usage"]["output_tokens"].as_u64().unwrap();
        report["usage"]["output_tokens"] = json!(tokens + 1);
    });
    assert_different(&without_first(&changed), "with other counts of its last turn");
}

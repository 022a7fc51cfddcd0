//! No permutation of the records of a recorded pair may go unseen, unless a rule says why the order has
//! no meaning.

use std::path::Path;

use serde_json::{Value, json};
use threadfold_convert::{Agent, claude, codex, opencode};
use threadfold_fold::parity::Verdict;
use threadfold_testkit::parity_pairs::mutation_count::{MutationCount, count_permutations};
use threadfold_testkit::parity_pairs::{RecordedPair, read_pairs};

/// One of this many permutations is tried here; `cargo xtask soak mutations` tries them all.
const SHARE: usize = 7;

fn pairs(agent: Agent) -> Vec<RecordedPair> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data");
    read_pairs(&root.join(agent.name())).unwrap()
}

fn pair(agent: Agent, name: &str) -> RecordedPair {
    pairs(agent).into_iter().find(|pair| pair.name == name).unwrap()
}

fn permute(agent: Agent) -> MutationCount {
    let mut total = MutationCount::default();
    for (number, pair) in pairs(agent).iter().enumerate() {
        total.add(count_permutations(pair, |permutation| (permutation + number) % SHARE == 0));
    }
    total
}

#[test]
fn no_permutation_of_a_pair_of_claude_goes_unseen() {
    let total = permute(claude::AGENT);
    assert_eq!(total.unseen, [""; 0], "{total}");
    assert!(total.caught > 300, "{total}");
}

#[test]
fn no_permutation_of_a_pair_of_codex_goes_unseen() {
    let total = permute(codex::AGENT);
    assert_eq!(total.unseen, [""; 0], "{total}");
    assert!(total.caught > 300, "{total}");
}

#[test]
fn no_permutation_of_a_pair_of_opencode_goes_unseen() {
    let total = permute(opencode::AGENT);
    assert_eq!(total.unseen, [""; 0], "{total}");
    assert!(total.caught > 200, "{total}");
}

/// Changes the lines of a text, each as JSON with its number.
fn with_lines(text: &[u8], mut change: impl FnMut(usize, &mut Value)) -> Vec<u8> {
    let mut out = String::new();
    for (number, line) in String::from_utf8_lossy(text).lines().enumerate() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        change(number, &mut value);
        out += &format!("{value}\n");
    }
    out.into_bytes()
}

/// Changes the records of the files of a pair.
fn with_files(pair: &RecordedPair, mut change: impl FnMut(&mut Value)) -> RecordedPair {
    let mut changed = pair.clone();
    for (path, bytes) in &mut changed.files {
        if path.ends_with(".jsonl") {
            *bytes = with_lines(bytes, |_, line| change(line));
        }
    }
    changed
}

/// Changes the records of the stream of a pair.
fn with_stream(pair: &RecordedPair, mut change: impl FnMut(&mut Value)) -> RecordedPair {
    let stream = with_lines(&pair.stream, |_, line| change(line));
    RecordedPair { stream, ..pair.clone() }
}

fn is_different(pair: &RecordedPair) -> bool {
    pair.compare().verdict() == Verdict::Different
}

/// Returns the lines of a stream of `codex exec` that end items of a kind.
fn items(pair: &RecordedPair, kinds: &[&str]) -> Vec<(usize, Value)> {
    let text = String::from_utf8_lossy(&pair.stream).into_owned();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_wanted = |line: &Value| {
        let kind = line["item"]["type"].as_str().unwrap_or("");
        line["type"] == "item.completed" && kinds.contains(&kind)
    };
    lines.enumerate().filter(|(_, line)| is_wanted(line)).collect()
}

#[test]
fn texts_of_codex_exec_that_change_places_are_different() {
    let mut swapped = 0;
    for pair in pairs(codex::AGENT) {
        // A message with the next one, and reasoning with the message that follows it.
        for kinds in [&["agent_message"][..], &["reasoning", "agent_message"]] {
            for two in items(&pair, kinds).windows(2) {
                let [(first, one), (second, other)] = two else { continue };
                let content =
                    |line: &Value| (line["item"]["type"].clone(), line["item"]["text"].clone());
                if content(one) == content(other) {
                    continue;
                }
                let stream = with_lines(&pair.stream, |number, line| {
                    let from = match number {
                        number if number == *first => other,
                        number if number == *second => one,
                        _ => return,
                    };
                    let id = line["item"]["id"].clone();
                    line["item"] = from["item"].clone();
                    line["item"]["id"] = id;
                });
                let changed = RecordedPair { stream, ..pair.clone() };
                assert!(is_different(&changed), "{} lines {first} and {second}", pair.name);
                swapped += 1;
            }
        }
    }
    assert!(swapped > 20, "{swapped}");
}

#[test]
fn the_result_of_a_run_of_claude_is_its_last_text() {
    let mut changed = 0;
    for pair in pairs(claude::AGENT) {
        for text in ["", "another text"] {
            let mut is_changed = false;
            let other = with_stream(&pair, |line| {
                let is_said = line["result"].as_str().is_some_and(|it| !it.is_empty());
                if line["type"] == "result" && line["subtype"] == "success" && is_said {
                    line["result"] = text.into();
                    is_changed = true;
                }
            });
            if is_changed {
                assert!(is_different(&other), "{}: `{text}`", pair.name);
                changed += 1;
            }
        }
    }
    assert!(changed > 100, "{changed}");
}

#[test]
fn what_a_call_returned_to_the_model_is_compared_with_its_item() {
    let mut unseen = Vec::new();
    for (name, tool) in [
        ("app_mcp@0.98.0", "mcp__"),
        ("exec_mcp@0.98.0", "mcp__"),
        ("exec_mcp", "echo"),
        ("app_sub", "wait_agent"),
        ("exec_sub@0.128.0", "wait_agent"),
        ("app_patch@0.157.0", "apply_patch"),
        ("exec_parallel", "exec_command"),
    ] {
        let pair = pair(codex::AGENT, name);
        let mut calls = Vec::new();
        with_files(&pair, |line| {
            let payload = &line["payload"];
            if payload["name"].as_str().is_some_and(|it| it.starts_with(tool)) {
                calls.push(payload["call_id"].clone());
            }
        });
        let mut times = 0;
        let changed = with_files(&pair, |line| {
            let payload = &mut line["payload"];
            let is_output = payload["type"].as_str().is_some_and(|it| it.ends_with("_call_output"));
            if is_output && calls.contains(&payload["call_id"]) && times == 0 {
                let text = match &payload["output"] {
                    Value::String(text) => text.clone(),
                    other => panic!("{other}"),
                };
                payload["output"] = text.replace("e", "3").replace("a.txt", "b.txt").into();
                times += 1;
            }
        });
        assert_eq!(times, 1, "{name}");
        unseen.extend((!is_different(&changed)).then_some(name));
    }
    // The words about a subagent that ended and about a patch that was applied are not compared yet.
    assert_eq!(unseen, ["app_sub", "app_patch@0.157.0"]);
}

#[test]
fn what_is_reported_twice_is_compared() {
    type Edit = fn(&mut Value);
    let in_stream: [(&str, Edit); 3] = [
        ("exec_incomplete", |line| {
            if line["type"] == "error" {
                line["message"] = "another error".into();
            }
        }),
        ("exec_subsend", |line| {
            if line["item"]["prompt"].is_string() {
                line["item"]["prompt"] = "".into();
            }
        }),
        ("app_v2sub@0.147.0", |line| {
            let message = &mut line["msg"];
            let is_prompt = message["params"]["item"]["type"] == "userMessage";
            if message["method"] == "item/started" && is_prompt {
                message["params"]["item"]["content"][0]["text"] = "another prompt".into();
            }
        }),
    ];
    for (name, edit) in in_stream {
        let pair = pair(codex::AGENT, name);
        let changed = with_stream(&pair, edit);
        assert_ne!(changed.stream, pair.stream, "{name}");
        assert!(is_different(&changed), "{name}");
    }
    let in_files: [(&str, Edit); 2] = [
        ("app_steer@0.128.0", |line| {
            let payload = &mut line["payload"];
            let text = payload["content"][0]["text"].as_str().unwrap_or("").to_owned();
            if payload["role"] == "user" && text.starts_with("[[play") {
                payload["content"][0]["text"] = format!("{text} and more").into();
            }
        }),
        ("exec_shell_long@0.98.0", |line| {
            if line["payload"]["type"] == "user_message" {
                line["payload"]["message"] = "".into();
            }
        }),
    ];
    for (name, edit) in in_files {
        let pair = pair(codex::AGENT, name);
        let changed = with_files(&pair, edit);
        assert_ne!(changed.files, pair.files, "{name}");
        assert!(is_different(&changed), "{name}");
    }
}

#[test]
fn a_total_of_tokens_that_is_no_sum_is_listed_with_its_parts_and_in_plain_words() {
    let pair = pair(codex::AGENT, "app_compact");
    let mut totals = 0;
    let changed = with_files(&pair, |line| {
        let total = &mut line["payload"]["info"]["total_token_usage"];
        if total.is_object() {
            totals += 1;
            if totals == 2 {
                total["input_tokens"] = json!(total["input_tokens"].as_u64().unwrap() + 1);
            }
        }
    });
    let comparison = changed.compare();
    let found = comparison.differences.iter().find(|it| it.field == "usage total").unwrap();
    assert_ne!(found.stream, found.transcript);
    assert!(found.transcript.as_ref().unwrap().as_str().contains("\"before\""));
    for difference in &comparison.differences {
        let block = difference.block.as_ref().map_or("", |it| it.as_str());
        assert!(!block.contains("Some("), "{block}");
    }
}

#[test]
fn a_history_of_opencode_2_that_names_no_session_is_that_of_its_events() {
    let mut compared = 0;
    for pair in pairs(opencode::AGENT).iter().filter(|it| it.name.ends_with("@2.0.15")) {
        let Ok(export) = serde_json::from_slice::<Value>(&pair.files[0].1) else { continue };
        let export = if export["data"].is_object() { &export["data"] } else { &export };
        let Some(messages) = export["messages"].as_array() else { continue };
        let history = |messages: &[Value]| {
            let list = Value::from(messages.to_vec()).to_string().into_bytes();
            RecordedPair { files: vec![("messages.json".to_owned(), list)], ..pair.clone() }
        };
        let whole = history(messages);
        let comparison = whole.compare();
        assert_eq!(comparison.differences, [], "{}", pair.name);
        assert!(comparison.blocks > 0 && whole.replay().holds(), "{}", pair.name);
        let is_said = |it: &Value| it["type"] == "user" || it["type"] == "assistant";
        if let Some(last) = messages.iter().rposition(is_said) {
            assert!(is_different(&history(&[&messages[..last], &messages[last + 1..]].concat())));
        }
        compared += 1;
    }
    assert!(compared > 15, "{compared}");
}

#[test]
fn rows_of_opencode_2_with_their_table_as_a_column_are_recognized_and_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data");
    let rows = std::fs::read(root.join("opencode/tools@2.0.15/db_rows.jsonl")).unwrap();
    let rows = with_lines(&rows, |_, line| {
        if let (Some(table), Some(columns)) = (line["table"].as_str(), line["row"].as_object()) {
            let mut flat = serde_json::Map::from_iter([("_table".to_owned(), Value::from(table))]);
            flat.extend(columns.clone());
            *line = Value::Object(flat);
        }
    });
    let detected = threadfold_fold::detect(&rows).unwrap();
    assert_eq!(detected.agent, Some(opencode::AGENT));
    let pair = pair(opencode::AGENT, "tools@2.0.15");
    let flat = RecordedPair { files: vec![("db_rows.jsonl".to_owned(), rows)], ..pair };
    let comparison = flat.compare();
    assert_eq!(comparison.differences, []);
    assert!(comparison.blocks > 5);
}

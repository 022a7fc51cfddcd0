//! No change of a recorded pair may go unseen: a comparison detects it, or a known gap names it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use threadfold_convert::{Agent, claude, codex, opencode};
use threadfold_fold::parity::{RunGap, Verdict};
use threadfold_testkit::parity_pairs::mutation_count::{MutationCount, count};
use threadfold_testkit::parity_pairs::{RecordedPair, read_pairs, read_pairs_of_all_forms};

/// One of this many mutations is tried here; `cargo xtask soak mutations` tries them all.
const SHARE: usize = 23;

fn folder(agent: Agent) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../threadfold-convert/tests/data").join(agent.name())
}

fn pairs(agent: Agent) -> Vec<RecordedPair> {
    read_pairs(&folder(agent)).unwrap()
}

fn pair(agent: Agent, name: &str) -> RecordedPair {
    pairs(agent).into_iter().find(|pair| pair.name == name).unwrap()
}

/// Mutates a share of all fields, another one for each pair.
fn mutate(agent: Agent) -> MutationCount {
    let mut total = MutationCount::default();
    for (number, pair) in pairs(agent).iter().enumerate() {
        total.add(count(pair, |mutation| (mutation + number) % SHARE == 0));
    }
    total
}

#[test]
fn no_mutation_of_a_pair_of_claude_goes_unseen() {
    let total = mutate(claude::AGENT);
    assert_eq!(total.unseen, [""; 0], "{total}");
    assert!(total.caught > 500 && total.excused.len() > 10, "{total}");
}

#[test]
fn no_mutation_of_a_pair_of_codex_goes_unseen() {
    let total = mutate(codex::AGENT);
    assert_eq!(total.unseen, [""; 0], "{total}");
    assert!(total.caught > 1000 && total.excused.len() > 20, "{total}");
}

#[test]
fn no_mutation_of_a_pair_of_opencode_goes_unseen() {
    let total = mutate(opencode::AGENT);
    assert_eq!(total.unseen, [""; 0], "{total}");
    assert!(total.caught > 300, "{total}");
}

#[test]
fn every_form_in_which_opencode_stores_a_run_is_that_of_its_events() {
    let pairs = read_pairs_of_all_forms(&folder(opencode::AGENT)).unwrap();
    for pair in &pairs {
        let comparison = pair.compare();
        assert_eq!(comparison.differences, [], "{}", pair.name);
        assert!(
            comparison.verdict() != Verdict::Different && comparison.blocks > 0,
            "{}",
            pair.name
        );
        assert!(pair.replay().holds(), "{}", pair.name);
    }
    let rows = |version: &str| {
        let is_one = |it: &&RecordedPair| it.name.ends_with(&format!("{version} with its rows"));
        pairs.iter().filter(is_one).count()
    };
    assert_eq!((rows("@2.0.15"), rows("crash_text@2.0.15")), (27, 1));
}

#[test]
fn a_merge_that_fails_is_different_and_listed() {
    let pair = pair(claude::AGENT, "text");
    let (mut comparison, mut replayed) = (pair.compare(), pair.replay());
    comparison.add_replay(&replayed);
    assert_eq!(comparison.verdict(), Verdict::Equal);
    replayed.astray.push(3);
    comparison.add_replay(&replayed);
    assert_eq!(comparison.verdict(), Verdict::Different);
    assert_eq!(comparison.differences[0].field, "merge after 3 records");
}

#[test]
fn the_output_of_a_hook_is_compared() {
    let pair = pair(claude::AGENT, "hooks@2.1.239");
    for (field, value) in
        [("stdout", json!("other\n")), ("stderr", json!("other")), ("exitCode", json!(2))]
    {
        let changed = with_lines(
            &pair,
            |path| path.ends_with(".jsonl"),
            |line| {
                if line["attachment"]["type"] == "hook_success" {
                    line["attachment"][field] = value.clone();
                }
                true
            },
        );
        let comparison = changed.compare();
        assert_eq!(comparison.verdict(), Verdict::Different, "{field}");
        let named = comparison.differences.iter().filter(|it| it.field.starts_with("hook "));
        assert!(named.count() > 0, "{field}");
    }
}

/// Changes the export of a pair.
fn with_export(pair: &RecordedPair, change: impl Fn(&mut Value)) -> RecordedPair {
    let mut changed = pair.clone();
    let mut export: Value = serde_json::from_slice(&changed.files[0].1).unwrap();
    change(&mut export);
    changed.files[0].1 = export.to_string().into_bytes();
    changed
}

#[test]
fn an_export_that_lost_a_message_or_a_part_is_different() {
    type IsRemoved = fn(&Value) -> bool;
    let kinds: [(&str, IsRemoved); 3] = [
        ("text", |part| part["type"] == "text" && part["text"] != ""),
        ("tool", |part| part["type"] == "tool"),
        ("any", |_| true),
    ];
    let mut removed = 0;
    for pair in pairs(opencode::AGENT) {
        let Ok(export) = serde_json::from_slice::<Value>(&pair.files[0].1) else { continue };
        let Some(messages) = export["messages"].as_array().filter(|it| !it.is_empty()) else {
            continue;
        };
        if pair.compare().verdict() != Verdict::Equal {
            continue;
        }
        let mut tampered = vec![
            ("all messages", with_export(&pair, |export| export["messages"] = json!([]))),
            (
                "the last message",
                with_export(&pair, |export| {
                    export["messages"].as_array_mut().unwrap().pop();
                }),
            ),
        ];
        for (name, is_kind) in kinds {
            let has = |message: &Value| message["parts"].as_array().unwrap().iter().any(is_kind);
            let Some(last) = messages.iter().rposition(has) else { continue };
            tampered.push((
                name,
                with_export(&pair, |export| {
                    let parts = export["messages"][last]["parts"].as_array_mut().unwrap();
                    let at = parts.iter().rposition(is_kind).unwrap();
                    parts.remove(at);
                }),
            ));
        }
        tampered.push((
            "all texts",
            with_export(&pair, |export| {
                for message in export["messages"].as_array_mut().unwrap() {
                    let parts = message["parts"].as_array_mut().unwrap();
                    parts.retain(|part| part["type"] != "text");
                }
            }),
        ));
        for (what, changed) in tampered {
            if changed.files == pair.files {
                continue;
            }
            let comparison = changed.compare();
            let verdict = comparison.verdict();
            assert_eq!(verdict, Verdict::Different, "{} without {what}", pair.name);
            assert!(!comparison.differences.is_empty(), "{} without {what}", pair.name);
            removed += 1;
        }
    }
    assert!(removed > 150, "{removed}");
}

/// Changes the lines of a file of a pair of Claude Code.
fn with_lines(
    pair: &RecordedPair,
    is_changed: impl Fn(&str) -> bool,
    change: impl Fn(&mut Value) -> bool,
) -> RecordedPair {
    let mut changed = pair.clone();
    for (_, bytes) in changed.files.iter_mut().filter(|(path, _)| is_changed(path)) {
        let mut out = String::new();
        for line in String::from_utf8(bytes.clone()).unwrap().lines() {
            let mut value: Value = serde_json::from_str(line).unwrap();
            if change(&mut value) {
                out += &format!("{value}\n");
            }
        }
        *bytes = out.into_bytes();
    }
    changed
}

#[test]
fn the_result_of_a_subagents_call_is_compared() {
    let mut tried = 0;
    for pair in pairs(claude::AGENT) {
        let is_agent_result =
            |line: &Value| line["toolUseResult"].get("agentId").is_some() && line["type"] == "user";
        for field in ["content", "is_error"] {
            let changed = with_lines(
                &pair,
                |path| path.ends_with(".jsonl"),
                |line| {
                    if is_agent_result(line) {
                        line["message"]["content"][0][field] = match field {
                            "content" => json!("something else"),
                            _ => json!(true),
                        };
                    }
                    true
                },
            );
            let has_results = pair.files.iter().any(|(_, bytes)| {
                String::from_utf8_lossy(bytes).lines().any(|line| {
                    serde_json::from_str(line).is_ok_and(|line: Value| is_agent_result(&line))
                })
            });
            if has_results {
                assert_eq!(
                    changed.compare().verdict(),
                    Verdict::Different,
                    "{} {field}",
                    pair.name
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn one_of_two_forwarded_subagents_that_loses_its_words_is_different() {
    let mut pair = pair(claude::AGENT, "sdk_subagents");
    assert_eq!(pair.compare().verdict(), Verdict::Equal);
    let stream = String::from_utf8(pair.stream.clone()).unwrap();
    let speaker = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let is_text =
            line["message"]["content"][0]["type"] == "text" && line["type"] == "assistant";
        line["parent_tool_use_id"].as_str().filter(|_| is_text).map(str::to_owned)
    };
    let first = stream.lines().find_map(speaker).unwrap();
    let kept = stream.lines().filter(|line| speaker(line).as_ref() != Some(&first));
    pair.stream = kept.map(|line| format!("{line}\n")).collect::<String>().into_bytes();
    let comparison = pair.compare();
    assert_eq!(comparison.verdict(), Verdict::Different);
    assert!(!comparison.lacking.contains_key(&RunGap::SubagentWords));
}

#[test]
fn a_second_prompt_of_a_subagent_is_not_its_opening() {
    let pair = pair(claude::AGENT, "subagent_background_stdin");
    let mut changed = pair.clone();
    let (_, file) = changed
        .files
        .iter_mut()
        .find(|(path, _)| path.contains("agent-") && path.ends_with(".jsonl"))
        .unwrap();
    let text = String::from_utf8(file.clone()).unwrap();
    let opening = text.lines().find(|line| line.contains("\"type\":\"user\"")).unwrap();
    let mut more: Value = serde_json::from_str(opening).unwrap();
    more["uuid"] = json!("00000000-0000-4000-8000-000000000001");
    more["message"]["content"] = json!("Do something else.");
    *file = format!("{text}{more}\n").into_bytes();
    let comparison = changed.compare();
    assert_eq!(comparison.verdict(), Verdict::Different, "{:?}", comparison.explained);
}

#[test]
fn only_a_run_that_was_cut_off_may_lack_its_end() {
    let killed = pair(claude::AGENT, "kill_between_tools@2.1.197");
    let comparison = killed.compare();
    assert_eq!(comparison.verdict(), Verdict::Partial);
    assert!(comparison.lacking.contains_key(&RunGap::FileEndsAtKill));

    let mut ended = killed.clone();
    let result = json!({"type": "result", "subtype": "success", "is_error": false,
        "session_id": "s", "uuid": "00000000-0000-4000-8000-000000000002"});
    ended.stream.extend_from_slice(format!("{result}\n").as_bytes());
    let comparison = ended.compare();
    assert_eq!(comparison.verdict(), Verdict::Different);
    assert!(!comparison.differences.is_empty());
}

//! What Claude Code reports beside the messages is compared with what it belongs to: questions, the
//! context that a command reports, and prompts that waited in the queue.

use serde_json::{Value, json};
use threadfold_fold::parity::Verdict;
use threadfold_testkit::parity_pairs::RecordedPair;

use crate::parity_evidence::{assert_different, pair, with_stream};

fn is_question(line: &Value) -> bool {
    line["type"] == "control_request"
}

/// Changes the lines of a stream that are wanted.
fn with_lines(
    pair: &RecordedPair,
    is_wanted: fn(&Value) -> bool,
    change: impl Fn(&mut Value),
) -> RecordedPair {
    with_stream(pair, |stream| stream.iter_mut().filter(|line| is_wanted(line)).for_each(&change))
}

#[test]
fn a_question_names_the_tool_of_its_call_and_follows_it() {
    let asked = pair("asked_and_allowed@2.1.328");
    assert_eq!(asked.compare().verdict(), Verdict::Equal);
    let other =
        with_lines(&asked, is_question, |line| line["request"]["tool_name"] = json!("Read"));
    assert_different(&other, "with a question about another tool");
    let early = with_stream(&asked, |stream| {
        let question = stream.iter().position(is_question).unwrap();
        let is_call = |line: &Value| line["message"]["content"][0]["type"] == "tool_use";
        let call = stream.iter().position(is_call).unwrap();
        assert!(call < question, "the call precedes the question");
        stream.swap(call, question);
    });
    assert_different(&early, "with a question before its call");
}

#[test]
fn the_context_that_a_command_reports_is_that_of_its_line_in_the_file() {
    let slash = pair("slash_commands@2.1.328");
    let has_context = |line: &Value| line.get("context_usage").is_some();
    let other = with_lines(&slash, has_context, |line| {
        line["context_usage"]["categories"][0]["tokens"] = json!(1);
    });
    assert_different(&other, "with another count in the context");
    let without = with_lines(&slash, has_context, |line| {
        line.as_object_mut().unwrap().remove("context_usage");
    });
    assert_different(&without, "without the context");
}

#[test]
fn a_queued_prompt_is_repeated_as_it_was_delivered() {
    let queued = pair("queued_replay@2.1.328");
    let is_replay = |line: &Value| line["isReplay"] == true;
    for (field, value) in [("session_id", json!("another")), ("timestamp", json!("2026-01-01"))] {
        let other = with_lines(&queued, is_replay, |line| line[field] = value.clone());
        assert_different(&other, field);
    }
    let spoken = with_lines(&queued, is_replay, |line| line["message"]["role"] = json!("system"));
    assert_different(&spoken, "with another role");
}

/// Before 2.1.120 a prompt may stay in the queue of the file; later files have each one as a message.
#[test]
fn a_prompt_that_is_in_the_queue_only_is_different_in_newer_files() {
    let queued = pair("clear@2.1.328");
    let told = with_stream(&queued, |stream| {
        let prompt = json!({
            "type": "user",
            "message": {"role": "user", "content": "[[play:text]] please run"},
            "session_id": stream.last().unwrap()["session_id"].clone(),
            "parent_tool_use_id": null,
            "uuid": "00000000-0000-4000-8000-000000000003",
            "isReplay": true,
        });
        stream.push(prompt);
    });
    assert_different(&told, "with a prompt that the file has in its queue only");
}

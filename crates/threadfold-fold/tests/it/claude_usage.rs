//! The tokens of Claude Code's sessions: those of the stream, of the file, and of the reports.

use std::collections::BTreeMap;

use serde_json::Value;
use threadfold_convert::claude;
use threadfold_core::{ConversationId, TokenUsage};
use threadfold_fold::{Fold, file_records};

use crate::recorded::{Run, empty_fold, push_all, run, runs};

/// Returns the tokens of each message in raw lines: the last count of each.
fn count(lines: &[u8]) -> BTreeMap<String, TokenUsage> {
    let mut counts: BTreeMap<String, TokenUsage> = BTreeMap::new();
    let mut streaming = String::new();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
        let event = &line["event"];
        let (id, usage, is_end) = match (line["type"].as_str(), event["type"].as_str()) {
            (Some("stream_event"), Some("message_start")) => {
                streaming = event["message"]["id"].as_str().unwrap_or_default().to_owned();
                continue;
            }
            (Some("stream_event"), Some("message_delta")) => {
                (streaming.clone(), &event["usage"], true)
            }
            (Some("assistant"), _) if line["message"]["model"] != "<synthetic>" => {
                let id = line["message"]["id"].as_str().unwrap_or_default().to_owned();
                (id, &line["message"]["usage"], false)
            }
            _ => continue,
        };
        let known = counts.entry(id).or_default();
        let number = |name: &str, known: u64| match usage[name].as_u64() {
            // The lines of a message that is still streaming count one token.
            Some(number) if !is_end && name == "output_tokens" => number.max(known),
            Some(number) => number,
            None => known,
        };
        *known = TokenUsage {
            input: number("input_tokens", known.input),
            output: number("output_tokens", known.output),
            cache_read: number("cache_read_input_tokens", known.cache_read),
            cache_creation: number("cache_creation_input_tokens", known.cache_creation),
        };
    }
    counts
}

fn total(counts: &BTreeMap<String, TokenUsage>) -> [u64; 4] {
    let sum = |of: fn(&TokenUsage) -> u64| counts.values().map(of).sum();
    [sum(|it| it.input), sum(|it| it.output), sum(|it| it.cache_read), sum(|it| it.cache_creation)]
}

fn shown_total(usage: TokenUsage) -> [u64; 4] {
    [usage.input, usage.output, usage.cache_read, usage.cache_creation]
}

/// Returns the lines of a stream that report the end of a run.
fn reports(run: &Run) -> Vec<Value> {
    let lines = run.stream.split(|byte| *byte == b'\n');
    let lines = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    lines.filter(|line| line["type"] == "result").collect()
}

/// Returns the sum over the models, in the last report that has any.
fn reported_total(reports: &[Value]) -> Option<[u64; 4]> {
    let models = |it: &Value| it["modelUsage"].as_object().filter(|it| !it.is_empty()).cloned();
    let models = reports.iter().rev().find_map(models)?;
    let fields =
        ["inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];
    Some(fields.map(|field| {
        models.values().map(|it| it[field].as_u64().expect("totals are numbers")).sum()
    }))
}

fn stream_fold(run: &Run) -> Fold {
    let mut fold = empty_fold();
    push_all(&mut fold, run.stream_records());
    fold
}

#[test]
fn the_tokens_of_every_recorded_stream_are_those_of_its_messages_or_those_that_it_reports() {
    for run in runs() {
        let counted = total(&count(&run.stream));
        let reported = reported_total(&reports(&run)).unwrap_or_default();
        let expected: [u64; 4] = std::array::from_fn(|it| counted[it].max(reported[it]));
        let usage = stream_fold(&run).metadata().usage();
        assert_eq!(shown_total(usage), expected, "{}", run.name);
    }
}

#[test]
fn the_tokens_of_a_stream_are_those_of_the_file_and_of_the_result() {
    for name in [
        "text",
        "text@2.1.197",
        "text@2.1.239",
        "text_nopartial",
        "tools_nopartial",
        "parallel_nopartial",
        "tools",
        "parallel",
        "thinking",
        "multi",
        "named_agent",
        "nested",
        "nested_fwd",
        "subagent",
        "subagent_background_stdin",
        "slash2",
    ] {
        let run = run(name);
        let stream = stream_fold(&run);
        let mut files = empty_fold();
        push_all(&mut files, file_records(claude::AGENT, 1, &run.session_files()));
        let usage = stream.metadata().usage();
        assert_eq!(usage, files.metadata().usage(), "{name}");
        assert_eq!(Some(shown_total(usage)), reported_total(&reports(&run)), "{name}");
    }
}

#[test]
fn the_tokens_of_the_main_conversation_are_those_that_its_runs_report() {
    for name in ["text", "text_nopartial", "tools_nopartial", "parallel_nopartial", "named_agent"] {
        let run = run(name);
        let reports = reports(&run);
        let output: u64 =
            reports.iter().map(|it| it["usage"]["output_tokens"].as_u64().unwrap()).sum();
        let usage = stream_fold(&run).metadata().usage_of(&ConversationId::main());
        assert_eq!(usage.output, output, "{name}");
        assert!(output > 1, "{name}");
    }
}

#[test]
fn the_result_of_a_call_has_the_tokens_of_its_subagents_last_message() {
    let run = run("subagent_fwd");
    let mut files = empty_fold();
    push_all(&mut files, file_records(claude::AGENT, 1, &run.session_files()));
    let main = ConversationId::main();
    let of_subagent = |fold: &Fold| -> u64 {
        let all = fold.metadata().usage_by_conversation();
        all.iter().filter(|(name, _)| **name != main).map(|(_, usage)| usage.output).sum()
    };
    let (streamed, stored) = (of_subagent(&stream_fold(&run)), of_subagent(&files));
    assert!(streamed > 2 && streamed <= stored, "{streamed} {stored}");
}

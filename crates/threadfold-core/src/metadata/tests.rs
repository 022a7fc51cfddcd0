//! Session metadata after updates, which are written as short lines.

use insta::assert_snapshot;

use super::*;
use crate::event::{MetadataUpdate, SourceKind};

/// Applies lines of `conversation name value`, or `@ time`, and returns the metadata as JSON.
///
/// An update of `~conversation` comes from a stream, any other from a transcript.
fn apply(lines: &str) -> String {
    let mut metadata = SessionMetadata::default();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        metadata.apply(&event(line));
    }
    serde_json::to_string(&metadata).unwrap()
}

fn event(line: &str) -> SessionEvent {
    if let Some(time) = line.strip_prefix("@ ") {
        let mut event = SessionEvent::new(Payload::SessionIdle(crate::event::EmptyPayload {}));
        event.context.timestamp = Some(time.into());
        return event;
    }
    let [conversation, name, value] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
    let mut metadata = Fields::default();
    metadata.insert(name, Json::parse(value).unwrap());
    let event = SessionEvent::new(Payload::MetadataUpdate(MetadataUpdate { metadata }));
    match conversation.strip_prefix('~') {
        Some(name) => event.within(name).from_source(SourceKind::Stream),
        None => event.within(conversation).from_source(SourceKind::Transcript),
    }
}

#[test]
fn messages_are_stored_in_the_order_in_which_they_were_reported() {
    let usage =
        |id: &str| format!(r#"main usage {{"messageId":"{id}","tokens":{{"input_tokens":1}}}}"#);
    let stored = |ids: &[&str]| {
        let mut metadata = SessionMetadata::default();
        ids.iter().for_each(|id| metadata.apply(&event(&usage(id))));
        let facts = metadata.facts();
        assert_eq!(SessionMetadata::from_facts(&facts).unwrap(), metadata);
        facts.as_str().to_owned()
    };
    let before = stored(&["m9", "m5"]);
    let after = stored(&["m9", "m5", "m1", "m7"]);
    assert!(after.starts_with(before.trim_end_matches("]}")), "{before} and {after}");

    // Snapshots of earlier versions have an object.
    let earlier = r#"{"messages":{"m5":{"conversation":"main","rank":"transcript","tokens":{"inputTokens":1,"outputTokens":2,"cacheReadTokens":0,"cacheCreationTokens":0}}}}"#;
    let read = SessionMetadata::from_facts(&Json::parse(earlier).unwrap()).unwrap();
    assert_eq!((read.usage().input, read.usage().output), (1, 2));
}

#[test]
fn no_events_mean_no_usage() {
    assert_snapshot!(apply(""), @r#"{"usage":{"inputTokens":0,"outputTokens":0,"cacheReadTokens":0,"cacheCreationTokens":0,"conversations":{}}}"#);
}

#[test]
fn the_last_report_of_a_message_is_counted_once() {
    assert_snapshot!(apply(r#"
        main usage {"messageId":"m1","tokens":{"input_tokens":10,"output_tokens":1}}
        main usage {"messageId":"m1","tokens":{"input_tokens":10,"output_tokens":25}}
        main usage {"messageId":"m2","tokens":{"input_tokens":3,"output_tokens":4,"cache_read_input_tokens":100}}
        main usage {"messageId":"m1","tokens":{"input_tokens":10,"output_tokens":7}}
    "#), @r#"{"usage":{"inputTokens":13,"outputTokens":11,"cacheReadTokens":100,"cacheCreationTokens":0,"conversations":{"main":{"inputTokens":13,"outputTokens":11,"cacheReadTokens":100,"cacheCreationTokens":0}}}}"#);
}

#[test]
fn conversations_are_counted_separately_and_in_total() {
    assert_snapshot!(apply(r#"
        main usage {"messageId":"m1","model":"big","tokens":{"input_tokens":1,"output_tokens":2}}
        a7 usage {"messageId":"m2","model":"small","tokens":{"input_tokens":10,"cache_creation_input_tokens":20}}
    "#), @r#"{"model":"big","usage":{"inputTokens":11,"outputTokens":2,"cacheReadTokens":0,"cacheCreationTokens":20,"conversations":{"a7":{"inputTokens":10,"outputTokens":0,"cacheReadTokens":0,"cacheCreationTokens":20},"main":{"inputTokens":1,"outputTokens":2,"cacheReadTokens":0,"cacheCreationTokens":0}}}}"#);
}

#[test]
fn a_copied_message_is_counted_in_its_first_conversation() {
    assert_snapshot!(apply(r#"
        main usage {"messageId":"m1","tokens":{"output_tokens":2}}
        copy usage {"messageId":"m1","tokens":{"output_tokens":2}}
    "#), @r#"{"usage":{"inputTokens":0,"outputTokens":2,"cacheReadTokens":0,"cacheCreationTokens":0,"conversations":{"main":{"inputTokens":0,"outputTokens":2,"cacheReadTokens":0,"cacheCreationTokens":0}}}}"#);
}

#[test]
fn a_stream_does_not_override_the_transcript() {
    assert_snapshot!(apply(r#"
        ~main usage {"messageId":"m1","tokens":{"output_tokens":1}}
        main usage {"messageId":"m1","tokens":{"output_tokens":9}}
        ~main usage {"messageId":"m1","tokens":{"output_tokens":1}}
    "#), @r#"{"usage":{"inputTokens":0,"outputTokens":9,"cacheReadTokens":0,"cacheCreationTokens":0,"conversations":{"main":{"inputTokens":0,"outputTokens":9,"cacheReadTokens":0,"cacheCreationTokens":0}}}}"#);
}

#[test]
fn the_last_session_value_wins() {
    assert_snapshot!(apply(r#"
        main title "First"
        main title "Second"
        main cwd "/home/dev"
        main version "2.1.0"
        main model "one"
        main model "two"
        a7 model "a subagent's"
        main costUsd 0.25
        main costUsd 0.5
    "#), @r#"{"title":"Second","model":"two","cwd":"/home/dev","version":"2.1.0","costUsd":0.5,"usage":{"inputTokens":0,"outputTokens":0,"cacheReadTokens":0,"cacheCreationTokens":0,"conversations":{}}}"#);
}

#[test]
fn times_may_come_in_any_order() {
    assert_snapshot!(apply(r"
        @ 2026-01-02T10:00:00Z
        @ 2026-01-02T10:00:00.250Z
        @ 2026-01-02T09:59:59.999Z
    "), @r#"{"startedAt":"2026-01-02T09:59:59.999Z","endedAt":"2026-01-02T10:00:00.250Z","usage":{"inputTokens":0,"outputTokens":0,"cacheReadTokens":0,"cacheCreationTokens":0,"conversations":{}}}"#);
}

#[test]
fn invalid_values_are_ignored() {
    assert_snapshot!(apply(r#"
        @ zzzz
        @ 9999
        main title 7
        main costUsd "free"
        main costUsd -1
        main costUsd 1e999
        main usage 12
        main usage {"tokens":{"output_tokens":1}}
        main usage {"messageId":"m1","tokens":[1]}
        main usage {"messageId":"m2","tokens":{"input_tokens":null,"output_tokens":-5,"cache_read_input_tokens":1.5}}
        main usage {"messageId":"m3","tokens":{"output_tokens":18446744073709551615}}
        main usage {"messageId":"m4","tokens":{"output_tokens":18446744073709551615}}
        main colour "blue"
    "#), @r#"{"usage":{"inputTokens":0,"outputTokens":18446744073709551615,"cacheReadTokens":0,"cacheCreationTokens":0,"conversations":{"main":{"inputTokens":0,"outputTokens":18446744073709551615,"cacheReadTokens":0,"cacheCreationTokens":0}}}}"#);
}

/// Returns the events that the loop of `conversation` emits for a turn and its answer.
fn turn(conversation: &str, turn: u64, model: &str, usage: &str) -> [SessionEvent; 2] {
    let message = r#"{"role":"assistant","content":[]}"#;
    [
        format!(
            r#"{{"type":"turn:started","payload":{{"turn":{turn},"evaluationId":"e","provider":"p","model":"{model}","prefixHash":"{:064}"}}}}"#,
            0
        ),
        format!(
            r#"{{"type":"turn:answered","payload":{{"turn":{turn},"message":{message},"payload":{{}},"usage":{usage}}}}}"#
        ),
    ]
    .map(|line| SessionEvent::from_json(&line).unwrap().within(conversation))
}

fn used(events: &[SessionEvent]) -> (Option<String>, [u64; 4]) {
    let mut metadata = SessionMetadata::default();
    events.iter().for_each(|event| metadata.apply(event));
    let used = metadata.usage();
    let tokens = [used.input, used.output, used.cache_read, used.cache_creation];
    (metadata.model().map(str::to_owned), tokens)
}

#[test]
fn turns_are_counted_in_every_providers_usage_format() {
    let usages = [
        r#"{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4}"#,
        r#"{"input_tokens":10,"output_tokens":2,"input_tokens_details":{"cached_tokens":7}}"#,
        r#"{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":7}}"#,
        r#"{"prompt_tokens":10,"completion_tokens":2}"#,
        r#""much""#,
        "null",
    ];
    let counted = usages.map(|usage| used(&turn("main", 1, "m", usage)).1);
    let wanted =
        [[1, 2, 3, 4], [3, 2, 7, 0], [3, 2, 7, 0], [10, 2, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]];
    assert_eq!(counted, wanted);
}

#[test]
fn a_turn_is_counted_once_and_the_last_main_model_is_reported() {
    let usage = r#"{"input_tokens":1,"output_tokens":2}"#;
    let events = [
        turn("main", 1, "small", usage),
        turn("main", 1, "small", usage),
        turn("main", 2, "big", usage),
        turn("a7", 1, "other", usage),
    ];
    assert_eq!(used(&events.concat()), (Some("big".to_owned()), [3, 6, 0, 0]));
}

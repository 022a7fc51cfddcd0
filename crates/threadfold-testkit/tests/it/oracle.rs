//! The oracle finds what is lost, altered, doubled or in the wrong conversation.

use std::path::Path;

use threadfold_core::{BlockBody, Content, Json, PartBody, Payload, SessionEvent, Text, fold};
use threadfold_testkit::oracle::{Difference, compare};
use threadfold_testkit::sessions_on_disk::{SessionOnDisk, read_sessions};

/// Returns the recorded sessions below a folder of the converters' tests.
fn recorded(folder: &str) -> Vec<SessionOnDisk> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data");
    let sessions = read_sessions(&data.join(folder)).expect("the recordings are part of the tests");
    assert!(!sessions.is_empty(), "{folder}");
    sessions
}

/// Returns what the oracle finds after `break_event` changed the session's events.
fn broken(
    session: &SessionOnDisk,
    mut break_event: impl FnMut(&mut SessionEvent) -> bool,
) -> Vec<Difference> {
    let mut events = session.events();
    assert_eq!(compare(session, &fold(&events)).1, [], "{}", session.name);
    let mut is_broken = false;
    for event in &mut events {
        is_broken = is_broken || break_event(event);
    }
    assert!(is_broken, "nothing was there to break");
    compare(session, &fold(&events)).1
}

fn upserted(event: &mut SessionEvent) -> Option<&mut BlockBody> {
    match &mut event.payload {
        Payload::BlockUpsert(upsert) => Some(&mut upsert.block.body),
        _ => None,
    }
}

/// Replaces an event by one without a meaning.
fn drop_event(event: &mut SessionEvent) {
    event.payload = Payload::Log(threadfold_core::LogPayload { level: None, message: None });
}

#[test]
fn the_recorded_sessions_match_their_records() {
    let mut total = 0;
    for agent in ["claude", "opencode", "codex"] {
        for session in recorded(agent) {
            let (compared, differences) = compare(&session, &fold(&session.events()));
            total += compared;
            assert_eq!(differences, [], "{}", session.name);
        }
    }
    assert!(total > 1_000, "the oracle compared {total} pieces only");
}

#[test]
fn a_lost_text_is_found() {
    for (run, kind) in [
        ("claude/subagent/transcript", "assistant_text"),
        ("claude/thinking/transcript", "thinking"),
        ("claude/subagent/transcript", "user_message"),
        ("claude/tools/transcript", "tool_use"),
        ("claude/tools/transcript", "tool_result"),
        ("opencode/subagent", "assistant_text"),
        ("opencode/parallel", "tool_result"),
        ("codex/app_sub2/rollout", "assistant_text"),
        ("codex/app_reasoning@0.128.0/rollout", "thinking"),
        ("codex/app_shell/rollout", "tool_use"),
        ("codex/app_shell/rollout", "tool_result"),
        ("codex/app_steer@0.128.0/rollout", "user_message"),
    ] {
        let found = broken(&recorded(run)[0], |event| {
            let is_wanted = upserted(event).is_some_and(|body| body.kind() == kind);
            if is_wanted {
                drop_event(event);
            }
            is_wanted
        });
        assert!(found.iter().any(|it| matches!(it, Difference::Missing(_))), "{run} {kind}");
    }
}

#[test]
fn altered_words_and_outputs_are_found() {
    let alter: [fn(&mut BlockBody) -> bool; 5] = [
        |body| match body {
            BlockBody::AssistantText(it) => {
                it.content = Text::from(format!("{} ", it.content).as_str());
                true
            }
            _ => false,
        },
        |body| match body {
            BlockBody::ToolResult(it) => {
                it.output = Some(Json::string("other"));
                true
            }
            _ => false,
        },
        |body| match body {
            BlockBody::ToolResult(it) => {
                it.is_error = !it.is_error;
                true
            }
            _ => false,
        },
        |body| match body {
            BlockBody::ToolUse(it) => {
                it.input = Some(Json::string("other"));
                true
            }
            _ => false,
        },
        |body| match body {
            BlockBody::UserMessage(it) => {
                it.content = Content::from("other");
                true
            }
            _ => false,
        },
    ];
    for (number, alter) in alter.iter().enumerate() {
        let session = &recorded("claude/tools/transcript")[0];
        let found = broken(session, |event| upserted(event).is_some_and(alter));
        assert_ne!(found, [], "alteration {number}");
    }
}

#[test]
fn the_altered_output_of_a_subagent_that_a_message_ran_again_is_found() {
    let session = &recorded("claude/named_agent/transcript")[0];
    let mut events = session.events();
    assert_eq!(compare(session, &fold(&events)).1, []);
    // The file reports the end of a run in its queue and again where the model reads it.
    for event in &mut events {
        match &mut event.payload {
            Payload::SubagentCompleted(it)
                if it.tool_use_id.as_str() == "toolu_bf7401b0c0c47dc183d12cc6" =>
            {
                assert_eq!(it.output, Some(Json::string("Counted again: still 3.")));
                it.output = Some(Json::string("other"));
            }
            _ => {}
        }
    }
    let found = compare(session, &fold(&events)).1;
    assert!(matches!(&found[..], [Difference::Missing(_), Difference::Surplus(_)]), "{found:?}");
}

#[test]
fn a_block_that_stands_twice_is_found() {
    let session = &recorded("claude/tools/transcript")[0];
    let mut events = session.events();
    let mut copy = events
        .iter()
        .find(|event| {
            let Payload::BlockUpsert(upsert) = &event.payload else { return false };
            upsert.block.body.kind() == "assistant_text"
        })
        .expect("a text")
        .clone();
    if let Payload::BlockUpsert(upsert) = &mut copy.payload {
        upsert.block.id = "copy".into();
    }
    events.push(copy);
    let found = compare(session, &fold(&events)).1;
    assert!(matches!(found[..], [Difference::Surplus(_)]), "{found:?}");
}

#[test]
fn a_block_in_another_conversation_is_found() {
    for run in ["claude/subagent/transcript", "claude/subagent_taskname@1.0.128/transcript"] {
        let found = broken(&recorded(run)[0], |event| {
            let is_inside = event.context.conversation_id.as_str() != "main";
            let is_text = upserted(event).is_some_and(|body| body.kind() == "assistant_text");
            if is_inside && is_text {
                event.context.conversation_id = "main".into();
            }
            is_inside && is_text
        });
        assert_eq!(found.len(), 2, "missing in one, surplus in the other: {found:?}");
    }
}

#[test]
fn a_lost_picture_is_found() {
    let line = r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}}"#;
    let session = SessionOnDisk {
        agent: threadfold_convert::claude::AGENT,
        name: "s.jsonl".to_owned(),
        files: vec![("s.jsonl".to_owned(), format!("{line}\n").into_bytes())],
        is_stream: false,
        root: None,
    };
    let found = broken(&session, |event| match upserted(event) {
        Some(BlockBody::UserMessage(it)) => {
            if let Content::Parts(parts) = &mut it.content {
                parts.retain(|part| !matches!(part.body, PartBody::Image(_)));
            }
            true
        }
        _ => false,
    });
    assert!(
        matches!(&found[..], [Difference::Missing(piece)] if piece.kind == "image"),
        "{found:?}"
    );
}

//! The wire format of events and blocks: exact names, no loss.

use insta::assert_snapshot;
use threadfold_core::{
    Anomaly, Block, BlockBody, BlockStatus, ConversationMessage, ConversationState, Json, Outcome,
    Payload, SessionEvent,
};

/// One event of each type, with all fields in serialization order.
const PAYLOADS: &[(&str, &str)] = &[
    (
        "block:upsert",
        r#"{"block":{"id":"a","type":"thinking","status":"complete","conversationId":"main","content":"Hm"},"after":"b","replaces":"c","preview":true}"#,
    ),
    ("block:delta", r#"{"blockId":"a","delta":"lo","field":"input","offset":3}"#),
    ("block:remove", r#"{"blockId":"a","reason":"abandoned"}"#),
    ("context:changed", r#"{"kind":"compaction","head":"a","summary":"so far"}"#),
    (
        "subagent:spawned",
        r#"{"toolUseId":"c","agentId":"A","subagentId":"S","prompt":"look","subagentType":"x","description":"d","background":true}"#,
    ),
    (
        "subagent:completed",
        r#"{"toolUseId":"c","agentId":"A","subagentId":"S","status":"completed","output":["o"],"durationMs":7}"#,
    ),
    ("subagent:marked", r#"{"internal":true}"#),
    ("session:idle", "{}"),
    ("metadata:update", r#"{"metadata":{"title":"t","cost":0.10}}"#),
    ("query:started", r#"{"message":"hi"}"#),
    ("query:completed", r#"{"durationMs":7}"#),
    ("query:failed", r#"{"error":{"code":1}}"#),
    ("ee:creating", r#"{"status":"making","error":"none"}"#),
    ("ee:ready", r#"{"status":"up"}"#),
    ("ee:terminated", r#"{"status":"gone"}"#),
    ("ee:error", r#"{"error":"broken"}"#),
    ("ee:health_check", r#"{"status":"well"}"#),
    ("file:created", r#"{"path":"a.txt","content":{"blob":"b"}}"#),
    ("file:modified", r#"{"path":"a.txt","content":{"blob":"b"}}"#),
    ("file:deleted", r#"{"path":"a.txt"}"#),
    ("transcript:changed", r#"{"file":"f.jsonl","position":12}"#),
    ("transcript:written", r#"{"file":"f.jsonl","position":12}"#),
    (
        "permission:requested",
        r#"{"requestId":"q","toolUseId":"c","question":"may I?","options":["yes","no"]}"#,
    ),
    ("permission:resolved", r#"{"requestId":"q","answer":"yes"}"#),
    ("log", r#"{"level":"info","message":"m"}"#),
    ("error", r#"{"message":"m","code":500}"#),
    ("options:update", r#"{"options":{"model":"m"}}"#),
    ("session:initialized", "{}"),
    ("session:ended", r#"{"reason":"done"}"#),
    (
        "turn:started",
        r#"{"turn":1,"evaluationId":"e","provider":"anthropic","model":"m","promptNamespace":"n","promptKey":"k","system":"be kind","tools":[{"name":"Bash"}],"parameters":{"max_tokens":1e3},"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"prefixHash":"00"}"#,
    ),
    (
        "turn:answered",
        r#"{"turn":1,"message":{"role":"assistant","toolCalls":[{"callId":"c","name":"Bash","arguments":"{ \"a\":1"}]},"payload":{"b":1,"a":[1.0]},"usage":{"input_tokens":1},"stopReason":"tool_use"}"#,
    ),
    ("turn:completed", r#"{"turn":1}"#),
    (
        "tool:requested",
        r#"{"turn":1,"callId":"c","ordinal":0,"key":"k","name":"Bash","arguments":"{}"}"#,
    ),
    ("tool:started", r#"{"callId":"c","key":"k","attempt":1,"effect":"unsafe"}"#),
    (
        "tool:finished",
        r#"{"callId":"c","attempt":1,"result":{"role":"tool","toolCallId":"c"},"isError":true,"durationMs":7,"source":"tool"}"#,
    ),
    ("tool:failed", r#"{"callId":"c","attempt":1,"error":{"code":1}}"#),
    ("tool:unknown", r#"{"callId":"c","attempt":1,"reason":"the process ended"}"#),
    ("checkpoint:saved", r#"{"checkpointId":"p","seq":9}"#),
];

const CONTEXT: &str = r#"{"sessionId":"s","conversationId":"A","timestamp":"2026-01-15T09:30:00Z","source":{"id":"i","agent":"claude","kind":"transcript","position":{"byte":1}},"seq":4,"v":1}"#;

/// The fields of each block type, besides the common ones.
const BODIES: &[(&str, &str)] = &[
    (
        "user_message",
        r#""content":[{"type":"text","text":"t"},{"type":"image","mediaType":"image/png","data":"AA==","url":"u"},{"type":"file","name":"n","mediaType":"m","data":"AA==","url":"u"}]"#,
    ),
    ("assistant_text", r#""content":"t","model":"m""#),
    ("thinking", r#""content":"t","signature":"s","redacted":true"#),
    (
        "tool_use",
        r#""toolName":"Bash","toolUseId":"c","input":{"b":1,"a":2},"inputText":"{","displayName":"D","description":"d""#,
    ),
    ("tool_result", r#""toolUseId":"c","output":[1],"isError":true,"durationMs":7"#),
    (
        "subagent",
        r#""toolUseId":"c","agentId":"A","name":"x","description":"d","input":"i","output":"o","durationMs":7"#,
    ),
    (
        "permission",
        r#""requestId":"q","toolUseId":"c","question":"?","options":["y"],"answer":"y""#,
    ),
    ("system", r#""subtype":"hook","message":"m""#),
    ("skill_load", r#""skillName":"s","content":"t""#),
    ("error", r#""message":"m","code":"c""#),
    ("unknown", r#""record":{"any":[1,{"thing":null}]}"#),
];

fn block(kind: &str, body: &str) -> String {
    format!(
        r#"{{"id":"b","type":"{kind}","timestamp":"2026-01-15T09:30:00Z","status":"error","conversationId":"A","interrupted":true,"inactive":true,"messageId":"m","parent":"p",{body},"metadata":{{"k":[1]}},"raw":{{"line":1}},"new":{{"field":1}}}}"#
    )
}

fn assert_event_survives(text: &str) -> SessionEvent {
    let event = SessionEvent::from_json(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(serde_json::to_string(&event).unwrap(), text);
    event
}

fn assert_block_survives(text: &str) -> Block {
    let block = Block::from_json(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(serde_json::to_string(&block).unwrap(), text);
    block
}

/// A message with all fields in serialization order.
const MESSAGE: &str = r#"{"role":"assistant","content":[{"type":"text","text":"t","new":1},{"type":"image","mediaType":"image/png","data":"AA==","url":"u"},{"type":"thinking","text":"hm","signature":"s"},{"type":"native","provider":"openai","item":{ "z":1e400,"a":"\ud800" }},{"type":"hologram","of":{"z":1,"a":2}}],"toolCalls":[{"callId":"c","name":"Bash","arguments":"{ not json","new":[1.0]}],"toolCallId":"d","name":"n","isError":true,"createdAt":"2026-01-15T09:30:00Z","messageId":"m","new":{"z":1,"a":2}}"#;

const PAGE: &str = include_str!("../../../../docs/reference/events.md");

/// Checks that a table of the page has a row for `kind` that names all fields of `sample`.
fn assert_on_page(heading: &str, kind: &str, sample: &str) {
    let section = PAGE.split("\n## ").find(|it| it.starts_with(heading)).unwrap();
    let line = section.lines().find(|line| line.starts_with(&format!("| `{kind}` |")));
    let line = line.unwrap_or_else(|| panic!("`{kind}` is not under `{heading}`"));
    let sample: serde_json::Map<String, serde_json::Value> = serde_json::from_str(sample).unwrap();
    for field in sample.keys() {
        let named = [format!("`{field}`"), format!("`{field}?`")];
        assert!(
            named.iter().any(|it| line.contains(it)),
            "`{field}` of `{kind}` is not documented"
        );
    }
}

#[test]
fn the_events_of_a_conversation_are_those_that_go_there() {
    // The last column of the table; a conversation's events may go elsewhere as well.
    let goes_there = |kind: &&&str| {
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{kind}` |"))).unwrap();
        row.trim_end_matches(" |").rsplit('|').next().unwrap().contains("conversation")
    };
    let documented: Vec<_> = Payload::KINDS.iter().filter(goes_there).copied().collect();
    assert_eq!(documented, Payload::CONVERSATION_KINDS);
}

#[test]
fn every_type_and_field_is_documented() {
    let names = |samples: &[(&'static str, &str)]| -> Vec<_> {
        samples.iter().map(|(kind, _)| *kind).collect()
    };
    assert_eq!(names(PAYLOADS), Payload::KINDS);
    assert_eq!(names(BODIES), BlockBody::KINDS);
    for (kind, payload) in PAYLOADS {
        assert_on_page("Events", kind, payload);
    }
    for (kind, body) in BODIES {
        assert_on_page("Blocks", kind, &format!("{{{body}}}"));
    }
}

#[test]
fn every_event_survives_a_round_trip() {
    for (kind, payload) in PAYLOADS {
        let event = assert_event_survives(&format!(
            r#"{{"type":"{kind}","payload":{payload},"context":{CONTEXT}}}"#
        ));
        assert_eq!(event.payload.kind(), *kind);
        assert!(!matches!(event.payload, Payload::Unknown(_)), "{kind} is known");
    }
}

#[test]
fn every_block_survives_a_round_trip() {
    for (kind, body) in BODIES {
        let block = assert_block_survives(&block(kind, body));
        assert_eq!(block.body.kind(), *kind);
        assert!(!matches!(block.body, BlockBody::Other(_)), "{kind} is known");
    }
}

#[test]
fn every_message_survives_a_round_trip() {
    let message = ConversationMessage::from_json(MESSAGE).unwrap();
    assert_eq!(serde_json::to_string(&message).unwrap(), MESSAGE);
    let fields: std::collections::BTreeMap<String, Json> = serde_json::from_str(MESSAGE).unwrap();
    for field in fields.keys().filter(|field| *field != "new") {
        let named = [format!("| `{field}` |"), format!("| `{field}?` |")];
        assert!(named.iter().any(|it| PAGE.contains(it)), "`{field}` is not documented");
    }
}

#[test]
fn every_status_reason_and_kind_survives_a_round_trip() {
    for status in ["pending", "complete", "error"] {
        assert_block_survives(&format!(
            r#"{{"id":"b","type":"error","status":"{status}","conversationId":"main","message":""}}"#
        ));
    }
    for status in ["pending", "running", "success", "error"] {
        assert_block_survives(&format!(
            r#"{{"id":"b","type":"subagent","status":"{status}","conversationId":"main","name":""}}"#
        ));
    }
    let event = |kind: &str, payload: &str| {
        assert_event_survives(&format!(
            r#"{{"type":"{kind}","payload":{payload},"context":{{"conversationId":"main"}}}}"#
        ));
    };
    for reason in ["abandoned", "superseded", "deleted"] {
        event("block:remove", &format!(r#"{{"blockId":"a","reason":"{reason}"}}"#));
    }
    for kind in ["rewind", "edit", "revert", "compaction", "reset"] {
        event("context:changed", &format!(r#"{{"kind":"{kind}"}}"#));
    }
    for status in ["completed", "error"] {
        event("subagent:completed", &format!(r#"{{"toolUseId":"c","status":"{status}"}}"#));
    }
    for effect in ["pure", "idempotent", "probe", "compensable", "unsafe"] {
        let payload = format!(r#"{{"callId":"c","key":"k","attempt":1,"effect":"{effect}"}}"#);
        event("tool:started", &payload);
    }
    for (source, role) in
        [("tool", "tool"), ("person", "user"), ("probe", "system"), ("repair", "assistant")]
    {
        let payload = format!(
            r#"{{"callId":"c","attempt":1,"result":{{"role":"{role}"}},"source":"{source}"}}"#
        );
        event("tool:finished", &payload);
    }
    for kind in ["stream", "transcript", "server", "loop"] {
        assert_event_survives(&format!(
            r#"{{"type":"log","payload":{{}},"context":{{"conversationId":"main","source":{{"kind":"{kind}"}}}}}}"#
        ));
    }
}

#[test]
fn first_after_and_unspecified_are_distinct_placements() {
    for after in [r#","after":null"#, r#","after":"x""#, ""] {
        assert_event_survives(&format!(
            r#"{{"type":"block:upsert","payload":{{"block":{{"id":"a","type":"thinking","status":"complete","conversationId":"main","content":""}}{after}}},"context":{{"conversationId":"main"}}}}"#
        ));
    }
}

#[test]
fn an_event_of_an_unknown_type_survives() {
    for payload in
        [r#""payload":{"z":1e400,"a":[]},"#, r#""payload":[1,2],"#, r#""payload":"x","#, ""]
    {
        let event = assert_event_survives(&format!(
            r#"{{"type":"new:thing",{payload}"context":{{"conversationId":"main"}},"beside":true}}"#
        ));
        let mut state = ConversationState::default();
        assert!(matches!(state.apply(&event), Outcome::Ignored(_)));
    }
}

#[test]
fn unknown_fields_survive_at_every_level() {
    assert_event_survives(
        r#"{"type":"block:upsert","payload":{"block":{"id":"a","type":"user_message","status":"complete","conversationId":"main","content":[{"type":"text","text":"t","inPart":1},{"type":"hologram","of":{"z":1,"a":2}}],"inBlock":{"z":1,"a":2}},"inPayload":[1e400]},"context":{"conversationId":"main","source":{"kind":"stream","inSource":1.0},"inContext":-0},"inEvent":null}"#,
    );
}

#[test]
fn unknown_fields_of_every_event_survive() {
    for (kind, payload) in PAYLOADS {
        let separator = if *payload == "{}" { "" } else { "," };
        let payload = payload.strip_suffix('}').unwrap();
        assert_event_survives(&format!(
            r#"{{"type":"{kind}","payload":{payload}{separator}"new":{{"z":1,"a":2}}}},"context":{CONTEXT}}}"#
        ));
    }
}

#[test]
fn a_block_of_an_unknown_type_survives_and_folds() {
    let block = block("hologram", r#""of":{"z":1,"a":2}"#)
        .replace(r#""metadata":{"k":[1]},"raw":{"line":1},"#, "");
    assert_block_survives(&block);
    let event = SessionEvent::from_json(&format!(
        r#"{{"type":"block:upsert","payload":{{"block":{block}}},"context":{{"conversationId":"A"}}}}"#
    ))
    .unwrap();
    let state = threadfold_core::fold([&event]);
    assert!(serde_json::to_string(&state).unwrap().contains(r#""type":"hologram""#));
    assert!(serde_json::to_string(&state).unwrap().contains(r#""of":{"z":1,"a":2}"#));
}

#[test]
fn a_tools_input_is_preserved_verbatim() {
    let deep = format!("{}{}", "[{\"k\":".repeat(50_000), "0") + &"}]".repeat(50_000);
    for input in [
        "1e400",
        "-0.0",
        "12345678901234567890123456789",
        r#"{"k":1,"k":2,"a":{"k":3,"k":4}}"#,
        r#""\ud800 \u0041 \/""#,
        "[ 1 ,  2 ]",
        &deep,
    ] {
        let event = assert_event_survives(&format!(
            r#"{{"type":"block:upsert","payload":{{"block":{{"id":"c","type":"tool_use","status":"pending","conversationId":"main","toolName":"T","toolUseId":"c","input":{input}}}}},"context":{{"conversationId":"main"}}}}"#
        ));
        let mut state = ConversationState::default();
        let mut changes = Vec::new();
        assert_eq!(state.apply_with(&event, &mut changes), Outcome::Applied);
        assert!(serde_json::to_string(&state).unwrap().contains(input));
        assert_eq!(
            state.hash(),
            threadfold_core::apply_changes(&ConversationState::default(), &changes).hash()
        );
        assert_eq!(state.apply(&event), Outcome::Unchanged);
        let snapshot = serde_json::to_string(&state.snapshot()).unwrap();
        let back = ConversationState::restore(&serde_json::from_str(&snapshot).unwrap()).unwrap();
        assert_eq!(back.hash(), state.hash());
    }
}

#[test]
fn json_equality_ignores_key_order_and_white_space() {
    let json = |text: &str| Json::parse(text).unwrap();
    assert_eq!(json(r#"{"a":1,"b":[1, 2]}"#), json(r#"{ "b":[1,2], "a":1 }"#));
    assert_ne!(json("1.0"), json("1"));
    assert_ne!(json(r#"{"a":1,"a":2}"#), json(r#"{"a":2,"a":1}"#));
}

#[test]
fn absent_fields_default_to_the_main_conversation_and_no_flags() {
    let short = r#"{"type":"block:upsert","payload":{"block":{"id":"a","type":"thinking","status":"complete","content":"","redacted":false,"metadata":null,"model":null}}}"#;
    let event = SessionEvent::from_json(short).unwrap();
    assert_snapshot!(serde_json::to_string(&event).unwrap(), @r#"{"type":"block:upsert","payload":{"block":{"id":"a","type":"thinking","status":"complete","conversationId":"main","content":"","model":null}},"context":{"conversationId":"main"}}"#);
}

#[test]
fn decode_errors_name_the_path() {
    let upsert =
        |block: &str| format!(r#"{{"type":"block:upsert","payload":{{"block":{block}}}}}"#);
    let long = format!(r#"{{"type":"log","payload":"{}"}}"#, "x".repeat(100));
    let wrong = [
        "".to_owned(),
        "{\"type\":\"log\"".to_owned(),
        "{\"type\":\"log\"} {}".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        r#"{"type":7}"#.to_owned(),
        r#"{"type":"block:delta","payload":{"delta":"x"}}"#.to_owned(),
        r#"{"type":"block:delta","payload":{"blockId":"a","delta":"x","offset":-1}}"#.to_owned(),
        r#"{"type":"block:remove","payload":{"blockId":"a","reason":"bored"}}"#.to_owned(),
        r#"{"type":"block:remove"}"#.to_owned(),
        r#"{"type":"log","context":{"source":{"kind":"rumour"}}}"#.to_owned(),
        r#"{"type":"log","context":{"conversationId":5}}"#.to_owned(),
        upsert(r#"{"id":"a","type":"thinking","status":"running","content":""}"#),
        upsert(r#"{"id":"a","type":"subagent","status":"complete","name":""}"#),
        upsert(r#"{"id":"a","type":"thinking","status":"done","content":""}"#),
        upsert(r#"{"id":"a","type":"user_message","status":"complete","content":[{"text":"t"}]}"#),
        upsert(r#"{"id":"a","type":"user_message","status":"complete","content":5}"#),
        upsert(r#"{"type":"thinking","status":"complete","content":""}"#),
        upsert(
            r#"{"id":"a","type":"thinking","status":"complete","content":"","interrupted":"yes"}"#,
        ),
        long,
    ];
    let errors: Vec<_> =
        wrong.iter().map(|text| SessionEvent::from_json(text).unwrap_err().to_string()).collect();
    assert_snapshot!(errors.join("\n"), @r#"
    expected one JSON object, found text that is not JSON (EOF while parsing a value at column 0)
    expected one JSON object, found text that is not JSON (EOF while parsing an object at column 13)
    expected one JSON object, found text that is not JSON (trailing characters at column 16)
    expected an object, found `[]`
    `type`: expected a string, found nothing
    `type`: expected a string, found `7`
    `payload.blockId`: expected a block's id (a string), found nothing
    `payload.offset`: expected a non-negative integer, found `-1`
    `payload.reason`: expected a reason: `abandoned`, `superseded` or `deleted`, found `"bored"`
    `blockId`: expected a block's id (a string), found nothing
    `context.source.kind`: expected a kind of source: `stream`, `transcript`, `server` or `loop`, found `"rumour"`
    `context.conversationId`: expected a conversation's id (a string), found `5`
    `payload.block.status`: expected `pending`, `complete` or `error`, found `"running"`
    `payload.block.status`: expected `pending`, `running`, `success` or `error` for a subagent, found `"complete"`
    `payload.block.status`: expected a status: `pending`, `running`, `complete`, `success` or `error`, found `"done"`
    `payload.block.content.0.type`: expected a string, found nothing
    `payload.block.content`: expected text, or a list of parts, found `5`
    `payload.block.id`: expected a block's id (a string), found nothing
    `payload.block.interrupted`: expected `true` or `false`, found `"yes"`
    `payload`: expected an object, found `"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`
    "#);
}

#[test]
fn flat_events_go_where_they_name_and_nowhere_else() {
    let flat = [
        r#"{"type":"block:upsert","conversationId":"A","block":{"id":"b","type":"assistant_text","status":"pending","content":"Hel"}}"#,
        r#"{"type":"block:delta","conversationId":"A","blockId":"b","delta":"lo"}"#,
        r#"{"type":"block:upsert","block":{"id":"c","type":"assistant_text","status":"pending","content":"x","conversationId":"A"}}"#,
        r#"{"type":"block:upsert","block":{"id":"m","type":"assistant_text","status":"pending","content":"main"}}"#,
    ];
    let mut state = ConversationState::default();
    for line in flat {
        let event = SessionEvent::from_json(line).unwrap();
        assert_eq!(state.apply(&event), Outcome::Applied, "{line}");
    }
    let before = state.blocks().get(0).unwrap().into_owned();
    // The three ways to name the conversation of an event.
    for idle in [
        r#"{"type":"session:idle","conversationId":"A"}"#,
        r#"{"type":"session:idle","payload":{},"conversationId":"A"}"#,
        r#"{"type":"session:idle","conversationId":"A","context":{"sessionId":"s"}}"#,
    ] {
        let event = SessionEvent::from_json(idle).unwrap();
        assert_eq!(event.context.conversation_id.as_str(), "A", "{idle}");
        drop(state.apply(&event));
    }
    assert_eq!(*state.blocks().get(0).unwrap(), before, "main is still open");
    let subagents = state.subagents();
    let inside: Vec<_> = subagents[0].blocks().iter().map(|it| it.status).collect();
    assert_eq!(inside, [BlockStatus::Complete, BlockStatus::Complete]);
    // A conversation that nobody knows is reported, and `main` is left alone.
    let lost = SessionEvent::from_json(r#"{"type":"session:idle","conversationId":"B"}"#).unwrap();
    assert!(matches!(state.apply(&lost), Outcome::Ignored(Anomaly::UnknownConversation { .. })));
}

#[test]
fn a_flat_event_keeps_its_unknown_fields_and_becomes_an_envelope() {
    let line = r#"{"type":"subagent:spawned","conversationId":"main","timestamp":"2026-01-01T00:00:00Z","sessionId":"s","toolUseId":"c","prompt":"look","colour":"red"}"#;
    let event = SessionEvent::from_json(line).unwrap();
    assert_eq!(
        serde_json::to_string(&event).unwrap(),
        r#"{"type":"subagent:spawned","payload":{"toolUseId":"c","prompt":"look"},"context":{"sessionId":"s","conversationId":"main","timestamp":"2026-01-01T00:00:00Z"},"colour":"red"}"#
    );
}

//! How the work grows: ten times the input costs at most twelve times the work.
//!
//! The work is counted, not timed: every block and turn that is looked at counts, every spilled block
//! that is read back, and every event. Closed blocks are spilled, as the program does.

use std::sync::Arc;

use threadfold_core::work::visits;
use threadfold_fold::{Agent, Cutter, Fold, Record, RecordKind, Slices, SourceRole, SourceSpec};
use threadfold_testkit::spill_store::MemorySpillStore;

const SMALL: usize = 400;
/// For shapes whose cost per line shows only when there are many.
const LARGE: usize = 4_000;
const FACTOR: usize = 10;
/// How many bytes of a state stay in memory: so few that the smaller input is spilled as well.
const BUDGET: usize = 256 << 10;
/// Ten, and a fifth more for what grows with a logarithm.
const MOST: u64 = 12;

/// Folds lines of a format, and returns the work that it took.
fn work(spec: &SourceSpec, lines: &str) -> u64 {
    let before = visits();
    let store = Arc::new(MemorySpillStore::default());
    let mut fold = Fold::new("s".into(), Slices::default()).spill_to(store, BUDGET);
    let mut records = vec![Record::new(RecordKind::Source, 1, 0, spec.to_json())];
    let mut cutter = Cutter::new(1);
    cutter.push(lines.as_bytes(), &mut records);
    cutter.finish(&mut records);
    let mut events = 0;
    for (record, seq) in records.into_iter().zip(1..) {
        events += fold.push(&record.at(seq)).events.len() as u64;
    }
    assert!(events > 0, "nothing was understood: {}", &lines[..lines.len().min(200)]);
    assert!(!fold.settled().blocks().is_empty() || !fold.settled().subagents().is_empty());
    visits() - before + events
}

/// Holds a shape to the bound, in one format.
fn check(name: &str, spec: &SourceSpec, shape: impl Fn(usize) -> String) {
    check_from(SMALL, name, spec, shape);
}

/// Holds a shape to the bound, from so many lines on.
fn check_from(count: usize, name: &str, spec: &SourceSpec, shape: impl Fn(usize) -> String) {
    let lines = |count: usize| (0..count).map(|number| shape(number) + "\n").collect::<String>();
    let (small, large) = (work(spec, &lines(count)), work(spec, &lines(count * FACTOR)));
    assert!(large <= small * MOST, "{name}: {small} and {large} with {FACTOR} times the input");
}

fn agent(name: &str) -> Agent {
    Agent::all().find(|it| it.name() == name).expect("a known agent")
}

fn transcript() -> SourceSpec {
    SourceSpec::new(agent("claude"), SourceRole::Main, "s.jsonl")
}

fn stream() -> SourceSpec {
    SourceSpec::new(agent("claude"), SourceRole::Stream, "stream")
}

fn bus() -> SourceSpec {
    SourceSpec::new(agent("opencode"), SourceRole::Stream, "bus")
}

fn events() -> SourceSpec {
    SourceSpec::of_events("events")
}

/// Returns a line of a session file; `parent` is the line above.
fn line(kind: &str, number: usize, parent: Option<usize>, content: &str) -> String {
    let parent = parent.map_or("null".to_owned(), |it| format!("\"u{it}\""));
    let id = format!(r#""id":"m{number}","#);
    let id = if kind == "assistant" { id.as_str() } else { "" };
    format!(
        r#"{{"type":"{kind}","uuid":"u{number}","parentUuid":{parent},"sessionId":"s","message":{{{id}"role":"{kind}","content":{content}}}}}"#
    )
}

fn upsert(id: &str, conversation: &str, more: &str) -> String {
    format!(
        r#"{{"type":"block:upsert","context":{{"conversationId":"{conversation}"}},"payload":{{"block":{{"id":"{id}","type":"assistant_text","content":"a","status":"complete"}}{more}}}}}"#
    )
}

#[test]
fn prompts_that_continue_each_other() {
    check("a chain of prompts", &transcript(), |number| {
        line("user", number, number.checked_sub(1), "\"hi\"")
    });
}

#[test]
fn prompts_that_all_hang_below_one_line() {
    check("prompts below one line", &transcript(), |number| {
        line("user", number, (number > 0).then_some(0), "\"hi\"")
    });
}

#[test]
fn prompts_that_hang_below_one_line_with_answers() {
    check("prompts below one line, answered", &transcript(), |number| match number % 2 {
        0 => line("user", number, (number > 0).then_some(0), "\"hi\""),
        _ => line("assistant", number, Some(number - 1), r#"[{"type":"text","text":"yes"}]"#),
    });
}

#[test]
fn answers_of_the_first_turn_that_come_late() {
    check("late answers of the first turn", &transcript(), |number| match number % 2 {
        0 => line("user", number, number.checked_sub(2), "\"hi\""),
        _ => line("assistant", number, Some(0), r#"[{"type":"text","text":"late"}]"#),
    });
}

#[test]
fn calls_that_are_all_answered_at_the_end() {
    check("calls and results", &transcript(), |number| {
        let call = number / 2;
        match number % 2 {
            0 => line(
                "assistant",
                number,
                number.checked_sub(1),
                &format!(r#"[{{"type":"tool_use","id":"t{call}","name":"Read","input":{{}}}}]"#),
            ),
            _ => line(
                "user",
                number,
                Some(number - 1),
                &format!(r#"[{{"type":"tool_result","tool_use_id":"t{call}","content":"ok"}}]"#),
            ),
        }
    });
}

#[test]
fn calls_of_subagents_that_all_have_one_prompt() {
    // Calls without a result beyond 256 are spilled, so a few hundred do not show what they cost.
    check_from(LARGE, "calls of subagents", &transcript(), |number| {
        let call = format!(
            r#"[{{"type":"tool_use","id":"t{number}","name":"Task","input":{{"prompt":"p"}}}}]"#
        );
        line("assistant", number, number.checked_sub(1), &call)
    });
}

#[test]
fn subagents_that_only_began() {
    check_from(LARGE, "spawned subagents", &events(), |number| {
        format!(r#"{{"type":"subagent:spawned","payload":{{"toolUseId":"t{number}"}}}}"#)
    });
    check_from(LARGE, "tasks of a stream", &stream(), |number| {
        format!(
            r#"{{"type":"system","subtype":"task_started","session_id":"s","uuid":"u{number}","task_id":"k{number}","tool_use_id":"t{number}","task_type":"local_agent","description":"d"}}"#
        )
    });
}

#[test]
fn a_call_that_is_repeated_in_other_words() {
    check_from(LARGE, "a call with other inputs", &transcript(), |number| match number {
        0 => line("user", 0, None, "\"hi\""),
        _ => {
            let call = format!(
                r#"[{{"type":"tool_use","id":"t","name":"Read","input":{{"n":{number}}}}}]"#
            );
            line("assistant", number, Some(0), &call)
        }
    });
}

#[test]
fn a_result_that_is_repeated_in_other_words() {
    check_from(LARGE, "a result with other outputs", &transcript(), |number| match number {
        0 => line("user", 0, None, "\"hi\""),
        1 => {
            let call = r#"[{"type":"tool_use","id":"t","name":"Read","input":{}}]"#;
            line("assistant", 1, Some(0), call)
        }
        _ => {
            let result =
                format!(r#"[{{"type":"tool_result","tool_use_id":"t","content":"{number}"}}]"#);
            line("user", number, Some(1), &result)
        }
    });
}

#[test]
fn compactions_one_after_another() {
    check("compactions", &transcript(), |number| match number % 3 {
        0 => line("user", number, number.checked_sub(1), "\"hi\""),
        1 => format!(
            r#"{{"type":"system","subtype":"compact_boundary","uuid":"u{number}","parentUuid":null,"logicalParentUuid":"u{}","sessionId":"s","content":"Conversation compacted"}}"#,
            number - 1
        ),
        _ => line("assistant", number, Some(number - 1), r#"[{"type":"text","text":"yes"}]"#),
    });
}

#[test]
fn lines_that_are_not_understood() {
    check("unknown lines", &transcript(), |number| format!(r#"{{"type":"kind-{number}"}}"#));
}

#[test]
fn deltas_of_one_text() {
    check("deltas of one text", &events(), |number| {
        match number {
        0 => r#"{"type":"block:upsert","payload":{"block":{"id":"b","type":"assistant_text","content":"","status":"pending"}}}"#.to_owned(),
        _ => r#"{"type":"block:delta","payload":{"blockId":"b","delta":"a"}}"#.to_owned(),
    }
    });
}

#[test]
fn blocks_that_are_all_placed_first() {
    check("blocks placed first", &events(), |number| {
        upsert(&format!("b{number}"), "main", r#","after":null"#)
    });
}

#[test]
fn blocks_that_are_all_placed_after_the_same_one() {
    check("blocks placed after one", &events(), |number| match number {
        0 => upsert("b0", "main", ""),
        _ => upsert(&format!("b{number}"), "main", r#","after":"b0""#),
    });
}

#[test]
fn conversations_of_one_block_each() {
    // From more subagents on than stay in memory: one that is spilled is looked at once more.
    let upsert = |number| upsert("b", &format!("agent-{number}"), "");
    check_from(2_000, "many subagents", &events(), upsert);
}

#[test]
fn one_block_that_is_reported_again_and_again() {
    check("one block again and again", &events(), |_| upsert("b", "main", ""));
}

#[test]
fn rewinds_to_the_first_block() {
    check("rewinds", &events(), |number| match number % 2 {
        0 => upsert(&format!("b{number}"), "main", ""),
        _ => r#"{"type":"context:changed","payload":{"kind":"rewind","head":"b0"}}"#.to_owned(),
    });
}

#[test]
fn turns_that_end_with_nothing_open() {
    check("idle turns", &events(), |number| match number % 2 {
        0 => upsert(&format!("b{number}"), "main", ""),
        _ => r#"{"type":"session:idle"}"#.to_owned(),
    });
}

#[test]
fn parts_of_one_message_on_a_bus() {
    check("parts of one message", &bus(), |number| {
        format!(
            r#"data: {{"type":"message.part.updated","properties":{{"part":{{"id":"p{number}","messageID":"m","sessionID":"s","type":"text","text":"a","time":{{"start":1,"end":2}}}}}}}}"#
        )
    });
}

/// Returns a part on a bus. The first one is complete, so that there is something to show.
fn bus_part(number: usize, message: usize, more: &str) -> String {
    let more = if number == 0 { CLOSED } else { more };
    format!(
        r#"data: {{"type":"message.part.updated","properties":{{"part":{{"id":"p{number:07}","messageID":"m{message:07}","sessionID":"s",{more}}}}}}}"#
    )
}

const CLOSED: &str = r#""type":"text","text":"a","time":{"start":1,"end":2}"#;
const OPEN: &str = r#""type":"text","text":"a","time":{"start":1}"#;

#[test]
fn open_texts_on_a_bus() {
    check("open texts", &bus(), |number| bus_part(number, 0, OPEN));
}

#[test]
fn open_texts_that_are_abandoned_one_by_one() {
    check("open texts and idle turns", &bus(), |number| match number % 2 {
        0 => bus_part(number, 0, OPEN),
        _ => r#"data: {"type":"session.idle","properties":{"sessionID":"s"}}"#.to_owned(),
    });
}

#[test]
fn open_texts_of_a_child_while_its_parent_is_idle() {
    check("idle beside open texts", &bus(), |number| match number % 2 {
        0 => bus_part(number, number, OPEN),
        _ => r#"data: {"type":"session.idle","properties":{"sessionID":"other"}}"#.to_owned(),
    });
}

#[test]
fn steps_of_one_message_that_never_end() {
    check("steps beside open texts", &bus(), |number| match number % 2 {
        // The texts are of other messages, so that no step abandons them.
        0 => bus_part(number, number + 1, OPEN),
        _ => bus_part(number, 0, r#""type":"step-start""#),
    });
}

#[test]
fn open_texts_that_are_all_abandoned_at_once() {
    check("abandoned at once", &bus(), |number| match number {
        399 | 3_999 => r#"data: {"type":"session.idle","properties":{"sessionID":"s"}}"#.to_owned(),
        _ => bus_part(number, 0, OPEN),
    });
}

#[test]
fn parts_that_are_removed_again() {
    check("removed parts", &bus(), |number| match number % 3 {
        0 | 1 => bus_part(number, 0, CLOSED),
        _ => format!(
            r#"data: {{"type":"message.part.removed","properties":{{"sessionID":"s","messageID":"m0000000","partID":"p{:07}"}}}}"#,
            number - 1
        ),
    });
}

#[test]
fn texts_of_the_newer_bus() {
    check("texts of the newer bus", &bus(), |number| {
        let (kind, more) = match number % 2 {
            0 => ("session.next.text.started", ""),
            _ => ("session.next.text.ended", r#","text":"a""#),
        };
        format!(
            r#"data: {{"type":"{kind}","properties":{{"sessionID":"s","messageID":"m","assistantMessageID":"m","textID":"t{}"{more}}}}}"#,
            number / 2
        )
    });
}

/// Returns an event of OpenCode 2.
fn newer_event(number: usize, kind: &str, more: &str) -> String {
    format!(
        r#"data: {{"id":"evt_{number}","created":{number},"type":"session.{kind}","data":{{"sessionID":"s",{more}}},"durable":{{"aggregateID":"s","seq":{number},"version":1}}}}"#
    )
}

#[test]
fn texts_of_one_message_of_version_2() {
    check("texts of version 2", &bus(), |number| {
        let message = format!(r#""assistantMessageID":"m","ordinal":{}"#, number / 2);
        match number % 2 {
            0 => newer_event(number, "text.started", &message),
            _ => newer_event(number, "text.ended", &format!(r#"{message},"text":"a""#)),
        }
    });
}

#[test]
fn texts_of_version_2_that_never_end_beside_ends_of_turns() {
    check("open texts of version 2", &bus(), |number| match number {
        0 => newer_event(0, "synthetic", r#""text":"a""#),
        _ if number % 2 == 1 => {
            let message = format!(r#""assistantMessageID":"m{number}","ordinal":0"#);
            newer_event(number, "text.started", &message)
        }
        _ => newer_event(number, "execution.succeeded", r#""x":1"#),
    });
}

#[test]
fn prompts_of_version_2_that_wait_and_are_delivered() {
    check("prompts of version 2", &bus(), |number| {
        let inbox = format!(r#""inboxID":"msg_{}""#, number / 2);
        let item = r#""item":{"type":"user","payload":{"text":"a"}}"#;
        match number % 2 {
            0 => newer_event(number, "inbox.enqueued", &format!("{inbox},{item}")),
            _ => newer_event(number, "inbox.delivered", &inbox),
        }
    });
}

#[test]
fn calls_and_restarted_steps_of_version_2() {
    check("calls of version 2", &bus(), |number| {
        let message = format!(r#""assistantMessageID":"m{}""#, number / 4);
        let call = format!(r#"{message},"id":"c","name":"shell""#);
        match number % 4 {
            0 => newer_event(number, "step.started", &message),
            1 => newer_event(number, "tool.input.started", &call),
            2 => newer_event(number, "tool.called", &format!(r#"{call},"input":{{}}"#)),
            _ => newer_event(number, "tool.success", &format!(r#"{call},"content":[]"#)),
        }
    });
}

#[test]
fn messages_of_a_live_stream() {
    check("messages of a stream", &stream(), |number| {
        format!(
            r#"{{"type":"assistant","session_id":"s","uuid":"u{number}","message":{{"id":"m{number}","role":"assistant","content":[{{"type":"text","text":"a"}}]}}}}"#
        )
    });
}

fn rollout() -> SourceSpec {
    SourceSpec::new(agent("codex"), SourceRole::Main, "rollout.jsonl")
}

fn exec() -> SourceSpec {
    SourceSpec::new(agent("codex"), SourceRole::Stream, "stream")
}

/// Returns a record of a rollout.
fn stored(kind: &str, payload: &str) -> String {
    format!(r#"{{"timestamp":"2026-01-01T00:00:00Z","type":"{kind}","payload":{payload}}}"#)
}

#[test]
fn turns_calls_and_texts_of_a_rollout() {
    check("turns", &rollout(), |number| {
        let turn = format!("01a1e44a-0000-7000-8000-{number:012}");
        let begin = format!(r#"{{"type":"task_started","turn_id":"{turn}"}}"#);
        let end = format!(r#"{{"type":"task_complete","turn_id":"{turn}"}}"#);
        let prompt = stored("event_msg", r#"{"type":"user_message","message":"hi"}"#);
        [stored("event_msg", &begin), prompt, stored("event_msg", &end)].join("\n")
    });
    check("calls with their outputs", &rollout(), |number| {
        let call = format!(
            r#"{{"type":"function_call","name":"exec_command","arguments":"{{}}","call_id":"c{number}"}}"#
        );
        let output =
            format!(r#"{{"type":"function_call_output","call_id":"c{number}","output":"a"}}"#);
        [stored("response_item", &call), stored("response_item", &output)].join("\n")
    });
    check("texts that no event announced", &rollout(), |number| {
        let text = format!(
            r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"{number}"}}]}}"#
        );
        stored("response_item", &text)
    });
    check("compactions", &rollout(), |number| {
        let prompt = format!(r#"{{"type":"user_message","message":"{number}"}}"#);
        [stored("event_msg", &prompt), stored("compacted", r#"{"message":"m"}"#)].join("\n")
    });
}

#[test]
fn texts_of_a_rollout_that_nothing_confirms() {
    let answer = |text: &str| {
        let content = format!(r#"[{{"type":"output_text","text":"{text}"}}]"#);
        let message = format!(r#"{{"type":"message","role":"assistant","content":{content}}}"#);
        stored("response_item", &message)
    };
    let event = |kind: &str, field: &str, text: &str| {
        stored("event_msg", &format!(r#"{{"type":"{kind}","{field}":"{text}"}}"#))
    };
    check("events of other texts", &rollout(), |number| {
        let other = event("agent_message", "message", &format!("b{number}"));
        [answer(&format!("a{number}")), other].join("\n")
    });
    check("announced texts", &rollout(), |number| {
        event("agent_message", "message", &format!("a{number}"))
    });
}

#[test]
fn texts_of_the_app_server_that_never_end() {
    check("deltas of many items", &exec(), |number| {
        let delta = format!(
            r#"{{"method":"item/agentMessage/delta","params":{{"threadId":"t","turnId":"u","itemId":"m{number}","delta":"a"}}}}"#
        );
        let warning = r#"{"method":"warning","params":{"threadId":"t","message":"w"}}"#;
        format!("{delta}\n{warning}")
    });
    check("questions without an answer", &exec(), |number| {
        format!(
            r#"{{"id":{number},"method":"item/tool/requestUserInput","params":{{"threadId":"t","itemId":"m{number}","questions":[]}}}}"#
        )
    });
}

#[test]
fn items_without_names() {
    check("equal texts", &exec(), |number| {
        format!(
            r#"{{"type":"item.completed","item":{{"id":"item_{number}","type":"agent_message","text":"a"}}}}"#
        )
    });
    check("commands", &exec(), |number| {
        format!(
            r#"{{"type":"item.completed","item":{{"id":"item_{number}","type":"command_execution","command":"ls {number}","aggregated_output":"","exit_code":0,"status":"completed"}}}}"#
        )
    });
}

/// Returns how many bytes of text the events have that sources become, one source after another.
fn emitted(sources: &[(SourceSpec, String)]) -> u64 {
    let mut fold = Fold::new("s".into(), Slices::default());
    let mut records = Vec::new();
    for ((spec, lines), number) in sources.iter().zip(1..) {
        records.push(Record::new(RecordKind::Source, number, 0, spec.to_json()));
        let mut cutter = Cutter::new(number);
        cutter.push(lines.as_bytes(), &mut records);
        cutter.finish(&mut records);
    }
    let mut bytes = 0;
    for (record, seq) in records.into_iter().zip(1..) {
        let step = fold.push(&record.at(seq));
        assert_eq!(step.oddities, []);
        let sizes = step
            .events
            .iter()
            .map(|it| serde_json::to_string(it).expect("an event is JSON").len() as u64);
        bytes += sizes.sum::<u64>();
    }
    bytes
}

/// Returns the file and the stream of a thread whose model thought once, in parts: its version prints
/// each part as an item.
fn reasoning_in_parts(count: usize) -> [(SourceSpec, String); 2] {
    let part = |number: usize| format!("part number {number:06}");
    let parts: Vec<String> = (0..count)
        .map(|number| format!(r#"{{"type":"summary_text","text":"{}"}}"#, part(number)))
        .collect();
    let meta = r#"{"id":"01a1e44a-0000-7000-8000-000000000001","originator":"codex_exec","source":"exec","cli_version":"0.98.0"}"#;
    let reasoning = format!(r#"{{"type":"reasoning","summary":[{}]}}"#, parts.join(","));
    let file = [stored("session_meta", meta), stored("response_item", &reasoning)].join("\n");
    let item = |number: usize| {
        let text = part(number);
        format!(
            r#"{{"type":"item.completed","item":{{"id":"item_{number}","type":"reasoning","text":"{text}"}}}}"#
        )
    };
    let begin = r#"{"type":"thread.started","thread_id":"01a1e44a-0000-7000-8000-000000000001"}"#
        .to_owned();
    let lines: Vec<String> = std::iter::once(begin).chain((0..count).map(item)).collect();
    [(rollout(), file), (exec(), lines.join("\n"))]
}

#[test]
fn parts_of_reasoning() {
    for is_stream_first in [false, true] {
        let bytes = |count| {
            let mut sources = reasoning_in_parts(count);
            if is_stream_first {
                sources.reverse();
            }
            emitted(&sources)
        };
        let (small, large) = (bytes(SMALL), bytes(SMALL * FACTOR));
        assert!(large <= small * MOST, "{is_stream_first}: {small} and {large} bytes of events");
    }
}

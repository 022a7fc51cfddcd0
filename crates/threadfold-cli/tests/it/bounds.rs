//! How much memory the program takes: at most 64 MB, and four times its input.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::env::TestEnv;

/// The bound that `docs/reference/limits.md` states.
const FIXED: u64 = 64_000_000;
const PER_BYTE: u64 = 4;

/// Runs the program, and returns the most memory that it took, in bytes.
fn peak(command: Command) -> u64 {
    let shown = format!("{command:?}");
    let (peak, ended) = measure(command);
    assert!(ended.starts_with("exit status: 0"), "{shown}: {ended}");
    peak
}

/// Runs the program, and returns the most memory that it took, in bytes, and how it ended.
///
/// Pages of the program's own file are not counted: those of a test build, which is not optimised,
/// are 20 MB, and grow with the code instead of the input.
fn measure(mut command: Command) -> (u64, String) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let field = |name| {
            let value = text.lines().find_map(|line| line.strip_prefix(name));
            let kilobytes = value.and_then(|it| it.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            kilobytes.unwrap_or_default() * 1024
        };
        // The mark of the kernel only rises, so no peak between two looks is missed.
        peak = peak.max(field("VmHWM:").saturating_sub(field("RssFile:")));
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (peak, format!("{ended}\n{said}"))
}

/// Holds every command that reads an input to the bound.
fn check(name: &str, input: &[u8]) {
    check_commands(
        name,
        input,
        &[
            &["fold", "input.jsonl"],
            &["fold", "--hash", "input.jsonl"],
            &["view", "--no-pager", "input.jsonl"],
            &["import", "--any", "input.jsonl", "--store", "store.db"],
            &["list", "--store", "store.db"],
        ],
    );
}

/// Holds the command that takes most to the bound, for an input that takes long.
fn check_large(name: &str, input: &[u8]) {
    let import = ["import", "--any", "input.jsonl", "--store", "store.db"];
    check_commands(name, input, &[&import, &["list", "--store", "store.db"]]);
}

/// Holds every command that reads an input to the bound for a hundred thousand subagents, and
/// `fold` and `import` for three times as many: a table that just grew takes most for its entries.
fn check_subagents(name: &str, line: impl Fn(usize) -> String) {
    check(name, &lines(100_000, &line));
    let input = lines(300_000, line);
    check_commands(name, &input, &[&["fold", "--hash", "input.jsonl"]]);
    check_large(name, &input);
}

fn check_commands(name: &str, input: &[u8], commands: &[&[&str]]) {
    let env = TestEnv::new();
    env.write("input.jsonl", input);
    let bound = FIXED + PER_BYTE * input.len() as u64;
    let mut over = Vec::new();
    for arguments in commands {
        let peak = peak(env.command(arguments));
        if peak > bound {
            over.push(format!("{arguments:?} took {peak} bytes, and may take {bound}"));
        }
    }
    assert!(over.is_empty(), "{name}, {} bytes: {over:#?}", input.len());
}

/// Returns lines, joined.
fn lines(count: usize, line: impl Fn(usize) -> String) -> Vec<u8> {
    (0..count).map(|number| line(number) + "\n").collect::<String>().into_bytes()
}

#[test]
fn lines_that_are_empty_objects() {
    let input = lines(400_000, |_| "{}".to_owned());
    check_large("empty objects", &input);
    check_commands("empty objects", &input, &[&["view", "--no-pager", "input.jsonl"]]);
}

#[test]
fn lines_of_one_byte() {
    check_large("lines of one byte", &lines(400_000, |_| "7".to_owned()));
}

#[test]
fn a_million_lines_that_are_not_understood() {
    check_large("a million lines", &lines(1_000_000, |_| "garbage".to_owned()));
}

#[test]
fn a_list_of_empty_objects() {
    let empty = "{},".repeat(3_000_000);
    check("empty objects", format!("{{\"type\":\"x\",\"a\":[{empty}{{}}]}}\n").as_bytes());
}

#[test]
fn an_object_that_repeats_a_member() {
    let members = "\"a\":1,".repeat(2_000_000);
    check("repeated members", format!("{{\"type\":\"x\",{members}\"b\":1}}\n").as_bytes());
}

#[test]
fn lines_of_unknown_kinds() {
    check_large("unknown kinds", &lines(280_000, |number| format!(r#"{{"type":"k{number}"}}"#)));
}

#[test]
fn lines_that_are_not_json() {
    check_large("not JSON", &lines(280_000, |number| format!("{{\"a\":{number}")));
}

#[test]
fn prompts_of_one_letter() {
    let line = |number| {
        format!(
            r#"{{"type":"user","uuid":"{number}","sessionId":"s","message":{{"role":"user","content":"a"}}}}"#
        )
    };
    check("prompts of one letter", &lines(100_000, line));
}

#[test]
fn one_message_of_many_empty_parts() {
    // As many as are converted, and more, which are kept as one record.
    for count in [16_384, 150_000] {
        let parts = vec!["{}"; count].join(",");
        let text = format!(
            r#"{{"type":"assistant","uuid":"1","sessionId":"s","message":{{"id":"m","role":"assistant","content":[{parts}]}}}}"#
        );
        check("many empty parts", (text + "\n").as_bytes());
    }
}

#[test]
fn one_text_of_many_tiny_deltas() {
    let start = r#"{"type":"block:upsert","payload":{"block":{"id":"b","type":"assistant_text","content":"","status":"pending"}}}"#;
    let mut input = lines(1, |_| start.to_owned());
    input.extend(lines(350_000, |_| {
        r#"{"type":"block:delta","payload":{"blockId":"b","delta":"a"}}"#.to_owned()
    }));
    check("tiny deltas", &input);
}

#[test]
fn many_subagents_with_little_in_them() {
    let line = |number| {
        format!(
            r#"{{"type":"block:upsert","context":{{"conversationId":"s{number}"}},"payload":{{"block":{{"id":"b","type":"assistant_text","content":"a","status":"complete"}}}}}}"#
        )
    };
    check("many subagents", &lines(50_000, line));
}

#[test]
fn many_subagents_that_only_began() {
    let spawned =
        |number| format!(r#"{{"type":"subagent:spawned","payload":{{"toolUseId":"t{number}"}}}}"#);
    check("spawned subagents", &lines(100_000, spawned));
}

#[test]
fn many_subagents_whose_tasks_a_stream_reports() {
    let task = |number| {
        format!(
            r#"{{"type":"system","subtype":"task_started","session_id":"s","uuid":"u{number}","task_id":"k{number}","tool_use_id":"t{number}","task_type":"local_agent","description":"d"}}"#
        )
    };
    check_subagents("tasks of a stream", task);
}

#[test]
fn many_subagents_of_one_line_each() {
    let line = |number| {
        format!(
            r#"{{"type":"user","isSidechain":true,"agentId":"a{number}","uuid":"u{number}","sessionId":"s","message":{{"role":"user","content":"a"}}}}"#
        )
    };
    check_subagents("sidechains", line);
}

/// Returns a call of a subagent in a line of Claude Code, and its result in another.
fn call_and_result(number: usize, side: &str, agent: &str) -> String {
    let call = format!(
        r#"{{"type":"assistant",{side}"uuid":"a{number}","sessionId":"s","message":{{"id":"m{number}","role":"assistant","content":[{{"type":"tool_use","id":"t{number}","name":"Task","input":{{"prompt":"p{number}"}}}}]}}}}"#
    );
    let result = format!(
        r#"{{"type":"user",{side}"uuid":"b{number}","sessionId":"s","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{number}","content":"ok"}}]}},"toolUseResult":{{"status":"completed","agentId":"{agent}","content":[{{"type":"text","text":"ok"}}]}}}}"#
    );
    format!("{call}\n{result}")
}

#[test]
fn many_subagents_that_are_called_side_by_side() {
    let calls = |number| call_and_result(number, "", &format!("g{number}"));
    check("calls side by side", &lines(100_000, calls));
}

#[test]
fn many_subagents_of_which_each_calls_the_next() {
    let events = |number: usize| {
        let next = number + 1;
        let call = format!(
            r#"{{"type":"block:upsert","context":{{"conversationId":"t{number}"}},"payload":{{"block":{{"id":"t{next}","type":"tool_use","toolName":"Task","toolUseId":"t{next}","input":{{}},"status":"pending"}}}}}}"#
        );
        let spawned = format!(
            r#"{{"type":"subagent:spawned","context":{{"conversationId":"t{number}"}},"payload":{{"toolUseId":"t{next}"}}}}"#
        );
        format!("{call}\n{spawned}")
    };
    check("a chain of events", &lines(30_000, events));
    let records = |number: usize| {
        let side = format!(r#""isSidechain":true,"agentId":"g{number}","#);
        call_and_result(number, &side, &format!("g{}", number + 1))
    };
    check("a chain of records", &lines(30_000, records));
}

#[test]
fn many_subagents_of_other_agents() {
    let codex = |number: usize| match number {
        0 => r#"{"type":"thread.started","thread_id":"s"}"#.to_owned(),
        1 => r#"{"type":"turn.started"}"#.to_owned(),
        _ => format!(
            r#"{{"type":"item.completed","item":{{"id":"i{number}","type":"collab_tool_call","tool":"spawn_agent","sender_thread_id":"s","receiver_thread_ids":["r{number}"],"prompt":"p","agents_states":{{}},"status":"completed"}}}}"#
        ),
    };
    check("agents of Codex", &lines(100_000, codex));
    let reported = |number: usize| match number {
        0 => r#"{"method":"thread/started","params":{"thread":{"id":"s"}}}"#.to_owned(),
        _ => format!(
            r#"{{"method":"item/completed","params":{{"threadId":"s","turnId":"t","item":{{"type":"collabAgentToolCall","id":"c{number}","tool":"spawnAgent","status":"completed","senderThreadId":"s","receiverThreadIds":["r{number}"],"prompt":"p","agentsStates":{{}}}}}}}}
{{"method":"item/completed","params":{{"threadId":"r{number}","turnId":"t","item":{{"type":"agentMessage","id":"i{number}","text":"a"}}}}}}"#
        ),
    };
    check_large("agents of Codex with a message each", &lines(100_000, reported));
    let child = |number: usize| {
        let created = format!(
            r#"data: {{"type":"session.created","properties":{{"info":{{"id":"c{number}","parentID":"s"}}}}}}"#
        );
        let part = format!(
            r#"data: {{"type":"message.part.updated","properties":{{"part":{{"id":"p{number}","messageID":"m{number}","sessionID":"c{number}","type":"text","text":"a","time":{{"start":1,"end":2}}}}}}}}"#
        );
        let main = r#"data: {"type":"session.created","properties":{"info":{"id":"s"}}}"#;
        match number {
            0 => format!("{main}\n"),
            _ => format!("{created}\n\n{part}\n"),
        }
    };
    check("sessions of OpenCode", &lines(100_000, child));
}

#[test]
fn a_deeply_nested_value() {
    let (open, close) = ("[".repeat(1_000_000), "]".repeat(1_000_000));
    check("deep nesting", format!("{{\"type\":\"x\",\"a\":{open}{close}}}\n").as_bytes());
}

#[test]
fn ids_that_are_long() {
    let line = |number: usize| {
        let id = format!("{number:05}{}", "i".repeat(20_000));
        format!(
            r#"{{"type":"block:upsert","payload":{{"block":{{"id":"{id}","type":"assistant_text","content":"a","status":"complete"}}}}}}"#
        )
    };
    check("long ids", &lines(1_000, line));
}

#[test]
fn tiny_events_of_a_bus() {
    let line = |number| {
        format!(
            r#"data: {{"type":"message.part.updated","properties":{{"part":{{"id":"p{number}","messageID":"m","sessionID":"s","type":"text","text":"a","time":{{"start":1,"end":2}}}}}}}}"#
        ) + "\n"
    };
    check("tiny events of a bus", &lines(70_000, line));
}

#[test]
fn a_deeply_nested_object() {
    let (open, close) = ("{\"a\":".repeat(500_000), "}".repeat(500_000));
    check("deep objects", format!("{{\"type\":\"x\",\"a\":{open}0{close}}}\n").as_bytes());
}

#[test]
fn an_object_of_many_members() {
    let members: Vec<String> = (0..400_000).rev().map(|it| format!("\"{it:x}\":1")).collect();
    check("many members", format!("{{\"type\":\"x\",{}}}\n", members.join(",")).as_bytes());
}

#[test]
fn calls_that_are_never_answered() {
    let line = |number| {
        format!(
            r#"{{"type":"assistant","uuid":"{number}","sessionId":"s","message":{{"id":"m{number}","role":"assistant","content":[{{"type":"tool_use","id":"t{number}","name":"R","input":{{}}}}]}}}}"#
        )
    };
    check("open calls", &lines(60_000, line));
}

#[test]
fn a_line_without_an_end() {
    check("one long line", &vec![b'x'; 30_000_000]);
}

#[test]
fn an_answer_as_large_as_it_may_be() {
    let (peak, ended) = peak_of_run(23);
    assert!(ended.starts_with("exit status: 0"), "{ended}");
    let bound = FIXED + PER_BYTE * (23 << 18);
    assert!(peak <= bound, "the run took {peak} bytes, and may take {bound}");
}

#[test]
fn an_answer_of_30_megabytes_is_refused() {
    let (peak, ended) = peak_of_run(115);
    assert!(ended.contains("the answer of anthropic has more than 6291456 bytes"), "{ended}");
    // What was read of it counts, and not what the model would have sent.
    let bound = FIXED + PER_BYTE * (23 << 18);
    assert!(peak <= bound, "the run took {peak} bytes, and may take {bound}");
}

/// Runs the loop with a model whose answer is `count` pieces of 256 KiB. Returns the most memory
/// that the run took, and how it ended.
fn peak_of_run(count: usize) -> (u64, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let model = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let (mut request, mut chunk) = (Vec::new(), [0; 4096]);
        // The body is one JSON object. Bytes that are not read would reset the connection at its end.
        while !request.ends_with(b"}") {
            let count = connection.read(&mut chunk).unwrap();
            request.extend_from_slice(&chunk[..count]);
        }
        // A client that has read enough closes the connection.
        streamed_answer(count).iter().try_for_each(|piece| connection.write_all(piece)).ok();
    });
    let env = TestEnv::new();
    let arguments =
        ["run", "--provider", "anthropic", "--model", "m", "--base-url", &base, "Go on."];
    let mut command = env.command(&arguments);
    command.env("ANTHROPIC_API_KEY", "k");
    let peak = measure(command);
    model.join().unwrap();
    peak
}

/// Returns an answer of `count` pieces of 256 KiB.
fn streamed_answer(count: usize) -> Vec<Vec<u8>> {
    let event = |json: &str| format!("data: {json}\n\n").into_bytes();
    let text = "x".repeat(256 << 10);
    let piece = event(&format!(
        r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
    ));
    let mut pieces = vec![
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec(),
        event(r#"{"type":"message_start","message":{"id":"m","role":"assistant","content":[]}}"#),
        event(
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        ),
    ];
    pieces.extend(std::iter::repeat_n(piece, count));
    pieces.push(event(r#"{"type":"content_block_stop","index":0}"#));
    pieces.push(event(r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#));
    pieces.push(event(r#"{"type":"message_stop"}"#));
    pieces
}

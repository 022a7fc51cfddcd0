//! Hostile input: no panic, bounded memory, intact records preserved, losses reported.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const MEGABYTE: u64 = 1 << 20;

/// A record that must survive, whatever stands beside it.
fn good(uuid: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{uuid}","sessionId":"s","message":{{"role":"user","content":"good"}}}}"#
    )
}

/// Runs the program with so much memory and no more, and feeds it pieces, each so many times.
fn fold_within(limit: u64, pieces: Vec<(usize, Vec<u8>)>) -> Output {
    // What a process maps before it does anything is not what the input costs.
    let kilobytes = (limit + 48 * MEGABYTE) / 1024;
    let mut child = Command::new("bash")
        .args([
            "-c",
            &format!("ulimit -v {kilobytes}; exec \"$0\" fold --from claude-transcript -"),
        ])
        .arg(env!("CARGO_BIN_EXE_threadfold"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        pieces
            .iter()
            .try_for_each(|(times, piece)| (0..*times).try_for_each(|_| input.write_all(piece)))
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    output
}

/// Folds bytes within 64 MB and four times their size; returns state and stderr.
fn fold(bytes: Vec<u8>) -> (Value, String) {
    let limit = 64 * MEGABYTE + 4 * bytes.len() as u64;
    told(&fold_within(limit, vec![(1, bytes)]))
}

fn told(output: &Output) -> (Value, String) {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{:?} {stderr}", output.status);
    // Too deep for a recursive parser, and in a field that is not used.
    let mut shallow = String::from_utf8_lossy(&output.stdout).into_owned();
    while shallow.contains("[[") || shallow.contains("]]") {
        shallow = shallow.replace("[[", "[").replace("]]", "]");
    }
    (serde_json::from_str(&shallow).unwrap(), stderr)
}

fn ids(state: &Value) -> Vec<&str> {
    state["blocks"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap()).collect()
}

/// Folds a line between two good ones; both must be there, and the loss reported where it should be.
fn between(line: impl AsRef<[u8]>, loss: Option<&str>) -> Value {
    let mut bytes = format!("{}\n", good("first")).into_bytes();
    bytes.extend_from_slice(line.as_ref());
    bytes.extend_from_slice(format!("\n{}\n", good("last")).as_bytes());
    let (state, stderr) = fold(bytes);
    let found = ids(&state);
    assert_eq!((found.first(), found.last()), (Some(&"first"), Some(&"last")), "{stderr}");
    match loss {
        Some(loss) => assert!(stderr.contains(loss), "{stderr}"),
        None => assert_eq!(stderr, ""),
    }
    state
}

#[test]
fn the_second_record_of_a_spliced_line_is_recovered() {
    let spliced = format!("{}{}", &good("torn")[..50], good("second"));
    let state = between(spliced, Some("line 2: not valid JSON"));
    assert_eq!(ids(&state)[2], "second");
    assert_eq!(state["blocks"][1]["type"], "unknown");
}

#[test]
fn two_complete_records_on_a_line_are_two_records() {
    let state = between(format!("{}{}", good("one"), good("two")), None);
    assert_eq!(ids(&state), ["first", "one", "two", "last"]);
}

#[test]
fn a_truncated_last_line_is_stored_and_reported() {
    let (state, stderr) = fold(format!("{}\n{}", good("first"), &good("torn")[..60]).into_bytes());
    assert_eq!(ids(&state)[0], "first");
    assert_eq!(state["blocks"][1]["record"], good("torn")[..60]);
    assert!(stderr.contains("line 2: not valid JSON"), "{stderr}");
}

#[test]
fn a_run_of_zero_bytes_does_not_lose_the_record_after_it() {
    let mut line = vec![0; 4096];
    line.extend_from_slice(good("behind").as_bytes());
    let state = between(line, Some("line 2: a run of zero bytes"));
    assert!(ids(&state).contains(&"behind"));
}

#[test]
fn invalid_utf8_is_reported() {
    between(b"{\"type\":\"user\",\"message\":\"\xff\xfe\"}", Some("line 2: not UTF-8"));
}

#[test]
fn a_lone_surrogate_becomes_a_replacement_character() {
    let line = good("half").replace("\"good\"", r#""half \ud83d of a letter""#);
    let state = between(line, Some("line 2: half of a letter"));
    assert_eq!(state["blocks"][1]["content"], "half \u{fffd} of a letter");
}

#[test]
fn a_line_with_duplicate_keys_is_stored_and_one_value_is_used() {
    let line = good("twice").replacen('{', r#"{"type":"assistant","#, 1);
    let state = between(line, None);
    assert!(ids(&state).contains(&"twice"));
}

#[test]
fn a_byte_order_mark_and_crlf_are_not_part_of_a_record() {
    let (state, stderr) =
        fold(format!("\u{feff}{}\r\n\r\n{}\r\n", good("first"), good("last")).into_bytes());
    assert_eq!((ids(&state), stderr.as_str()), (vec!["first", "last"], ""));
}

#[test]
fn a_hundred_thousand_levels_take_no_stack() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let call = format!(
        r#"{{"type":"assistant","uuid":"a","sessionId":"s","message":{{"id":"m","content":[{{"type":"tool_use","id":"c","name":"T","input":{deep}}}]}},"unread":{deep}}}"#
    );
    let state = between(call, None);
    assert!(ids(&state).contains(&"c"));
    let words = good("deep").replace("\"good\"", &deep);
    between(words, None);
}

#[test]
fn a_record_of_the_same_id_replaces_its_block() {
    let state = between(
        format!("{}\n{}", good("same"), good("same").replace("\"good\"", "\"other\"")),
        None,
    );
    assert_eq!(ids(&state), ["first", "same", "last"]);
    assert_eq!(state["blocks"][1]["content"], "other");
}

#[test]
fn cyclic_and_missing_parents_do_not_hang() {
    let below = |uuid: &str, parent: &str| {
        good(uuid).replacen('{', &format!("{{\"parentUuid\":\"{parent}\","), 1)
    };
    let lines = [below("a", "b"), below("b", "a"), below("c", "c"), below("d", "nowhere")];
    let state = between(lines.join("\n"), None);
    assert_eq!(ids(&state), ["first", "a", "b", "c", "d", "last"]);
}

#[test]
fn many_good_records_stay_within_four_times_their_size() {
    let line = |number: usize| {
        let words = "word ".repeat(200);
        format!("{}\n", good(&format!("u{number}")).replace("good", &words)).into_bytes()
    };
    let bytes: Vec<u8> = (0..14_000).flat_map(line).collect();
    assert!(bytes.len() as u64 > 14 * MEGABYTE);
    let (state, _) = fold(bytes);
    assert_eq!(ids(&state).len(), 14_000);
}

#[test]
fn a_line_of_a_gigabyte_is_bounded_and_reported() {
    let head = format!("{}\n{{\"type\":\"user\",\"x\":\"", good("first")).into_bytes();
    let filler = vec![b'x'; MEGABYTE as usize];
    let tail = format!("\"}}\n{}\n", good("last")).into_bytes();
    let pieces = vec![(1, head), (1024, filler), (1, tail)];
    let (state, stderr) = told(&fold_within(256 * MEGABYTE - 48 * MEGABYTE, pieces));
    assert_eq!(ids(&state).len(), 3);
    assert_eq!(state["blocks"][1]["type"], "unknown");
    assert!(stderr.contains("line 2: a record of 1073741"), "{stderr}");
}

//! Handles, errors and the functions for single blocks.

use crate::engine::Wasm;

const BLOCK: &str = r#"{"type":"block:upsert","payload":{"block":{"id":"b1","type":"assistant_text","status":"pending","content":"Hel"}}}"#;

#[test]
fn a_clone_does_not_change_with_its_origin() {
    let mut wasm = Wasm::full();
    let state = wasm.expect("state_new", &[]);
    wasm.apply(state, BLOCK);
    let copy = wasm.expect("state_clone", &[state]);
    let size = wasm.write(&[b"main", b"b1", "lö".as_bytes()]);
    // Changed, without output, and touched.
    assert_eq!(wasm.call("state_append", &[state, size, 4, 2]), 4 | 8);
    assert!(wasm.read("state_json", state).contains("Hellö"));
    assert!(wasm.read("state_json", copy).contains(r#""Hel""#));
    assert_eq!(wasm.call("state_equals", &[state, copy]), 0);
    wasm.call("state_free", &[copy]);
    assert_eq!(wasm.call("state_count", &[]), 1);
}

#[test]
fn what_is_not_an_event_is_reported_and_changes_nothing() {
    let mut wasm = Wasm::full();
    let state = wasm.expect("state_new", &[]);
    assert_eq!(wasm.apply(state, "{\nnull\n7\n{\"type\":\"new:type\"}"), 2);
    wasm.expect("anomalies", &[]);
    let odd = wasm.output();
    assert_eq!(odd.matches("\"ignored\":true").count(), 4, "{odd}");
    assert!(odd.contains("unknown event type `new:type`"), "{odd}");
    assert_eq!(wasm.apply(state, "[1,"), -1, "a list that is not JSON");
    assert_eq!(wasm.apply(99, BLOCK), -1);
    assert_eq!(wasm.output(), "there is no state 99");
}

#[test]
fn an_event_of_another_slice_leaves_the_state_untouched() {
    let mut wasm = Wasm::full();
    let state = wasm.expect("state_new", &[]);
    assert_eq!(wasm.apply(state, r#"{"type":"metadata:update","payload":{"metadata":{}}}"#), 0);
    assert_eq!(wasm.apply(state, r#"{"type":"session:idle"}"#) & 8, 8);
}

#[test]
fn a_flat_event_goes_to_its_own_conversation() {
    let mut wasm = Wasm::full();
    let state = wasm.expect("state_new", &[]);
    let flat = r#"{"type":"block:upsert","conversationId":"call-1","block":{"id":"b1","type":"assistant_text","status":"pending","content":""}}"#;
    wasm.apply(state, flat);
    assert_eq!(wasm.read("state_order", state), r#"["call-1"]"#);
    let size = wasm.write(&[b"call-1"]);
    assert_eq!(wasm.call("state_find_subagent", &[state, size]), 0);
    assert_eq!(wasm.output(), "call-1");
    let size = wasm.write(&[b"call-1", b"b1"]);
    assert_eq!(wasm.call("state_find_block", &[state, size, 6]), 0);
    assert_eq!(wasm.call("state_block", &[state, size, 6]), 0);
    assert!(wasm.output().contains(r#""conversationId":"call-1""#));
    let size = wasm.write(&[b"main", b"b1"]);
    assert_eq!(wasm.call("state_find_block", &[state, size, 4]), -2);
}

#[test]
fn a_snapshot_with_another_hash_than_it_names_is_refused() {
    let mut wasm = Wasm::full();
    let state = wasm.expect("state_new", &[]);
    wasm.apply(state, BLOCK);
    let snapshot = wasm.read("state_snapshot", state);
    let session = format!(
        r#"{{"snapshot":{{"stateHash":"00","slices":[{{"sliceType":"conversation","items":[{snapshot}]}}]}}}}"#
    );
    let size = wasm.write(&[session.as_bytes()]);
    assert_eq!(wasm.call("state_restore", &[size]), -1);
    let hash = wasm.read("state_hash", state);
    let size = wasm.write(&[session.replace("\"00\"", &format!("\"{hash}\"")).as_bytes()]);
    let restored = wasm.expect("state_restore", &[size]);
    assert_eq!(wasm.call("state_equals", &[state, restored]), 1);
}

#[test]
fn an_unknown_agent_is_refused_with_those_that_are_known() {
    let mut wasm = Wasm::full();
    let size = wasm.write(&[b"nobody", b"{}"]);
    assert_eq!(wasm.call("parse_text", &[size, 6]), -1);
    assert!(wasm.output().contains("`nobody` is unknown; known are"), "{}", wasm.output());
    let size = wasm.write(&[
        b"claude-sdk",
        br#"{"type":"user","uuid":"u1","sessionId":"s","message":{"role":"user","content":"Hi"}}"#,
    ]);
    let state = wasm.expect("parse_text", &[size, 10]);
    assert!(wasm.read("state_json", state).contains("\"Hi\""));
}

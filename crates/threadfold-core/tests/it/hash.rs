//! The state hash, implemented a second time from `docs/reference/state-hash.md`.

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::{Map, Value};
use threadfold_core::{ConversationState, SessionEvent, fold};
use threadfold_testkit::sessions::{hostile, interleave, plausible};
use threadfold_testkit::story::state;

const PAGE: &str = include_str!("../../../../docs/reference/state-hash.md");

/// The documented definition, on the serialized state.
///
/// A `Value` preserves neither number spelling nor duplicate keys, so this only works for states
/// with integers and unique keys.
mod as_documented {
    use super::*;

    pub(super) fn canonical(value: &Value) -> String {
        match value {
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(canonical).collect();
                format!("[{}]", items.join(","))
            }
            Value::Object(members) => {
                let mut members: Vec<_> = members
                    .iter()
                    .map(|(key, value)| {
                        let quoted = Value::from(key.as_str()).to_string();
                        (quoted[1..quoted.len() - 1].to_owned(), canonical(value))
                    })
                    .collect();
                members.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
                let members: Vec<_> =
                    members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }
            leaf => leaf.to_string(),
        }
    }

    fn without(object: &Value, name: &str) -> Value {
        let mut members: Map<String, Value> = object.as_object().unwrap().clone();
        members.remove(name);
        Value::Object(members)
    }

    fn hash(bytes: &[u8]) -> Vec<u8> {
        blake3::hash(bytes).as_bytes().to_vec()
    }

    pub(super) fn block(block: &Value) -> Vec<u8> {
        hash(canonical(&without(&without(block, "raw"), "conversationId")).as_bytes())
    }

    pub(super) fn conversation(blocks: &Value) -> Vec<u8> {
        hash(&blocks.as_array().unwrap().iter().flat_map(block).collect::<Vec<u8>>())
    }

    pub(super) fn state(json: &str) -> String {
        let state: Value = serde_json::from_str(json).unwrap();
        let mut bytes = b"threadfold state 2\n".to_vec();
        bytes.extend(conversation(&state["blocks"]));
        for subagent in state["subagents"].as_array().unwrap() {
            bytes.extend(hash(canonical(&without(subagent, "blocks")).as_bytes()));
            bytes.extend(conversation(&subagent["blocks"]));
        }
        hex(&hash(&bytes))
    }

    pub(super) fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn printed(state: &ConversationState) -> String {
    serde_json::to_string(state).unwrap()
}

fn tool_with(input: &str, more: &str) -> ConversationState {
    let text = format!(
        r#"{{"type":"block:upsert","payload":{{"block":{{"id":"c","type":"tool_use","status":"pending",
        "toolName":"T","toolUseId":"c","input":{input}{more}}}}}}}"#
    );
    fold([&SessionEvent::from_json(&text).unwrap()])
}

proptest! {
    #[test]
    fn every_state_hashes_as_documented(events in hostile()) {
        let state = fold(&events);
        prop_assert_eq!(state.hash().to_string(), as_documented::state(&printed(&state)));
    }

    #[test]
    fn caching_hashes_after_each_step_does_not_change_the_final_hash(session in plausible()) {
        let events = interleave(&session, &[]);
        let mut state = ConversationState::default();
        for (step, event) in events.iter().enumerate() {
            state = threadfold_core::reduce(state, event);
            let hash = state.hash();
            if step % 16 == 0 {
                prop_assert_eq!(hash.to_string(), as_documented::state(&printed(&state)));
            }
        }
        prop_assert_eq!(state.hash(), fold(&events).hash());
    }
}

#[test]
fn unusual_keys_and_characters_hash_as_documented() {
    let state = tool_with(
        r#"{"a b":1,"a":"\u0041\u000b\u001f\u007f\/\"\\ é😀","\n":[],"z":{"é":null,"":true},"ﬀ":2,"😀":3}"#,
        r#","metadata":{"raw":{"stays":1},"k":-7}"#,
    );
    assert_eq!(state.hash().to_string(), as_documented::state(&printed(&state)));
}

#[test]
fn key_order_and_white_space_do_not_affect_the_hash() {
    let one = tool_with(r#"{"a":1,"b":{"c":[1,2],"d":"A"}}"#, "");
    let other = tool_with(r#"{ "b" : {"d":"\u0041", "c":[ 1, 2 ]}, "a" : 1 }"#, "");
    assert_eq!(one.hash(), other.hash());
    assert_eq!(one, other);
}

#[test]
fn the_raw_record_does_not_affect_the_hash() {
    assert_eq!(tool_with("1", r#","raw":{"line":1}"#).hash(), tool_with("1", "").hash());
    assert_ne!(
        tool_with("1", r#","metadata":{"raw":1}"#).hash(),
        tool_with("1", "").hash(),
        "only the block's own `raw` is left out"
    );
}

#[test]
fn number_spelling_and_duplicate_keys_affect_the_hash() {
    let different = [
        "1",
        "1.0",
        "1e0",
        "1E0",
        "1e400",
        "1e401",
        r#"{"k":1,"k":2}"#,
        r#"{"k":2,"k":1}"#,
        r#"{"k":1}"#,
    ];
    let hashes: std::collections::BTreeSet<_> =
        different.iter().map(|input| tool_with(input, "").hash().to_string()).collect();
    assert_eq!(hashes.len(), different.len());
}

#[test]
fn every_visible_difference_changes_the_hash() {
    let stories = [
        "",
        "say a x",
        "say a y",
        "say b x",
        "start a x",
        "think a x",
        "say a x; say b y",
        "say b y; say a x",
        "say a x; rewind",
        "start a x; idle",
        "@A say a x",
        "@B say a x",
        "spawn c",
        "spawn c agent=A",
        "spawn c agent=A prompt=p",
        "spawn c agent=A; done c",
        "spawn c agent=A; done c output=o",
        "spawn c agent=A; spawn d agent=A",
        "spawn c agent=A; @A say a x",
    ];
    let hashes: std::collections::BTreeSet<_> =
        stories.iter().map(|story| state(story).hash().to_string()).collect();
    assert_eq!(hashes.len(), stories.len());
}

#[test]
fn the_documented_example_is_correct() {
    let blocks_of_json: Vec<&str> =
        PAGE.split("```json\n").skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect();
    let [event, shown, canonical] = blocks_of_json[..] else { panic!("the page has three") };
    let state = fold([&SessionEvent::from_json(event).unwrap()]);
    assert_eq!(printed(&state), shown);

    let json: Value = serde_json::from_str(shown).unwrap();
    let mut block = json["blocks"][0].clone();
    let hashes = [
        as_documented::hex(&as_documented::block(&block)),
        as_documented::hex(&as_documented::conversation(&json["blocks"])),
        state.hash().to_string(),
        ConversationState::default().hash().to_string(),
    ];
    block.as_object_mut().unwrap().retain(|name, _| name != "raw" && name != "conversationId");
    assert_eq!(as_documented::canonical(&block), canonical);
    assert_snapshot!(hashes.join("\n"), @"
    561246c93a66880769d84e8055f3662ab12886c662f6eb27705e19f9229bc569
    ede98c9694c8c302b5d4ede716c61bd52225a50f5dcf66d637a94d47f3ec6111
    ad54cc5f66b3f3db7d317c9f2ac900aef1eff6ac8d37544b5e74bc6f8d3ea305
    6bcb0a0a610192551ece1021b3458bc1651b9e6c8b5f526af64c336944e275e6
    ");
    for hash in hashes {
        assert!(PAGE.contains(&hash), "the page lacks {hash}");
    }
}

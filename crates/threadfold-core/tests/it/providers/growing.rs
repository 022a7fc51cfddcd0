//! A request that grows has the same verdict at every length as the whole request, and as a second
//! implementation of the rules.

use threadfold_core::RequestCheck;
use threadfold_testkit::loops::sound_loop;

use super::laws::any_message;
use super::*;

const DIALECTS: [Dialect; 3] = [Dialect::Anthropic, Dialect::Chat, Dialect::Responses];

/// Fields before the list of a request, each followed by a comma.
const FIELDS: [&str; 5] = [
    "",
    r#""model":"m","max_tokens":9,"#,
    r#""system":[{"type":"text","text":" ","cache_control":{}}],"tools":[{"cache_control":{}},{}],"#,
    r#""previous_response_id":"r9","store":true,"#,
    r#""store":false,"instructions":"\ud800 is no text","#,
];

fn request(dialect: Dialect, fields: &str, items: &[Json]) -> String {
    let items: Vec<_> = items.iter().map(Json::as_str).collect();
    let list = dialect.list();
    format!(r#"{{{fields}"{list}":[{}],"stream":true}}"#, items.join(","))
}

/// Checks every prefix of a list: added item by item, all at once, and by the second
/// implementation.
fn assert_same_verdicts(dialect: Dialect, items: &[Json]) -> Result<(), TestCaseError> {
    let mut growing = RequestCheck::new(dialect);
    for cut in 0..=items.len() {
        if let Some(added) = cut.checked_sub(1) {
            // A clone that took another way must not matter.
            let mut abandoned = growing.clone();
            items.iter().rev().for_each(|item| abandoned.push(item));
            growing.push(&items[added]);
        }
        for fields in FIELDS {
            let whole = request(dialect, fields, &items[..cut]);
            let frame = request(dialect, fields, &[]);
            let verdict = growing.verdict(frame.as_bytes(), whole.len());
            prop_assert_eq!(&verdict, &dialect.check(whole.as_bytes()), "{}", whole);
            let verdict: Vec<_> = verdict.iter().map(Violation::to_string).collect();
            prop_assert_eq!(verdict, whole::check(dialect, &whole), "{}", whole);
        }
    }
    Ok(())
}

/// Any item of any request, right or wrong.
fn any_item() -> impl Strategy<Value = Json> {
    let id = || select(vec![r#""a""#, r#""b""#, r#""""#, "null"]);
    let mark = || select(vec!["", r#","cache_control":{}"#]);
    let word = || select(vec![r#""""#, r#""x""#, r#"" ""#, r#""\ud83d\ude00""#, r#""\udc00""#]);
    let block = prop_oneof![
        (word(), mark()).prop_map(|(text, mark)| format!(r#"{{"type":"text","text":{text}{mark}}}"#)),
        (id(), mark())
            .prop_map(|(id, mark)| format!(r#"{{"type":"tool_use","id":{id}{mark}}}"#)),
        (id(), word(), mark()).prop_map(|(id, text, mark)| format!(
            r#"{{"type":"tool_result","tool_use_id":{id},"content":[{{"type":"text","text":{text}{mark}}}]}}"#
        )),
        (id(), word()).prop_map(|(id, text)| format!(
            r#"{{"type":"tool_result","tool_use_id":{id},"content":{text}}}"#
        )),
        id().prop_map(|id| format!(r#"{{"type":"server_tool_use","id":{id}}}"#)),
        id().prop_map(|id| format!(r#"{{"type":"web_tool_result","tool_use_id":{id}}}"#)),
        (word(), mark())
            .prop_map(|(it, mark)| format!(r#"{{"type":"thinking","signature":{it}{mark}}}"#)),
        word().prop_map(|it| format!(r#"{{"type":"redacted_thinking","data":{it}}}"#)),
        Just(r#"{"type":"image","source":{"type":"base64","data":"AA=="}}"#.to_owned()),
        Just("7".to_owned()),
    ];
    let role = || select(vec!["user", "assistant", "system", "tool", ""]);
    let content = prop_oneof![
        word().prop_map(str::to_owned),
        prop::collection::vec(block, 0..4).prop_map(|it| format!("[{}]", it.join(","))),
        Just("null".to_owned()),
    ];
    let calls = prop::collection::vec(id().prop_map(|id| format!(r#"{{"id":{id}}}"#)), 0..3)
        .prop_map(|it| format!("[{}]", it.join(",")));
    let kind = select(vec![
        "function_call",
        "function_call_output",
        "reasoning",
        "message",
        "item_reference",
        "web_search_call",
        "other",
    ]);
    let item = prop_oneof![
        (role(), content, calls, id()).prop_map(|(role, content, calls, id)| format!(
            r#"{{"role":"{role}","content":{content},"tool_calls":{calls},"tool_call_id":{id}}}"#
        )),
        (kind, id(), id(), word(), role()).prop_map(|(kind, id, call, text, role)| format!(
            r#"{{"type":"{kind}","id":{id},"call_id":{call},"encrypted_content":{text},"role":"{role}"}}"#
        )),
        Just("[]".to_owned()),
    ];
    item.prop_map(|text| Json::parse(&text).unwrap())
}

proptest! {
    #[test]
    fn any_items_have_the_verdict_of_the_whole(
        items in prop::collection::vec(any_item(), 0..9),
    ) {
        for dialect in DIALECTS {
            assert_same_verdicts(dialect, &items)?;
        }
    }

    #[test]
    fn any_rendered_history_has_the_verdict_of_the_whole(
        history in prop::collection::vec(any_message(), 0..9),
        is_repaired: bool,
    ) {
        let history = if is_repaired { repair(&history).messages } else { history };
        for dialect in DIALECTS {
            assert_same_verdicts(dialect, &dialect.items(&history))?;
        }
    }

    #[test]
    fn a_loop_truncated_anywhere_has_the_verdict_of_the_whole(
        events in prop_oneof![plausible_loop(), sound_loop("l")],
    ) {
        let mut turns = TurnState::default();
        turns.extend(&events);
        for dialect in DIALECTS {
            assert_same_verdicts(dialect, &dialect.items(&turns.history()))?;
        }
    }
}

#[test]
fn a_request_of_33_megabytes_is_too_large_however_it_grew() {
    let text = Json::string(&"x".repeat(3_300_000));
    let content = format!(r#"{{"role":"user","content":{}}}"#, text.as_str());
    let item = Json::parse(&content).unwrap();
    let items = vec![item.clone(); 10];
    let mut growing = RequestCheck::new(Dialect::Anthropic);
    items.iter().for_each(|item| growing.push(item));
    let whole = request(Dialect::Anthropic, "", &items);
    let frame = request(Dialect::Anthropic, "", &[]);
    let verdict = growing.verdict(frame.as_bytes(), whole.len());
    assert_eq!(verdict, Dialect::Anthropic.check(whole.as_bytes()));
    assert_eq!(verdict[0].rule, ProviderRule::A8);
}

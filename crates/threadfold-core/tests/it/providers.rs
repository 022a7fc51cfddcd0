//! What providers refuse: each rule is broken once, and every repaired history breaks none.

use insta::assert_snapshot;
use proptest::prelude::*;
use proptest::sample::select;
use threadfold_core::{
    ConversationMessage, Dialect, Json, MessagePart, Repaired, Role, Rule, ToolCall, TurnState,
    Violation, check_anthropic, check_anthropic_continuation, check_chat, check_responses,
    render_anthropic, render_chat, render_responses, repair,
};
use threadfold_testkit::loops::plausible_loop;

fn listed(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("\n")
}

fn user(text: &str) -> ConversationMessage {
    ConversationMessage::text(Role::User, text)
}

fn calling(calls: &[&str]) -> ConversationMessage {
    let tool_calls = calls.iter().map(|call| ToolCall::new(*call, "Bash", "{}")).collect();
    ConversationMessage { tool_calls, ..ConversationMessage::new(Role::Assistant) }
}

fn thinking_and_calling(call: &str) -> ConversationMessage {
    ConversationMessage { content: vec![MessagePart::thinking("hm", "sig")], ..calling(&[call]) }
}

fn result(call: &str) -> ConversationMessage {
    ConversationMessage::result(call, "out")
}

fn native(provider: &str, item: &str) -> MessagePart {
    MessagePart::native(provider, Json::parse(item).unwrap())
}

mod broken {
    use super::*;

    /// A request that breaks no rule, for the mutants to be made of.
    const GOOD: &str = r#"{"system":[{"type":"text","text":"s"}],"messages":[
        {"role":"user","content":"look"},
        {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},
            {"type":"server_tool_use","id":"s1","name":"web_search","input":{}},
            {"type":"web_search_tool_result","tool_use_id":"s1","content":[]},
            {"type":"tool_use","id":"c1","name":"Bash","input":{}},
            {"type":"tool_use","id":"c2","name":"Bash","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"out"},
            {"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"out"}]},
            {"type":"text","text":"go on"}]}]}"#;

    fn mutant(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        let found = check_anthropic(GOOD.replace(from, to).as_bytes());
        format!("{}\n", listed(&found))
    }

    #[test]
    fn a_good_request_breaks_no_rule_of_anthropics() {
        assert_eq!(check_anthropic(GOOD.as_bytes()), []);
        assert_eq!(check_anthropic(b"[]"), []);
    }

    #[test]
    fn each_rule_of_anthropics_is_broken_once() {
        let mutants = [
            mutant(r#"{"type":"tool_result","tool_use_id":"c1","content":"out"},"#, ""),
            mutant(
                r#"[{"type":"tool_result","tool_use_id":"c1","content":"out"}"#,
                r#"[{"type":"text","text":"no"},{"type":"tool_result","tool_use_id":"c1","content":"out"}"#,
            ),
            mutant(
                r#""tool_use_id":"c1","content":"out"}"#,
                r#""tool_use_id":"c1","content":"out"},{"type":"tool_result","tool_use_id":"c9","content":"out"}"#,
            ),
            mutant(
                r#""tool_use_id":"c1","content":"out"}"#,
                r#""tool_use_id":"c1","content":"out"},{"type":"tool_result","tool_use_id":"c1","content":"out"}"#,
            ),
            mutant(r#""id":"c2""#, r#""id":"c1""#),
            mutant(r#"{"role":"user","content":"look"},"#, ""),
            mutant(
                r#"{"role":"user","content":"look"}"#,
                r#"{"role":"user","content":"look"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"}]}"#,
            ),
            mutant(r#""role":"user","content":"look""#, r#""role":"system","content":"look""#),
            mutant(r#""content":"look""#, r#""content":" \n""#),
            mutant(r#""content":"look""#, r#""content":[]"#),
            mutant(r#""content":"out""#, r#""content":"""#),
            mutant(r#""content":"out""#, r#""content":[]"#),
            mutant(r#","signature":"sig""#, ""),
            mutant(
                r#""signature":"sig""#,
                r#""signature":"sig","cache_control":{"type":"ephemeral"}"#,
            ),
            mutant("look", r"look \ud800"),
            mutant(r#"{"role":"user","content":"look"},"#, r#"{"role":"user","content":"look"},,"#),
            mutant(r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[]},"#, ""),
            mutant(r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{}},"#, ""),
        ];
        assert_snapshot!(mutants.concat(), @"
        A1 at `messages.1`: call `c1` has no result in the next message
        A1 at `messages.2.content.2`: a result behind `text`
        A2 at `messages.2`: a result for `c9`, which is no call of the message before
        A2 at `messages.2`: a second result for `c1`
        A2 at `messages.1`: a second call `c1`
        A2 at `messages.2`: a result for `c2`, which is no call of the message before
        A3 at `messages.0`: `assistant` speaks first
        A3 at `messages.1`: the message ends with `thinking`
        A3 at `messages.0`: the role `system`
        A3 at `messages.0`: `system` speaks first
        A4 at `messages.0.content.0`: an empty text
        A4 at `messages.0`: no content
        A4 at `messages.2.content.0`: an empty output
        A4 at `messages.2.content.0`: an empty output
        A5 at `messages.1.content.0`: `thinking` without `signature`
        A5 at `messages.1.content.0`: `thinking` with `cache_control`
        A7 at ``: a lone surrogate
        A7 at ``: expected value at line 2 column 42
        A10 at `messages.1.content.1`: `s1` has no result
        A10 at `messages.1.content.1`: a result for `s1` without its call
        ");
    }

    #[test]
    fn every_rule_is_in_the_reference() {
        let page = include_str!("../../../../docs/reference/provider-rules.md");
        let told: Vec<_> =
            page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let rules: Vec<_> = Rule::ALL.iter().map(Rule::to_string).collect();
        assert_eq!(told, rules);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        assert_eq!(check_anthropic(b"[\"\xff\"]")[0].rule, Rule::A7);
        assert_eq!(check_chat(b"[\"\xff\"]")[0].rule, Rule::A7);
        assert_eq!(check_responses(b"[\"\xff\"]", |_| true)[0].rule, Rule::A7);
    }

    #[test]
    fn a_pair_of_surrogates_and_an_escaped_escape_are_text() {
        assert_eq!(check_anthropic(br#"[{"role":"user","content":"\ud83d\ude00 \\ud800"}]"#), []);
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let data = "A".repeat(5_000_001);
        let image = format!(
            r#"[{{"role":"user","content":[{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}]}}]"#
        );
        assert_eq!(check_anthropic(image.as_bytes())[0].rule, Rule::A8);
        let text = format!(r#"[{{"role":"user","content":"{}"}}]"#, "a".repeat(32_000_000));
        assert_eq!(check_anthropic(text.as_bytes())[0].rule, Rule::A8);
    }

    #[test]
    fn a_fifth_mark_is_refused() {
        let request = |marks: usize| {
            let block = r#"{"type":"text","text":"t","cache_control":{"type":"ephemeral"}}"#;
            let blocks = vec![block; marks].join(",");
            format!(r#"{{"system":[{block}],"messages":[{{"role":"user","content":[{blocks}]}}]}}"#)
        };
        assert_eq!(check_anthropic(request(3).as_bytes()), []);
        assert_eq!(check_anthropic(request(4).as_bytes())[0].rule, Rule::A9);
    }

    #[test]
    fn thinking_and_what_stands_before_it_go_back_as_they_were() {
        let before = r#"{"system":"s","tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"look"}]}"#;
        let answer = r#"{"content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"tool_use","id":"c1","name":"Bash","input":{}}]}"#;
        let after = r#"{"system":"s","tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"look"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{"type":"tool_use","id":"c1","name":"Bash","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"out"}]}]}"#;
        let check = |from: &str, to: &str| {
            assert!(after.contains(from), "{from}");
            let request = after.replacen(from, to, 1);
            let found = check_anthropic_continuation(
                before.as_bytes(),
                answer.as_bytes(),
                request.as_bytes(),
            );
            format!("{}\n", listed(&found))
        };
        assert_eq!(check("look", "look"), "\n");
        let found = [
            check(r#""thinking":"hm""#, r#""thinking": "hm""#),
            check(r#"{"type":"thinking","thinking":"hm","signature":"sig"},"#, ""),
            check(r#""system":"s""#, r#""system":"t""#),
            check(r#"{"name":"Bash"}"#, r#"{ "name":"Bash"}"#),
            check("look", "look!"),
        ];
        assert_snapshot!(found.concat(), @"
        A5 at `messages.1`: 1 thinking blocks, not as the 1 given
        A5 at `messages.1`: 0 thinking blocks, not as the 1 given
        A6 at `system`: it changed since the thinking was made
        A6 at `tools`: it changed since the thinking was made
        A6 at `messages.0`: it changed since the thinking was made
        ");
    }

    #[test]
    fn each_rule_of_openais_is_broken_once() {
        let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1"},{"id":"c2"}]}"#;
        let result = |id: &str| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"o"}}"#);
        let user = r#"{"role":"user","content":"u"}"#;
        let chat = |messages: &[&str]| {
            let request = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
            format!("{}\n", listed(&check_chat(request.as_bytes())))
        };
        let (first, second) = (result("c1"), result("c2"));
        assert_eq!(chat(&[user, call, &second, &first, user]), "\n");
        let item = |kind: &str, rest: &str| format!(r#"{{"type":"{kind}",{rest}}}"#);
        let call_item = item("function_call", r#""call_id":"c1","name":"Bash","arguments":"{}""#);
        let output = item("function_call_output", r#""call_id":"c1","output":"o""#);
        let reasoning = item("reasoning", r#""id":"r1","summary":[],"encrypted_content":"AA==""#);
        let by_id = item("reasoning", r#""id":"r1","summary":[]"#);
        let prompt = item("message", r#""role":"user","content":[]"#);
        let responses = |fields: &str, items: &[&str]| {
            let request = format!(r#"{{{fields}"input":[{}]}}"#, items.join(","));
            let found = check_responses(request.as_bytes(), |id| id == "kept");
            format!("{}\n", listed(&found))
        };
        assert_eq!(responses("", &[&prompt, &reasoning, &call_item, &output]), "\n");
        assert_eq!(responses(r#""store":true,"#, &[&prompt, &by_id, &call_item, &output]), "\n");
        assert_eq!(responses(r#""previous_response_id":"kept","#, &[&output]), "\n");
        let found = [
            chat(&[user, call, &first, user]),
            chat(&[user, call, &first]),
            chat(&[user, &first]),
            chat(&[user, call, &first, &first, &second]),
            responses("", &[&prompt, &call_item]),
            responses("", &[&prompt, &output]),
            responses("", &[&output, &call_item]),
            responses("", &[&call_item, &output, &call_item, &output]),
            responses("", &[&prompt, &reasoning]),
            responses("", &[&reasoning, &prompt]),
            responses("", &[&reasoning, &reasoning, &call_item, &output]),
            responses("", &[&by_id, &call_item, &output]),
            responses("", &[r#"{"type":"item_reference","id":"x"}"#]),
            responses(r#""previous_response_id":"gone","#, &[&prompt]),
        ];
        assert_snapshot!(found.concat(), @"
        O1 at `messages.3`: call `c2` has no result before this
        O1 at `messages.3`: call `c2` has no result
        O1 at `messages.1`: a result for `c1`, which waits for none
        O1 at `messages.3`: a result for `c1`, which waits for none
        O2 at `input.1`: call `c1` has no output
        O2 at `input.1`: an output for `c1`, which waits for none
        O2 at `input.0`: an output for `c1`, which waits for none
        O2 at `input.1`: call `c1` has no output
        O2 at `input.2`: a second call `c1`
        O3 at `input.1`: reasoning without the item that it belongs to
        O3 at `input.0`: reasoning without the item that it belongs to
        O3 at `input.1`: a second item `r1`
        O4 at `input.0`: reasoning without `encrypted_content`
        O4 at `input.0`: an item by its id
        O5 at `previous_response_id`: response `gone` was not stored
        ");
    }
}

mod rendered {
    use super::*;

    fn history() -> Vec<ConversationMessage> {
        let mut answer = calling(&["c1"]);
        answer.content = vec![
            MessagePart::thinking("hm", "sig"),
            native("anthropic", r#"{ "type":"redacted_thinking","data":"AA==" }"#),
            native("openai", r#"{ "type":"reasoning","id":"r1","encrypted_content":"AA==" }"#),
            MessagePart::text("I look."),
            MessagePart::text(" "),
        ];
        answer.tool_calls.push(ToolCall::new("c2", "Bash", r#"{ "z": 1.0, "a": "\ud800" }"#));
        answer.tool_calls.push(ToolCall::new("c3", "Bash", "{ not json"));
        let mut prompt = user("look");
        prompt
            .content
            .push(serde_part(r#"{"type":"image","mediaType":"image/png","data":"AA=="}"#));
        let mut failed = ConversationMessage::result("c2", "");
        failed.is_error = true;
        vec![
            ConversationMessage::text(Role::System, "be kind"),
            prompt,
            answer,
            result("c1"),
            failed,
            result("c3"),
            user("thanks"),
        ]
    }

    fn serde_part(part: &str) -> MessagePart {
        let message = format!(r#"{{"role":"user","content":[{part}]}}"#);
        ConversationMessage::from_json(&message).unwrap().content.remove(0)
    }

    #[test]
    fn for_anthropic() {
        assert_snapshot!(render_anthropic(&history()), @r#"[{"role":"user","content":[{"type":"text","text":"be kind"}]},{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},{ "type":"redacted_thinking","data":"AA==" },{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"Bash","input":{}},{"type":"tool_use","id":"c2","name":"Bash","input":{ "z": 1.0, "a": "\ufffd" }},{"type":"tool_use","id":"c3","name":"Bash","input":{"arguments":"{ not json"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"out"}]},{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"(no output)"}],"is_error":true},{"type":"tool_result","tool_use_id":"c3","content":[{"type":"text","text":"out"}]}]},{"role":"user","content":[{"type":"text","text":"thanks"}]}]"#);
    }

    #[test]
    fn for_chat_completions() {
        assert_snapshot!(render_chat(&history()), @r#"[{"role":"system","content":"be kind"},{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]},{"role":"assistant","content":"I look. ","tool_calls":[{"id":"c1","type":"function","function":{"name":"Bash","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"Bash","arguments":"{ \"z\": 1.0, \"a\": \"\\ud800\" }"}},{"id":"c3","type":"function","function":{"name":"Bash","arguments":"{ not json"}}]},{"role":"tool","content":"out","tool_call_id":"c1"},{"role":"tool","content":"(no output)","tool_call_id":"c2"},{"role":"tool","content":"out","tool_call_id":"c3"},{"role":"user","content":"thanks"}]"#);
    }

    #[test]
    fn for_responses() {
        assert_snapshot!(render_responses(&history()), @r#"[{"type":"message","role":"system","content":[{"type":"input_text","text":"be kind"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,AA=="}]},{ "type":"reasoning","id":"r1","encrypted_content":"AA==" },{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},{"type":"function_call","call_id":"c1","name":"Bash","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"Bash","arguments":"{ \"z\": 1.0, \"a\": \"\\ud800\" }"},{"type":"function_call","call_id":"c3","name":"Bash","arguments":"{ not json"},{"type":"function_call_output","call_id":"c1","output":"out"},{"type":"function_call_output","call_id":"c2","output":"(no output)"},{"type":"function_call_output","call_id":"c3","output":"out"},{"type":"message","role":"user","content":[{"type":"input_text","text":"thanks"}]}]"#);
    }

    #[test]
    fn a_call_as_its_provider_spelt_it_goes_back_as_that() {
        let mut answer = calling(&["c1"]);
        answer.content = vec![
            native("anthropic", r#"{ "type":"tool_use","id":"c1","name":"Bash","input":{ } }"#),
            native(
                "openai",
                r#"{ "type":"function_call","id":"f1","call_id":"c1","name":"Bash","arguments":"{}" }"#,
            ),
        ];
        let said = [render_anthropic(&[user("u"), answer.clone()]), render_responses(&[answer])];
        assert_snapshot!(said.map(|it| it.to_string()).join("\n"), @r#"
        [{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant","content":[{ "type":"tool_use","id":"c1","name":"Bash","input":{ } }]}]
        [{ "type":"function_call","id":"f1","call_id":"c1","name":"Bash","arguments":"{}" }]
        "#);
    }

    #[test]
    fn words_go_back_to_their_provider_in_the_item_that_it_said_them_in() {
        let block = r#"{"type":"text","text":"hi","citations":[{ "z":1 }]}"#;
        let item = r#"{"id":"m1","type":"message","content":[{"type":"output_text","text":"hi"}]}"#;
        let said = |provider: &str, item: &str| {
            let mut answer = ConversationMessage::new(Role::Assistant);
            let item = Json::parse(item).unwrap();
            answer.content = vec![MessagePart::text("hi").spelt(provider, item)];
            answer
        };
        let plain = ConversationMessage::text(Role::Assistant, "hi");
        let both = [said("anthropic", block), said("openai", item)];
        assert_eq!(
            Dialect::Anthropic.items(&both[..1])[0].as_str(),
            format!(r#"{{"role":"assistant","content":[{block}]}}"#)
        );
        assert_eq!(Dialect::Responses.items(&both[1..])[0].as_str(), item);
        let others = [Dialect::Anthropic.items(&both[1..]), Dialect::Responses.items(&both[..1])];
        let of_plain =
            [Dialect::Anthropic, Dialect::Responses].map(|it| it.items(&[plain.clone()]));
        assert_eq!(others, of_plain);
        let again = ConversationMessage::from_json(Json::of(&both[0]).as_str()).unwrap();
        assert_eq!(again, both[0]);
    }

    #[test]
    fn reasoning_that_is_not_encrypted_or_that_nothing_follows_is_left_out() {
        let encrypted = r#"{"type":"reasoning","id":"r1","encrypted_content":"AA=="}"#;
        let mut answer = ConversationMessage::new(Role::Assistant);
        answer.content = vec![
            native("openai", r#"{"type":"reasoning","id":"r0"}"#),
            MessagePart::text("hi"),
            native("openai", encrypted),
            MessagePart::text(" "),
        ];
        assert_snapshot!(render_responses(&[answer]), @r#"[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}]"#);
    }

    #[test]
    fn an_answer_that_speaks_first_gets_a_prompt_before_it() {
        let rendered =
            render_anthropic(&[user(" "), ConversationMessage::text(Role::Assistant, "hi")]);
        assert_eq!(check_anthropic(rendered.as_str().as_bytes()), []);
        assert_snapshot!(rendered, @r#"[{"role":"user","content":[{"type":"text","text":"(continued)"}]},{"role":"assistant","content":[{"type":"text","text":"hi"}]}]"#);
    }
}

mod repaired {
    use super::*;

    /// Tells what is left of a history, and what was done to it.
    fn told(history: &[ConversationMessage]) -> String {
        let Repaired { messages, repairs, untouched } = repair(history);
        let lines = messages.iter().map(|it| {
            let calls: Vec<_> = it.tool_calls.iter().map(|call| call.call_id.as_str()).collect();
            let answers = it.tool_call_id.as_ref().map_or("", |call| call.as_str());
            let error = if it.is_error { " error" } else { "" };
            format!("{} {}{}{error} {:?}", it.role, calls.join(","), answers, it.to_text())
        });
        let mut lines: Vec<_> = lines.collect();
        lines.insert(untouched, "---".to_owned());
        lines.extend(repairs.iter().map(|it| format!("! {it}")));
        lines.join("\n")
    }

    #[test]
    fn a_call_at_the_end_gets_a_result_and_nothing_else_changes() {
        assert_snapshot!(told(&[user("u"), thinking_and_calling("c1")]), @r#"
        user  "u"
        assistant c1 ""
        ---
        tool c1 error "interrupted; its outcome is not known"
        ! call `c1` had no result: one was added
        "#);
        let thinking = ConversationMessage {
            content: vec![MessagePart::thinking("hm", "sig")],
            ..calling(&["c1", "c2"])
        };
        assert_snapshot!(told(&[user("u"), thinking, result("c2")]), @r#"
        user  "u"
        assistant c1,c2 ""
        tool c2 "out"
        ---
        tool c1 error "interrupted; its outcome is not known"
        ! call `c1` had no result: one was added
        "#);
    }

    #[test]
    fn a_defect_in_the_middle_costs_the_thinking_behind_it() {
        let history = [
            user("u"),
            thinking_and_calling("c1"),
            result("c1"),
            thinking_and_calling("c2"),
            user("and now"),
            thinking_and_calling("c3"),
            result("c3"),
        ];
        assert_snapshot!(told(&history), @r#"
        user  "u"
        assistant c1 ""
        tool c1 "out"
        assistant c2 ""
        ---
        tool c2 error "interrupted; its outcome is not known"
        user  "and now"
        assistant c3 ""
        tool c3 "out"
        ! call `c2` had no result: one was added
        ! thinking was dropped from message 5
        "#);
        assert_eq!(repair(&history).messages[3], history[3], "made before the defect");
    }

    #[test]
    fn a_providers_own_thinking_goes_with_the_rest_and_the_call_stays() {
        let mut late = thinking_and_calling("c2");
        late.content.extend([
            native("anthropic", r#"{"type":"redacted_thinking","data":"AA=="}"#),
            native("openai", r#"{"type":"reasoning","id":"r1","encrypted_content":"AA=="}"#),
            native("openai", r#"{"type":"function_call","id":"f1","call_id":"c2"}"#),
            MessagePart::text("I look."),
        ]);
        let history = [user("u"), calling(&["c1"]), user("and now"), late, result("c2")];
        let kept = &repair(&history).messages[4];
        assert_eq!(kept.content, [MessagePart::text("I look.")]);
        assert_eq!(kept.tool_calls, calling(&["c2"]).tool_calls);
    }

    #[test]
    fn a_late_result_is_moved_and_a_stray_one_dropped() {
        let history = [
            user("u"),
            calling(&["c1"]),
            user("and now"),
            result("c1"),
            result("c1"),
            result("c9"),
        ];
        assert_snapshot!(told(&history), @r#"
        user  "u"
        assistant c1 ""
        ---
        tool c1 "out"
        user  "and now"
        ! the result of call `c1` was moved to its call
        ! message 4 was dropped: nothing waits for a result of `c1`
        ! message 5 was dropped: nothing waits for a result of `c9`
        "#);
    }

    #[test]
    fn a_result_is_not_taken_from_a_later_call_of_the_same_name() {
        let mut kept = result("c1");
        kept.content = vec![MessagePart::text("later")];
        let history =
            [user("u"), calling(&["c1", "c2"]), user("u"), calling(&["c1"]), kept, result("c2")];
        assert_snapshot!(told(&history), @r#"
        user  "u"
        assistant c1,c2 ""
        ---
        tool c2 "out"
        tool c1 error "interrupted; its outcome is not known"
        user  "u"
        assistant c1-2 ""
        tool c1-2 "later"
        ! the result of call `c2` was moved to its call
        ! call `c1` had no result: one was added
        ! a second call `c1` was renamed to `c1-2`
        "#);
    }

    #[test]
    fn two_calls_of_one_name_get_two() {
        let history = [
            user("u"),
            calling(&["c", "c"]),
            result("c"),
            result("c"),
            calling(&["c"]),
            result("c"),
        ];
        assert_snapshot!(told(&history), @r#"
        user  "u"
        ---
        assistant c,c-2 ""
        tool c "out"
        tool c-2 "out"
        assistant c-3 ""
        tool c-3 "out"
        ! a second call `c` was renamed to `c-2`
        ! a second call `c` was renamed to `c-3`
        "#);
        let history = [user("u"), calling(&["c"]), user("u"), calling(&["c"]), result("c")];
        assert_snapshot!(told(&history), @r#"
        user  "u"
        assistant c ""
        ---
        tool c error "interrupted; its outcome is not known"
        user  "u"
        assistant c-2 ""
        tool c-2 "out"
        ! call `c` had no result: one was added
        ! a second call `c` was renamed to `c-2`
        "#);
    }

    #[test]
    fn items_that_stand_alone_or_twice_are_dropped() {
        let mut first = ConversationMessage::text(Role::Assistant, "a");
        first.content.push(native("openai", r#"{"type":"web_search_call","id":"w1"}"#));
        let mut second = ConversationMessage::text(Role::Assistant, "b");
        second.content.push(native("openai", r#"{"type":"web_search_call","id":"w1"}"#));
        second.content.push(native("anthropic", r#"{"type":"server_tool_use","id":"s1"}"#));
        second.content.push(native("anthropic", r#"{"type":"x_tool_result","tool_use_id":"s2"}"#));
        second.content.push(native("anthropic", r#"{"type":"x","text":"\udc00"}"#));
        assert_snapshot!(told(&[user("u"), first, second]), @r#"
        user  "u"
        assistant  "a"
        ---
        assistant  "b"
        ! an item of `openai` was dropped from message 2
        ! an item of `anthropic` was dropped from message 2
        ! an item of `anthropic` was dropped from message 2
        ! an item of `anthropic` was dropped from message 2
        "#);
    }

    #[test]
    fn an_image_is_dropped_when_it_would_be_refused_and_not_before() {
        let with_image = |size: usize| {
            let data = "A".repeat(size);
            let message = format!(
                r#"{{"role":"user","content":[{{"type":"text","text":"see"}},{{"type":"image","data":"{data}"}}]}}"#
            );
            [ConversationMessage::from_json(&message).unwrap()]
        };
        let largest = with_image(5_000_000);
        assert_eq!(repair(&largest).messages, largest);
        assert_eq!(broken(&largest), []);
        let too_large = with_image(5_000_001);
        assert_eq!(broken(&too_large)[0].rule, Rule::A8);
        assert_snapshot!(told(&too_large), @r#"
        ---
        user  "see"
        ! an image that was too large was dropped from message 0
        "#);
    }

    #[test]
    fn arguments_of_any_depth_are_rendered_and_checked() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let mut asked = ConversationMessage::new(Role::Assistant);
        asked.tool_calls.push(ToolCall::new("c1", "Bash", &deep));
        let repaired = repair(&[user("u"), asked]);
        assert!(render_anthropic(&repaired.messages).as_str().contains(&deep));
        assert_eq!(broken(&repaired.messages), []);
    }
}

/// Returns all rules that a repaired history breaks, with any provider.
fn broken(messages: &[ConversationMessage]) -> Vec<Violation> {
    let mut found = check_anthropic(render_anthropic(messages).as_str().as_bytes());
    found.extend(check_chat(render_chat(messages).as_str().as_bytes()));
    found.extend(check_responses(render_responses(messages).as_str().as_bytes(), |_| false));
    found
}

/// Returns a rendered list without what closes it.
fn opened(rendered: &Json) -> String {
    rendered.as_str().trim_end_matches([']', '}']).to_owned()
}

fn assert_repaired(history: &[ConversationMessage]) -> Result<Repaired, TestCaseError> {
    let repaired = repair(history);
    prop_assert_eq!(broken(&repaired.messages), [], "{:?}", repaired);
    let kept = &history[..repaired.untouched];
    let spelt = |messages: &[ConversationMessage]| Json::of(messages).to_string();
    prop_assert_eq!(spelt(kept), spelt(&repaired.messages[..kept.len()]));
    for render in [render_anthropic, render_chat, render_responses] {
        let whole = render(&repaired.messages);
        prop_assert!(
            whole.as_str().starts_with(&opened(&render(kept))),
            "{} {}",
            whole,
            render(kept)
        );
    }
    prop_assert_eq!(repair(&repaired.messages).repairs, [], "repaired once, it stays");
    prop_assert_eq!(repaired.repairs.is_empty(), repaired.messages == history);
    Ok(repaired)
}

fn any_message() -> impl Strategy<Value = ConversationMessage> {
    let call = || select(vec!["c1", "c2", "c3"]);
    let part = prop_oneof![
        select(vec!["", " ", "x"]).prop_map(MessagePart::text),
        Just(MessagePart::thinking("hm", "sig")),
        Just(MessagePart::thinking("hm", "")),
        select(vec![
            ("anthropic", r#"{"type":"redacted_thinking","data":"AA=="}"#),
            ("anthropic", r#"{"type":"server_tool_use","id":"s1"}"#),
            ("anthropic", r#"{"type":"x_tool_result","tool_use_id":"s1"}"#),
            ("anthropic", r#"{"type":"tool_use","id":"c1","name":"Bash","input":{}}"#),
            ("anthropic", r#"{"type":"text","text":""}"#),
            ("openai", r#"{"type":"reasoning","id":"r1","encrypted_content":"AA=="}"#),
            ("openai", r#"{"type":"reasoning","id":"r2","encrypted_content":"AA=="}"#),
            ("openai", r#"{"type":"reasoning","id":"r3"}"#),
            (
                "openai",
                r#"{"type":"function_call","id":"f1","call_id":"c1","name":"B","arguments":""}"#
            ),
            ("openai", r#"{"type":"hologram","id":"r1"}"#),
            ("other", r#"["\ud800"]"#),
        ])
        .prop_map(|(provider, item)| native(provider, item)),
    ];
    let roles = vec![Role::System, Role::User, Role::Assistant, Role::Assistant, Role::Tool];
    let calls = prop::collection::vec(call(), 0..3);
    (select(roles), prop::collection::vec(part, 0..4), calls, prop::option::weighted(0.9, call()))
        .prop_map(|(role, content, calls, answers)| ConversationMessage {
            role,
            content,
            tool_call_id: answers.map(Into::into),
            ..calling(&calls)
        })
}

proptest! {
    #[test]
    fn a_loop_cut_at_every_event_is_taken_by_every_provider(events in plausible_loop()) {
        let mut turns = TurnState::default();
        for cut in 0..=events.len() {
            let repaired = assert_repaired(&turns.history())?;
            let only_appended = repaired.repairs.iter().all(|it| {
                matches!(it, threadfold_core::Repair::ResultAdded { .. })
            });
            if only_appended {
                prop_assert_eq!(repaired.untouched, turns.history().len());
            }
            turns.extend(events.get(cut));
        }
    }

    #[test]
    fn any_history_is_taken_by_every_provider_once_repaired(
        history in prop::collection::vec(any_message(), 0..12),
    ) {
        assert_repaired(&history)?;
    }

    #[test]
    fn a_check_never_panics(request in "[\\[\\]{}\",:a-z_\\\\ud8]{0,60}") {
        let bytes = request.as_bytes();
        check_anthropic(bytes);
        check_chat(bytes);
        check_responses(bytes, |_| true);
        check_anthropic_continuation(bytes, bytes, bytes);
    }
}

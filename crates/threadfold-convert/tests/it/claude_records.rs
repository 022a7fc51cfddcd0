//! Records of Claude Code of which the meaning is easy to miss.

use insta::assert_snapshot;
use serde_json::{Value, json};
use threadfold_convert::claude;
use threadfold_core::{BlockBody, Content, Payload};
use threadfold_fold::{SessionFile, SessionSummary, parse_transcript};
use threadfold_testkit::story::show;

use crate::regressions::{
    answer, call, file_events, folded, jsonl, line, main_path, prompt, result, shown, text,
};

/// Folds a main file and one file of a subagent.
fn with_subagent(agent: &str, lines: &[serde_json::Value]) -> String {
    let main = jsonl(&[prompt("u1", None, "go")]);
    let inside = jsonl(lines);
    let path = main_path().replace(".jsonl", &format!("/subagents/agent-{agent}.jsonl"));
    let files = [
        SessionFile { path: &main_path(), bytes: &main },
        SessionFile { path: &path, bytes: &inside },
    ];
    show(&parse_transcript(claude::AGENT, &files))
}

#[test]
fn the_agents_own_helpers_are_internal() {
    for helper in ["aprompt_suggestion-3f9", "acompact-b4f630", "aside_question-0a1", "acompact"] {
        let shown =
            with_subagent(helper, &[answer("a1", "u1", "m1", json!([text("Next: test.")]))]);
        assert_eq!(
            shown,
            format!(
                "u1 user_message \"go\"\n[{helper} success internal]\n  m1:0 assistant_text \"Next: test.\"\n"
            )
        );
    }
}

#[test]
fn an_agent_that_was_only_warmed_up_is_internal() {
    let lines = [prompt("w1", None, "Warmup"), answer("w2", "w1", "m1", json!([text("Ready.")]))];
    assert_snapshot!(with_subagent("a105e0a", &lines), @r#"
    u1 user_message "go"
    [a105e0a success internal]
      w1 user_message "Warmup"
      m1:0 assistant_text "Ready."
    "#);
}

#[test]
fn a_subagent_without_a_call_is_not_internal_by_that() {
    for name in ["acompactor-1", "a1b2c3d4e5f60718a", "aside-question"] {
        let shown = with_subagent(name, &[prompt("w1", None, "Warmup the oven")]);
        assert!(!shown.contains("internal"), "{shown}");
    }
}

#[test]
fn a_microcompaction_takes_only_the_listed_outputs_out_of_the_context() {
    let boundary = line(
        "system",
        "b1",
        Some("r2"),
        json!({"subtype": "microcompact_boundary", "content": "Context microcompacted",
            "microcompactMetadata": {"trigger": "auto", "compactedToolIds": ["c1", "gone"]}}),
    );
    assert_snapshot!(
        shown(&[
            prompt("u1", None, "first prompt"),
            answer("a1", "u1", "m1", json!([text("an answer"), call("c1", "Read"), call("c2", "Read")])),
            result("r1", "a1", "c1", json!("long")),
            result("r2", "a1", "c2", json!("short")),
            boundary,
            answer("a2", "b1", "m2", json!([text("it goes on")])),
        ]),
        @r#"
    u1 user_message "first prompt"
    m1:0 assistant_text "an answer"
    c1 tool_use "Read"
    c2 tool_use "Read"
    result:c1 tool_result inactive "long"
    result:c2 tool_result "short"
    b1 system ""
    m2:0 assistant_text "it goes on"
    "#
    );
}

#[test]
fn an_id_of_another_type_does_not_hide_the_other_outputs_that_left_the_context() {
    let boundary = line(
        "system",
        "b1",
        Some("r1"),
        json!({"subtype": "microcompact_boundary",
            "microcompactMetadata": {"compactedToolIds": [1, null, "c1"]}}),
    );
    let lines = [
        prompt("u1", None, "first prompt"),
        answer("a1", "u1", "m1", json!([call("c1", "Read")])),
        result("r1", "a1", "c1", json!("long")),
        boundary,
    ];
    let shown = shown(&lines);
    assert!(shown.contains("result:c1 tool_result inactive"), "{shown}");
    let reports = reports(&lines);
    assert_eq!(reports.len(), 1);
    assert!(reports[0].contains("no id that is a text"), "{reports:?}");
}

#[test]
fn bookkeeping_is_not_unknown_and_a_relocation_changes_the_folder() {
    let lines = [
        prompt("u1", None, "hi"),
        json!({"type": "file-history-delta", "messageId": "m", "trackingPath": "a.txt"}),
        json!({"type": "frame-link", "sessionId": "s", "frameUrl": "https://x", "title": "t"}),
        json!({"type": "relocated", "sessionId": "s", "cwd": "/b"}),
    ];
    assert_snapshot!(shown(&lines), @r#"u1 user_message "hi""#);
    let events = file_events(&jsonl(&lines));
    let folders: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::MetadataUpdate(update) => update.metadata.get("cwd")?.to_text(),
            _ => None,
        })
        .collect();
    assert_eq!(folders, ["/b"]);
}

#[test]
fn calls_and_results_without_an_id_do_not_vanish() {
    for missing in [json!({}), json!({"id": ""}), json!({"id": null})] {
        let mut nameless = json!({"type": "tool_use", "name": "bash", "input": {"command": "ls"}});
        nameless.as_object_mut().unwrap().extend(missing.as_object().unwrap().clone());
        let mut spoken = answer("a1", "u1", "", json!([text("Ok."), nameless]));
        spoken["message"].as_object_mut().unwrap().remove("id");
        let answered =
            json!({"role": "user", "content": [{"type": "tool_result", "content": "ok"}]});
        let state = folded(&[
            prompt("u1", None, "go"),
            spoken,
            line("user", "u2", Some("a1"), json!({"message": answered})),
        ]);
        assert_eq!(
            show(&state),
            "u1 user_message \"go\"\na1:0 assistant_text \"Ok.\"\na1:1 tool_use \"bash\"\nresult:a1:1 tool_result \"ok\"\n"
        );
    }
}

#[test]
fn it_is_not_guessed_which_of_two_nameless_calls_has_a_result() {
    let nameless = |name: &str| json!({"type": "tool_use", "name": name});
    let answered = json!({"role": "user", "content": [{"type": "tool_result", "content": "ok"}]});
    assert_snapshot!(
        shown(&[
            prompt("u1", None, "go"),
            answer("a1", "u1", "m1", json!([nameless("Read"), nameless("Grep")])),
            line("user", "u2", Some("a1"), json!({"message": answered})),
        ]),
        @r#"
    u1 user_message "go"
    m1:0 tool_use interrupted "Read"
    m1:1 tool_use interrupted "Grep"
    result:u2:0 tool_result "ok"
    "#
    );
}

#[test]
fn lines_without_any_id_stay_apart() {
    let spoken = |words: &str| json!({"type": "assistant", "sessionId": "s", "message": {"role": "assistant", "content": [text(words)]}});
    let asked = |words: &str| json!({"type": "user", "sessionId": "s", "message": {"role": "user", "content": words}});
    let shown = shown(&[asked("one"), spoken("first"), asked("two"), spoken("second")]);
    for words in ["one", "first", "two", "second"] {
        assert!(shown.contains(&format!("{words:?}")), "{shown}");
    }
}

/// A conversation of two messages with a call, and the same by new records.
fn told(ids: [&str; 5], words: &str) -> Vec<Value> {
    let [u1, a1, a2, u2, a3] = ids;
    vec![
        prompt(u1, None, "do it"),
        answer(a1, u1, "m1", json!([text(words)])),
        answer(a2, a1, "m1", json!([call("t1", "Read")])),
        result(u2, a2, "t1", json!("hello")),
        answer(a3, u2, "m2", json!([text("Done.")])),
    ]
}

const FIRST: [&str; 5] = ["u1", "a1", "a2", "u2", "a3"];
const AGAIN: [&str; 5] = ["v1", "b1", "b2", "v2", "b3"];

fn reports(lines: &[Value]) -> Vec<String> {
    let message = |payload: &Payload| match payload {
        Payload::Log(log) => log.message.as_deref().map(str::to_owned),
        _ => None,
    };
    file_events(&jsonl(lines)).iter().filter_map(|event| message(&event.payload)).collect()
}

#[test]
fn history_that_is_read_twice_stays_where_it_stood_first_and_is_reported() {
    let once = told(FIRST, "I read it.");
    let mut twice = once.clone();
    twice.extend(told(AGAIN, "I read it."));
    twice.push(prompt("w1", Some("b3"), "and now?"));
    twice.push(answer("c1", "w1", "m3", json!([text("More.")])));
    assert_snapshot!(shown(&twice), @r#"
    u1 user_message "do it"
    m1:0 assistant_text "I read it."
    t1 tool_use "Read"
    result:t1 tool_result "hello"
    m2:0 assistant_text "Done."
    w1 user_message "and now?"
    m3:0 assistant_text "More."
    "#);
    assert_eq!(
        reports(&twice),
        ["line 7: `m1:0` was read before: repeated history keeps its first place"]
    );
    assert!(reports(&once).is_empty());
}

#[test]
fn history_that_is_read_twice_in_other_words_keeps_both() {
    let mut twice = told(FIRST, "I read it.");
    let mut again = told(AGAIN, "I have read it.");
    again[2]["message"]["content"][0]["input"] = json!({"path": "other"});
    again[3]["message"]["content"][0]["content"] = json!("hello again");
    twice.extend(again);
    assert_snapshot!(shown(&twice), @r#"
    u1 user_message "do it"
    m1:0 assistant_text "I read it."
    m1:b1:0 assistant_text "I have read it."
    t1 tool_use "Read"
    t1:b2 tool_use "Read"
    result:t1 tool_result "hello"
    result:t1:b2 tool_result "hello again"
    m2:0 assistant_text "Done."
    "#);
    assert_eq!(reports(&twice).len(), 3, "{:?}", reports(&twice));
}

#[test]
fn what_follows_other_words_follows_both_and_each_call_has_the_result_of_its_telling() {
    let mut twice = told(FIRST, "I read it.");
    let mut again = told(AGAIN, "I read it.");
    again[2]["message"]["content"][0]["input"] = json!({"path": "other"});
    again[4]["message"]["content"][0]["text"] = json!("Done again.");
    twice.extend(again);
    twice.push(prompt("w1", Some("b3"), "and now?"));
    twice.push(answer("c1", "w1", "m3", json!([text("More.")])));
    assert_snapshot!(shown(&twice), @r#"
    u1 user_message "do it"
    m1:0 assistant_text "I read it."
    t1 tool_use "Read"
    t1:b2 tool_use "Read"
    result:t1 tool_result "hello"
    result:t1:b2 tool_result "hello"
    m2:0 assistant_text "Done."
    m2:b3:0 assistant_text "Done again."
    w1 user_message "and now?"
    m3:0 assistant_text "More."
    "#);
    let state = folded(&twice);
    for call in ["t1", "t1:b2"] {
        let result = state.blocks().iter().find_map(|block| match &block.body {
            BlockBody::ToolResult(result) if result.tool_use_id.as_str() == call => {
                Some(block.id.as_str().to_owned())
            }
            _ => None,
        });
        assert_eq!(result, Some(format!("result:{call}")));
    }
}

#[test]
fn repeated_history_below_the_same_parent_leaves_everything_active() {
    let mut twice =
        vec![prompt("u0", None, "hello"), answer("a0", "u0", "m0", json!([text("Hi.")]))];
    for ids in [FIRST, AGAIN] {
        let mut lines = told(ids, "I read it.");
        lines[0]["parentUuid"] = json!("a0");
        twice.extend(lines);
    }
    assert_snapshot!(shown(&twice), @r#"
    u0 user_message "hello"
    m0:0 assistant_text "Hi."
    u1 user_message "do it"
    m1:0 assistant_text "I read it."
    t1 tool_use "Read"
    result:t1 tool_result "hello"
    m2:0 assistant_text "Done."
    "#);
}

#[test]
fn a_prompt_that_is_sent_again_is_a_new_turn() {
    let mut lines = told(FIRST, "I read it.");
    lines.push(prompt("u9", Some("a3"), "do it"));
    lines.push(answer("a9", "u9", "m9", json!([text("I read it.")])));
    let shown = shown(&lines);
    assert!(
        shown.ends_with("u9 user_message \"do it\"\nm9:0 assistant_text \"I read it.\"\n"),
        "{shown}"
    );
    assert!(reports(&lines).is_empty());
}

#[test]
fn an_update_of_a_record_and_equal_blocks_of_one_message_are_not_repetitions() {
    let mut lines = told(FIRST, "I read it.");
    lines[2] = answer("a2", "a1", "m1", json!([text("I read it.")]));
    lines[3] = answer("u2", "a2", "m1", json!([text("I read it."), text("I read it.")]));
    lines.push(lines[4].clone());
    assert_eq!(shown(&lines).matches("I read it.").count(), 4);
    assert!(reports(&lines).is_empty());
}

#[test]
fn what_the_harness_puts_around_a_prompt_is_not_the_persons() {
    let tagged = json!([
        text("<ide_opened_file>The user opened a.rs</ide_opened_file>"),
        text("fix it <system-reminder>be brief</system-reminder>"),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
    ]);
    let state = folded(&[
        line("user", "u1", None, json!({"message": {"role": "user", "content": tagged}})),
        answer("a1", "u1", "m1", json!([text("Done.")])),
        prompt("u2", Some("a1"), "<ide_selection>fn main</ide_selection>\nexplain"),
        prompt("u3", Some("u2"), "<system-reminder>only this</system-reminder>"),
    ]);
    assert_snapshot!(show(&state), @r#"
    u1:0 system ""
    u1 user_message "2 parts"
    u1:1 system ""
    m1:0 assistant_text "Done."
    u2:0 system ""
    u2 user_message "explain"
    u3 system ""
    "#);
    let mut words = Vec::new();
    for block in state.blocks().iter() {
        match &block.body {
            BlockBody::System(it) => words.push(it.message.as_ref().unwrap().to_string()),
            BlockBody::UserMessage(it) => match &it.content {
                Content::Text(text) => words.push(text.to_string()),
                Content::Parts(parts) => words.push(format!("{:?}", parts[0].body)),
            },
            _ => {}
        }
    }
    assert_eq!(words[2], " <system-reminder>be brief</system-reminder>");
    assert_eq!(
        words[3..],
        [
            "<ide_selection>fn main</ide_selection>\n",
            "explain",
            "<system-reminder>only this</system-reminder>"
        ]
    );
    assert!(words[1].contains("fix it"), "{words:?}");
    let summary = SessionSummary::of(&state, &Default::default());
    assert_eq!(summary.first_prompt.as_deref(), Some("fix it"));
}

#[test]
fn the_title_is_the_first_prompt_even_if_it_left_the_context() {
    let boundary = line("system", "b1", None, json!({"subtype": "compact_boundary"}));
    let state = folded(&[
        prompt("u1", None, "build a boat"),
        answer("a1", "u1", "m1", json!([text("Yes.")])),
        boundary,
        prompt("u2", Some("b1"), "go on"),
    ]);
    assert!(state.blocks().find(&"u1".into()).unwrap().inactive);
    let summary = SessionSummary::of(&state, &Default::default());
    assert_eq!(summary.first_prompt.as_deref(), Some("build a boat"));
}

#[test]
fn a_queued_prompt_keeps_its_pictures() {
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}});
    let queued = |prompt: Value| {
        let attached = json!({"type": "queued_command", "commandMode": "prompt", "prompt": prompt});
        line("attachment", "q1", Some("a1"), json!({"attachment": attached}))
    };
    for (prompt, words) in
        [(json!("and this?"), "and this?"), (json!([text("and this?"), picture]), "2 parts")]
    {
        let shown = shown(&[
            crate::regressions::prompt("u1", None, "go"),
            answer("a1", "u1", "m1", json!([text("Working.")])),
            queued(prompt),
        ]);
        assert!(shown.ends_with(&format!("q1 user_message {words:?}\n")), "{shown}");
    }
}

#[test]
fn a_helper_below_a_late_turn_of_the_main_file_is_read_and_active() {
    let mut main = Vec::new();
    for turn in 0..20 {
        let above = (turn > 0).then(|| format!("a{}", turn - 1));
        let (asked, answered, message) =
            (format!("u{turn}"), format!("a{turn}"), format!("m{turn}"));
        main.push(prompt(&asked, above.as_deref(), "go"));
        main.push(answer(&answered, &asked, &message, json!([text("Ok.")])));
    }
    let helper = jsonl(&[
        prompt("h1", Some("a19"), "summarize"),
        answer("h2", "h1", "n1", json!([text("A summary.")])),
        answer("h3", "a19", "n2", json!([text("More.")])),
    ]);
    let main = jsonl(&main);
    let path = main_path().replace(".jsonl", "/subagents/agent-acompact-1.jsonl");
    let files = [
        SessionFile { path: &main_path(), bytes: &main },
        SessionFile { path: &path, bytes: &helper },
    ];
    let shown = show(&parse_transcript(claude::AGENT, &files));
    let expected = "[acompact-1 success internal]\n  h1 user_message \"summarize\"\n  n1:0 assistant_text \"A summary.\"\n  n2:0 assistant_text \"More.\"\n";
    assert!(shown.ends_with(expected), "{shown}");
}

#[test]
fn a_message_with_more_blocks_than_any_real_one_is_kept_as_one_record() {
    let blocks_of = |count: usize| {
        let content = vec![text("a"); count];
        let bytes = jsonl(&[answer("a1", "u1", "m1", json!(content))]);
        let files = [SessionFile { path: &main_path(), bytes: &bytes }];
        let state = parse_transcript(claude::AGENT, &files);
        state.blocks().iter().map(|it| it.body.kind().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(blocks_of(16_384), vec!["assistant_text"; 16_384]);
    assert_eq!(blocks_of(16_385), ["unknown"]);
}

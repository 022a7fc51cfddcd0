//! A real Claude Code plays the prepared scripts.

use serde_json::json;

use crate::real::play;

const DONE: &str = "init … result completed exit 0";

#[test]
fn text_is_emitted_once() {
    let Some(session) = play("text") else { return };
    assert_eq!(session.frame(), DONE);
    assert_eq!(
        session.main(),
        ["Every event is folded into one state; größer heißt nicht schöner."]
    );
    assert_eq!(session.requests, 1);
}

#[test]
fn thinking_keeps_its_position() {
    let Some(session) = play("thinking") else {
        return;
    };
    assert_eq!(session.frame(), DONE);
    assert_eq!(
        session.main(),
        [
            "(First the stream, then the file.)",
            "<redacted_thinking>",
            "I look at the folder.",
            "→ Bash",
            "(Both agree.)",
            "They agree, after some thought.",
        ]
    );
}

#[test]
fn tools_really_run() {
    let Some(session) = play("tools") else { return };
    assert_eq!(session.frame(), DONE);
    assert_eq!(
        session.main(),
        [
            "I write a file.",
            "→ Write",
            "→ Read",
            "Now I edit it.",
            "→ Edit",
            "→ Bash",
            "→ Bash",
            "One file written, edited and copied; one failure seen.",
        ]
    );
    assert_eq!(session.file("copy.txt"), "alpha\nBETA\ngamma\n");
    assert_eq!(session.requests, 6);
}

#[test]
fn parallel_tools_finish_in_any_order() {
    let Some(session) = play("parallel") else {
        return;
    };
    assert_eq!(session.frame(), DONE);
    assert_eq!(
        session.main(),
        ["Three at once.", "→ Bash", "→ Bash", "→ Bash", "All three finished.",]
    );
    let slow = ("toolu_tf_000001".to_owned(), json!("slow"));
    assert_eq!(session.results().pop(), Some(slow));
}

#[test]
fn a_subagent_plays_its_own_script() {
    let Some(session) = play("subagent") else {
        return;
    };
    assert_eq!(session.frame(), DONE);
    assert_eq!(session.main(), ["I delegate this.", "→ Agent", "The subagent has reported."]);
    assert_eq!(session.subagents(), [worker("child")]);
    assert_eq!(session.file("child.txt"), "child\n");
}

#[test]
fn two_subagents_play_at_once() {
    let Some(session) = play("subagents_parallel") else {
        return;
    };
    assert_eq!(session.frame(), DONE);
    assert_eq!(session.subagents(), [worker("left"), worker("right")]);
    assert_eq!(session.main().pop().unwrap(), "Both have reported.");
}

#[test]
fn a_subagent_starts_another() {
    let Some(session) = play("nested") else {
        return;
    };
    assert_eq!(session.frame(), DONE);
    let outer = ["The outer delegates.", "→ Agent", "The outer is done."];
    assert_eq!(session.subagents(), [worker("child"), outer.map(str::to_owned).to_vec()]);
    assert_eq!(session.main().pop().unwrap(), "The nested run is finished.");
    assert_eq!(session.file("child.txt"), "child\n");
}

#[test]
fn a_subagent_works_in_the_background() {
    let Some(session) = play("background") else {
        return;
    };
    assert_eq!(session.frame(), DONE);
    assert_eq!(session.subagents(), [worker("child")]);
    assert_eq!(session.file("child.txt"), "child\n");
    assert_eq!(session.file("main.txt"), "main\n");
}

#[test]
fn refused_requests_are_retried() {
    let Some(session) = play("error_retry") else {
        return;
    };
    assert_eq!(session.frame(), DONE);
    assert_eq!(session.main(), ["It worked on the third attempt."]);
    let statuses: Vec<_> =
        session.events("api_retry").map(|it| it["error_status"].clone()).collect();
    assert_eq!(statuses, [json!(529), json!(429)]);
}

#[test]
fn an_answer_continues_after_a_lost_connection() {
    let Some(session) = play("drop_midstream") else {
        return;
    };
    assert_eq!(session.frame(), DONE);
    assert_eq!(session.main(), ["A finished block before the fault.", "Here is the rest."]);
}

#[test]
fn a_tool_runs_once_although_the_connection_was_lost_after_it() {
    let Some(session) = play("drop_after_tool") else {
        return;
    };
    assert_eq!(session.frame(), DONE);
    assert_eq!(session.file("side_effect.txt"), "once\n");
    assert_eq!(session.main().pop().unwrap(), "Finished after a cut.");
}

#[test]
fn an_error_within_a_stream_is_retried() {
    let Some(session) = play("error_midstream") else {
        return;
    };
    assert_eq!(session.frame(), DONE);
    assert_eq!(
        session.main(),
        ["A finished block before the fault.", "This block is never finished.",]
    );
}

#[test]
fn a_permanently_refused_request_ends_the_run() {
    let Some(session) = play("error400") else {
        return;
    };
    assert_eq!(session.frame(), "init … result api_error exit 1");
    assert_eq!(session.main(), ["API Error: 400 the script says so"]);
}

#[test]
fn an_answer_that_is_too_long_is_continued() {
    let Some(session) = play("maxtokens") else {
        return;
    };
    assert_eq!(session.frame(), DONE);
    assert_eq!(session.main(), ["This answer is too long to", "end in one go."]);
}

/// Returns the text of a subagent in the ready scripts.
fn worker(name: &str) -> Vec<String> {
    vec![
        "(I am the subagent.)".to_owned(),
        format!("The {name} starts."),
        "→ Bash".to_owned(),
        format!("The {name} is done."),
    ]
}

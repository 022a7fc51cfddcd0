//! Control sequences in transcripts must not reach the terminal.

use serde_json::json;

use crate::claude::Transcript;
use crate::env::{TestEnv, seen};

/// Sets a title, clears the screen, turns the colour, turns the direction of writing, hides.
const EVIL: &str = "a\u{1b}]0;pwned\u{7}b\u{1b}[2Jc\u{9b}31md\u{202e}e\u{1b}]8;;http://evil\u{1b}\\f\rg\u{8}h\u{e}i\u{2066}j\u{200b}k\u{7f}l\u{85}m";

fn hostile() -> TestEnv {
    let env = TestEnv::new();
    let evil_call = format!("call{EVIL}");
    let evil_agent = format!("agent{EVIL}");
    Transcript::new("evil")
        .note(json!({"type": "custom-title", "sessionId": "evil", "customTitle": EVIL}))
        .prompt(EVIL)
        .thinks(EVIL)
        .says(&format!("# {EVIL}\n\n`{EVIL}` **{EVIL}** [{EVIL}](http://{EVIL})\n\n```{EVIL}\n{EVIL}\n```\n\n| {EVIL} |\n|---|\n| {EVIL} |\n\n<b title='{EVIL}'>\n\n- {EVIL}\n"))
        .calls("c1", EVIL, json!({"command": EVIL, EVIL: EVIL}))
        .gives("c1", EVIL)
        .calls(&evil_call, "Bash", json!([EVIL]))
        .fails(&evil_call, EVIL)
        .calls("c2", "Task", json!({"subagent_type": EVIL, "description": EVIL, "prompt": EVIL}))
        .answered_by("c2", &evil_agent, EVIL)
        .gives("nobody", json!([{"type": EVIL}, {"type": "image", "source": {"media_type": EVIL, "data": "AAAA"}}]))
        .line("system", json!({"subtype": EVIL, "content": EVIL}))
        .line(EVIL, json!({"subtype": EVIL}))
        .line("assistant", json!({
            "timestamp": EVIL,
            "message": {"id": "m", "role": "assistant", "model": EVIL, "content": [{"type": "text", "text": "x"}, {"type": EVIL}], "usage": {"input_tokens": 1}},
        }))
        .line("assistant", json!({
            "isApiErrorMessage": true,
            "message": {"id": "n", "role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": EVIL}]},
        }))
        .keep(&env, "p");
    let folder = env.path("claude/projects/p");
    std::fs::write(folder.join("broken.jsonl"), format!("{EVIL}\nnot JSON {EVIL}\n\u{0}")).unwrap();
    env
}

fn is_evil(letter: char) -> bool {
    (letter.is_control() && letter != '\n')
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}'..='\u{200f}')
}

const WAYS: [&[&str]; 8] = [
    &["list"],
    &["list", "--json"],
    &["view", "evil"],
    &["view", "evil", "--full", "--thinking"],
    &["view", "evil", "--no-subagents"],
    &["view", "evil", "--json"],
    &["view", "broken", "--full"],
    &["view", EVIL],
];

#[test]
fn nothing_harmful_is_printed() {
    let env = hostile();
    for arguments in WAYS {
        let shown = env.run(arguments);
        assert_eq!(shown.chars().find(|it| is_evil(*it)), None, "{arguments:?}\n{shown:?}");
        assert!(!shown.starts_with("exit none"), "{shown}");
    }
    assert!(env.run(&["view", "evil"]).contains(r"\u{1b}]0;pwned\u{7}"));
}

#[test]
fn with_colours_only_colours_are_printed() {
    let env = hostile();
    for options in [&["--color", "always"][..], &["--color", "always", "--full", "--thinking"]] {
        let shown = env.run(&[&["view", "evil"], options].concat());
        assert!(shown.contains("\u{1b}[1m"), "{shown}");
        assert_eq!(without_colours(&shown).chars().find(|it| is_evil(*it)), None, "{shown:?}");
    }
}

#[cfg(unix)]
#[test]
fn no_command_sends_anything_harmful_to_a_terminal() {
    let env = hostile();
    env.done(&["import"]);
    let path = env.path("claude/projects/p/evil.jsonl").display().to_string();
    let ways: [&[&str]; 12] = [
        &["fold", &path],
        &["fold", &path, "--pretty"],
        &["fold", &path, "--changes"],
        &["fold", &path, "--unknown"],
        &["log", "evil"],
        &["log", "evil", "--json", "--events"],
        &["export", "evil"],
        &["export", "evil", "--format", "events"],
        &["export", "evil", "--format", "json"],
        &["export", "evil", "--format", "markdown"],
        &["list", "--json"],
        &["verify", "--stream", &path, "--transcript", &path],
    ];
    for arguments in ways {
        let mut command = env.command(arguments);
        // On such machines a message about wrong arguments is coloured, whatever the terminal.
        command.env("TERM", "dumb").env_remove("CI");
        let shown = crate::pager::in_terminal(command);
        let is_harmful = |it: &char| is_evil(*it) && *it != '\t';
        assert_eq!(shown.chars().find(is_harmful), None, "{arguments:?}\n{shown:?}");
        assert!(!shown.starts_with("exit None"), "{arguments:?}: {shown}");
    }
    let raw = env.command(&["export", "evil"]).output().unwrap().stdout;
    let file = std::fs::read(env.path("claude/projects/p/evil.jsonl")).unwrap();
    assert_eq!(raw, file, "a pipe gets every byte");
}

/// Returns text without sequences that set one of the sixteen colours or an effect.
fn without_colours(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let mut out = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let (code, rest) = piece.split_once('m').unwrap_or(("?", piece));
        let number: Option<u8> = code.parse().ok();
        assert!(
            number.is_some_and(|it| it < 10 || (30..38).contains(&it) || (90..98).contains(&it)),
            "{code:?}"
        );
        out.push_str(rest);
    }
    out
}

#[test]
fn colours_are_off_without_a_terminal() {
    let env = hostile();
    let output = env.command(&["view", "evil"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(!seen(&output).contains('\u{1b}'));
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let env = TestEnv::new();
    let depth = 200;
    for level in 0..depth {
        let mut file = match level {
            0 => Transcript::new("deep"),
            _ => Transcript::of_agent("deep", &format!("a{level}")),
        };
        let (call, next) = (format!("c{level}"), format!("a{}", level + 1));
        file = file.prompt(format!("Level {level}"));
        file = file.calls(&call, "Task", json!({"prompt": format!("Level {}", level + 1)}));
        file.answered_by(&call, &next, "Done").keep(&env, "p");
    }
    let shown = env.run(&["view", "deep"]);
    assert!(shown.starts_with("exit 0"), "{shown}");
    let json = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let line = format!(
        r#"{{"type":"user","uuid":"u","sessionId":"s","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c","content":{json}}}]}}}}"#
    );
    env.write("s.jsonl", line);
    let shown = env.run(&["view", "s.jsonl", "--full"]);
    assert!(shown.starts_with("exit 0"), "{}", &shown[..200]);
}

//! A rollout of Codex: every text as an item and as a response item, every call with its item.

use std::io;

use super::chance::Chance;
use super::{Lines, TranscriptCounts};

/// The lengths of texts and reasoning.
const WORDS: [(usize, usize, usize); 3] = [(70, 200, 900), (25, 900, 3_000), (5, 3_000, 12_000)];
/// The lengths of outputs.
const OUTPUTS: [(usize, usize, usize); 4] =
    [(50, 40, 700), (35, 700, 3_000), (14, 3_000, 14_000), (1, 14_000, 60_000)];
const THREAD: &str = "019b7600-0000-7000-8000-000000000000";
/// The counts of tokens in every record that has some.
const TOKENS: &str = r#"{"input_tokens":9908,"cached_input_tokens":4954,"output_tokens":53,"reasoning_output_tokens":0,"total_tokens":9961}"#;

pub(super) fn write(bytes: u64, out: impl io::Write) -> io::Result<TranscriptCounts> {
    let mut rollout =
        Rollout { lines: Lines::new(out), chance: Chance::new(0x636f_6465), turns: 0, ordinal: 0 };
    let meta = format!(
        r#"{{"session_id":"{THREAD}","id":"{THREAD}","cwd":"/home/dev/project","originator":"codex_cli","cli_version":"0.166.0","source":"vscode","history_mode":"paginated"}}"#
    );
    rollout.record("session_meta", &meta)?;
    while rollout.lines.written.bytes < bytes {
        rollout.turn()?;
    }
    rollout.lines.finish()
}

struct Rollout<W> {
    lines: Lines<W>,
    chance: Chance,
    turns: u64,
    ordinal: u64,
}

impl<W: io::Write> Rollout<W> {
    fn record(&mut self, kind: &str, payload: &str) -> io::Result<()> {
        let ordinal = self.ordinal;
        self.ordinal += 1;
        self.lines.push(&format!(
            r#"{{"timestamp":"2026-01-01T00:00:00.000Z","ordinal":{ordinal},"type":"{kind}","payload":{payload}}}"#
        ))
    }

    fn turn_id(&self) -> String {
        format!("019b7600-0000-7000-8000-{:012}", self.turns)
    }

    fn item(&mut self, item: &str) -> io::Result<()> {
        let turn = self.turn_id();
        self.record(
            "event_msg",
            &format!(
                r#"{{"type":"item_completed","thread_id":"{THREAD}","turn_id":"{turn}","item":{item},"started_at_ms":1767225600000,"completed_at_ms":1767225600000}}"#
            ),
        )
    }

    fn turn(&mut self) -> io::Result<()> {
        self.turns += 1;
        let turn = self.turn_id();
        self.record("event_msg", &format!(r#"{{"type":"task_started","turn_id":"{turn}"}}"#))?;
        let mut words = String::new();
        let length = self.chance.between(20, 400);
        self.chance.prose(length, &mut words);
        self.record(
            "response_item",
            &format!(
                r#"{{"type":"message","id":"msg_u{turn}","role":"user","content":[{{"type":"input_text","text":"{words}"}}]}}"#
            ),
        )?;
        self.item(&format!(
            r#"{{"type":"UserMessage","id":"{turn}","content":[{{"type":"text","text":"{words}","text_elements":[]}}]}}"#
        ))?;
        self.lines.written.prompts += 1;
        for _ in 0..self.chance.between(1, 8) {
            if self.chance.percent(40) {
                self.reasoning()?;
            }
            if self.chance.percent(30) {
                self.text()?;
            }
            self.call()?;
            self.usage()?;
        }
        self.text()?;
        self.usage()?;
        self.record("event_msg", &format!(r#"{{"type":"task_complete","turn_id":"{turn}"}}"#))
    }

    fn usage(&mut self) -> io::Result<()> {
        self.record(
            "event_msg",
            &format!(
                r#"{{"type":"token_count","info":{{"total_token_usage":{TOKENS},"last_token_usage":{TOKENS},"model_context_window":258400}},"rate_limits":{{"limit_id":"codex","primary":null}}}}"#
            ),
        )
    }

    fn words(&mut self) -> String {
        let mut words = String::new();
        let length = self.chance.spread(&WORDS);
        self.chance.prose(length, &mut words);
        words
    }

    fn text(&mut self) -> io::Result<()> {
        let (id, words) = (self.chance.name("msg"), self.words());
        self.item(&format!(
            r#"{{"type":"AgentMessage","id":"{id}","content":[{{"type":"Text","text":"{words}"}}]}}"#
        ))?;
        self.lines.written.texts += 1;
        self.record(
            "response_item",
            &format!(
                r#"{{"type":"message","status":"completed","id":"{id}","role":"assistant","content":[{{"type":"output_text","text":"{words}","annotations":[]}}]}}"#
            ),
        )
    }

    fn reasoning(&mut self) -> io::Result<()> {
        let (id, words) = (self.chance.name("rs"), self.words());
        self.item(&format!(
            r#"{{"type":"Reasoning","id":"{id}","summary_text":["{words}"],"raw_content":[]}}"#
        ))?;
        self.lines.written.thoughts += 1;
        let mut encrypted = String::new();
        self.chance.base64(words.len() * 2, &mut encrypted);
        self.record(
            "response_item",
            &format!(
                r#"{{"type":"reasoning","id":"{id}","summary":[{{"type":"summary_text","text":"{words}"}}],"content":null,"encrypted_content":"{encrypted}"}}"#
            ),
        )
    }

    fn call(&mut self) -> io::Result<()> {
        let id = self.chance.name("call");
        let part = self.chance.between(0, 90);
        let script = format!("cargo test -p part-{part}");
        self.record(
            "response_item",
            &format!(
                r#"{{"type":"function_call","status":"completed","id":"fc_{id}","name":"exec_command","arguments":"{{\"cmd\":\"{script}\"}}","call_id":"{id}"}}"#
            ),
        )?;
        let mut output = String::new();
        let length = self.chance.spread(&OUTPUTS);
        self.chance.code(length, &mut output);
        self.item(&format!(
            r#"{{"type":"CommandExecution","id":"{id}","process_id":"7","command":["/bin/bash","-lc","{script}"],"cwd":"file:///home/dev/project","parsed_cmd":[{{"type":"unknown","cmd":"{script}"}}],"source":"unified_exec_startup","status":"completed","aggregated_output":"{output}","exit_code":0,"duration":{{"secs":0,"nanos":18748000}}}}"#
        ))?;
        self.lines.written.calls += 1;
        self.record(
            "response_item",
            &format!(
                r#"{{"type":"function_call_output","id":"fco_{id}","call_id":"{id}","output":"Chunk ID: 1\nWall time: 0.0187 seconds\nProcess exited with code 0\nOriginal token count: 9\nOutput:\n{output}"}}"#
            ),
        )
    }
}

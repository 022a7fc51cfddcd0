//! A transcript: turns of prompts, messages of several lines, calls, results and bookkeeping.

use std::io;

use super::chance::{Chance, Clock};
use super::tool::Call;
use super::{Lines, TranscriptCounts, TranscriptFile};

/// Thinking: mostly short, sometimes very long.
pub(super) const THOUGHTS: [(usize, usize, usize); 3] =
    [(65, 200, 1_200), (30, 1_200, 5_500), (5, 5_500, 18_000)];
/// Texts of the model between calls, and at the end of a turn.
pub(super) const TEXTS: [(usize, usize, usize); 3] =
    [(75, 40, 400), (20, 400, 1_600), (5, 1_600, 4_000)];
const PROMPTS: [(usize, usize, usize); 3] = [(80, 20, 300), (17, 300, 900), (3, 3_000, 12_000)];
const ATTACHMENTS: [(usize, usize, usize); 3] =
    [(70, 40, 500), (22, 500, 6_000), (8, 6_000, 20_000)];

pub(super) fn write(bytes: u64, out: impl io::Write) -> io::Result<TranscriptCounts> {
    let mut chance = Chance::new(0x7472_616e);
    let session = chance.uuid();
    write_with(chance, session, None, bytes, out)
}

/// Writes one file of a session: its main file, or that of a subagent.
pub(super) fn write_file(
    file: &TranscriptFile<'_>,
    bytes: u64,
    out: impl io::Write,
) -> io::Result<TranscriptCounts> {
    let subagent = file.subagent.map(str::to_owned);
    write_with(Chance::new(file.seed), file.session.to_owned(), subagent, bytes, out)
}

fn write_with(
    chance: Chance,
    session: String,
    subagent: Option<String>,
    bytes: u64,
    out: impl io::Write,
) -> io::Result<TranscriptCounts> {
    let lines = Lines::new(out);
    let clock = Clock::default();
    let mut transcript = Transcript { lines, chance, clock, session, subagent, parent: None };
    while transcript.lines.written.bytes < bytes {
        transcript.turn()?;
    }
    transcript.lines.finish()
}

struct Transcript<W> {
    lines: Lines<W>,
    chance: Chance,
    clock: Clock,
    session: String,
    /// The id of the subagent whose file it is.
    subagent: Option<String>,
    /// The parent line of the next one.
    parent: Option<String>,
}

impl<W: io::Write> Transcript<W> {
    fn turn(&mut self) -> io::Result<()> {
        self.before_a_prompt()?;
        self.prompt()?;
        for _ in 0..self.chance.between(0, 3) {
            self.attachment()?;
        }
        for _ in 0..self.chance.spread(&[(50, 1, 4), (35, 4, 9), (15, 9, 24)]) {
            self.step()?;
        }
        let message = self.chance.name("msg");
        let index = self.thought(&message)?;
        self.text(&message, index)?;
        self.after_a_turn()
    }

    /// Writes a message with calls, and their results.
    fn step(&mut self) -> io::Result<()> {
        let message = self.chance.name("msg");
        let mut index = self.thought(&message)?;
        if self.chance.percent(35) {
            self.text(&message, index)?;
            index += 1;
        }
        let count = self.chance.spread(&[(85, 1, 2), (12, 2, 3), (3, 3, 6)]);
        let calls: Vec<_> = (0..count).map(|_| Call::new(&mut self.chance)).collect();
        for (call, index) in calls.iter().zip(index..) {
            let Call { id, name, input, .. } = call;
            let block = format!(
                r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{input},"caller":{{"type":"direct"}}}}"#
            );
            self.message(&message, index, &block)?;
        }
        for call in &calls {
            if self.chance.percent(25) {
                self.progress(call)?;
            }
            self.result(call)?;
        }
        if self.chance.percent(12) {
            self.attachment()?;
        }
        Ok(())
    }

    /// Writes thinking, or none. Returns the index of the message's next block.
    fn thought(&mut self, message: &str) -> io::Result<usize> {
        if !self.chance.percent(40) {
            return Ok(0);
        }
        let mut block = String::from(r#"{"type":"thinking","thinking":""#);
        let (thought, signature) = (self.chance.spread(&THOUGHTS), self.chance.between(200, 900));
        self.chance.prose(thought, &mut block);
        block.push_str(r#"","signature":""#);
        self.chance.base64(signature, &mut block);
        block.push_str("\"}");
        self.lines.written.thoughts += 1;
        self.message(message, 0, &block)?;
        Ok(1)
    }

    fn text(&mut self, message: &str, index: usize) -> io::Result<()> {
        let mut block = String::from(r#"{"type":"text","text":""#);
        let text = self.chance.spread(&TEXTS);
        self.chance.prose(text, &mut block);
        block.push_str("\"}");
        self.lines.written.texts += 1;
        self.message(message, index, &block)
    }

    /// Writes the line of one block of the model.
    fn message(&mut self, message: &str, index: usize, block: &str) -> io::Result<()> {
        let request = self.chance.name("req");
        let tokens = self.chance.between(400, 160_000);
        self.chained(&format!(
            r#""message":{{"id":"{message}","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{block}],"stop_reason":"tool_use","stop_sequence":null,"usage":{{"input_tokens":{tokens},"cache_creation_input_tokens":512,"cache_read_input_tokens":{tokens},"output_tokens":28,"server_tool_use":{{"web_search_requests":0,"web_fetch_requests":0}},"service_tier":"standard","cache_creation":{{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":512}}}},"stop_details":null}},"apiBlockIndex":{index},"requestId":"{request}","type":"assistant""#
        ))
    }

    fn result(&mut self, call: &Call) -> io::Result<()> {
        let Call { id, content, structured, is_error, .. } = call;
        let above = self.parent.clone().unwrap_or_default();
        self.lines.written.calls += 1;
        self.chained(&format!(
            r#""type":"user","message":{{"role":"user","content":[{{"tool_use_id":"{id}","type":"tool_result","content":{content},"is_error":{is_error}}}]}},"toolUseResult":{structured},"sourceToolAssistantUUID":"{above}""#
        ))
    }

    fn prompt(&mut self) -> io::Result<()> {
        let mut words = String::new();
        let length = self.chance.spread(&PROMPTS);
        self.chance.prose(length, &mut words);
        let content = match self.chance.percent(2) {
            true => self.with_picture(&words),
            false => format!("\"{words}\""),
        };
        self.lines.written.prompts += 1;
        self.chained(&format!(
            r#""type":"user","message":{{"role":"user","content":{content}}},"permissionMode":"default","promptSource":"typed""#
        ))
    }

    fn with_picture(&mut self, words: &str) -> String {
        let mut picture = String::new();
        let size = self.chance.spread(&[(90, 4_000, 200_000), (10, 200_000, 1_000_000)]);
        self.chance.base64(size, &mut picture);
        format!(
            r#"[{{"type":"text","text":"{words}"}},{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{picture}"}}}}]"#
        )
    }

    fn attachment(&mut self) -> io::Result<()> {
        let mut reminder = String::new();
        let length = self.chance.spread(&ATTACHMENTS);
        self.chance.prose(length, &mut reminder);
        self.chained(&format!(
            r#""attachment":{{"type":"total_tokens_reminder","text":"<total_tokens>14978142 tokens left</total_tokens>"}},"type":"attachment","rendered":[{{"content":"<system-reminder>\n{reminder}</system-reminder>"}}],"renderedRole":"system""#
        ))
    }

    fn progress(&mut self, call: &Call) -> io::Result<()> {
        let mut output = String::new();
        let length = self.chance.spread(&[(70, 1, 200), (30, 200, 2_000)]);
        self.chance.code(length, &mut output);
        let id = &call.id;
        self.chained(&format!(
            r#""type":"progress","data":{{"type":"bash_progress","output":"{output}","fullOutput":"{output}","elapsedTimeSeconds":19,"totalLines":0,"timeoutMs":300000}},"toolUseID":"bash-progress-17","parentToolUseID":"{id}""#
        ))
    }

    fn before_a_prompt(&mut self) -> io::Result<()> {
        if self.chance.percent(25) {
            let time = self.clock.tick(&mut self.chance);
            for operation in [r#""enqueue","content":"And then the tests.""#, r#""dequeue""#] {
                self.loose(&format!(
                    r#""type":"queue-operation","operation":{operation},"timestamp":"{time}""#
                ))?;
            }
        }
        if self.chance.percent(60) {
            let (message, time) = (self.chance.uuid(), self.clock.tick(&mut self.chance));
            let files: Vec<_> = (0..self.chance.between(0, 9))
                .map(|version| format!(r#""src/part-{version}.rs":{{"backupFileName":"8d2e6f0f1c2a@v{version}","version":{version},"backupTime":"{time}"}}"#))
                .collect();
            let files = files.join(",");
            self.loose(&format!(
                r#""type":"file-history-snapshot","messageId":"{message}","snapshot":{{"messageId":"{message}","trackedFileBackups":{{{files}}},"timestamp":"{time}"}},"isSnapshotUpdate":false"#
            ))?;
        }
        if self.chance.percent(40) {
            self.loose(r#""type":"permission-mode","permissionMode":"default""#)?;
        }
        Ok(())
    }

    fn after_a_turn(&mut self) -> io::Result<()> {
        self.chained(
            r#""type":"system","subtype":"turn_duration","durationMs":48213,"isMeta":false"#,
        )?;
        let leaf = self.parent.clone().unwrap_or_default();
        if self.chance.percent(40) {
            self.loose(&format!(
                r#""type":"last-prompt","lastPrompt":"Please look at it again.","leafUuid":"{leaf}""#
            ))?;
        }
        if self.chance.percent(30) {
            self.loose(r#""type":"ai-title","aiTitle":"Order of blocks in a merged state""#)?;
        }
        Ok(())
    }

    /// Writes a line whose parent is the previous one, with the common fields.
    fn chained(&mut self, fields: &str) -> io::Result<()> {
        let uuid = self.chance.uuid();
        let time = self.clock.tick(&mut self.chance);
        let parent = match &self.parent {
            Some(parent) => format!("\"{parent}\""),
            None => "null".to_owned(),
        };
        let session = &self.session;
        let sidechain = match &self.subagent {
            Some(agent) => format!(r#""isSidechain":true,"agentId":"{agent}""#),
            None => r#""isSidechain":false"#.to_owned(),
        };
        let line = format!(
            r#"{{"parentUuid":{parent},{sidechain},{fields},"uuid":"{uuid}","timestamp":"{time}","userType":"external","entrypoint":"cli","cwd":"/home/dev/project","sessionId":"{session}","version":"2.1.197","gitBranch":"main"}}"#
        );
        self.parent = Some(uuid);
        self.lines.push(&line)
    }

    /// Writes a line that is never a parent.
    fn loose(&mut self, fields: &str) -> io::Result<()> {
        let line = format!(r#"{{{fields},"sessionId":"{}"}}"#, self.session);
        self.lines.push(&line)
    }
}

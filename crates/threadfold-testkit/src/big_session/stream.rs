//! A stream with partial messages: every block first in deltas, then complete.

use std::io;

use super::chance::{Chance, Clock};
use super::tool::Call;
use super::transcript::{TEXTS, THOUGHTS};
use super::{Lines, TranscriptCounts};

/// The size of a delta in bytes.
const PIECES: (usize, usize) = (5, 40);

pub(super) fn write(bytes: u64, out: impl io::Write) -> io::Result<TranscriptCounts> {
    let mut chance = Chance::new(0x7374_7265);
    let session = chance.uuid();
    let mut stream = Stream { lines: Lines::new(out), chance, clock: Clock::default(), session };
    stream.line(
        r#""type":"system","subtype":"init","cwd":"/home/dev/project","tools":["Bash","Read","Edit"],"mcp_servers":[],"model":"claude-sonnet-4-5","permissionMode":"default","claude_code_version":"2.1.197""#,
    )?;
    while stream.lines.written.bytes < bytes {
        stream.turn()?;
    }
    stream.lines.finish()
}

struct Stream<W> {
    lines: Lines<W>,
    chance: Chance,
    clock: Clock,
    session: String,
}

/// A block of a message: its start, its deltas, and its final form.
struct StreamedBlock {
    start: String,
    /// The name of the delta's field, and of the delta.
    delta: (&'static str, &'static str),
    /// The whole text of the deltas, escaped for a JSON string.
    text: String,
    whole: String,
}

impl<W: io::Write> Stream<W> {
    fn turn(&mut self) -> io::Result<()> {
        for _ in 0..self.chance.between(1, 8) {
            let call = Call::new(&mut self.chance);
            let mut blocks = self.words(40, 35);
            blocks.push(calling(&call));
            self.message(&blocks)?;
            self.result(&call)?;
        }
        let blocks = self.words(40, 100);
        self.message(&blocks)?;
        self.line(
            r#""type":"result","subtype":"success","is_error":false,"duration_ms":48213,"num_turns":4,"result":"Done.","total_cost_usd":0.0658"#,
        )
    }

    /// Returns thinking and a text, each with the given probability.
    fn words(&mut self, thought: usize, text: usize) -> Vec<StreamedBlock> {
        let mut blocks = Vec::new();
        if self.chance.percent(thought) {
            let mut words = String::new();
            let length = self.chance.spread(&THOUGHTS);
            self.chance.prose(length, &mut words);
            self.lines.written.thoughts += 1;
            blocks.push(StreamedBlock {
                start: r#"{"type":"thinking","thinking":"","signature":""}"#.to_owned(),
                delta: ("thinking", "thinking_delta"),
                whole: format!(
                    r#"{{"type":"thinking","thinking":"{words}","signature":"ErUBCkYIBxgC"}}"#
                ),
                text: words,
            });
        }
        if self.chance.percent(text) {
            let mut words = String::new();
            let length = self.chance.spread(&TEXTS);
            self.chance.prose(length, &mut words);
            self.lines.written.texts += 1;
            blocks.push(StreamedBlock {
                start: r#"{"type":"text","text":""}"#.to_owned(),
                delta: ("text", "text_delta"),
                whole: format!(r#"{{"type":"text","text":"{words}"}}"#),
                text: words,
            });
        }
        blocks
    }

    fn message(&mut self, blocks: &[StreamedBlock]) -> io::Result<()> {
        let message = self.chance.name("msg");
        let usage = r#""usage":{"input_tokens":21338,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1,"service_tier":"standard"}"#;
        let head = format!(
            r#""id":"{message}","type":"message","role":"assistant","model":"claude-sonnet-4-5""#
        );
        let nothing = r#""content":[],"stop_reason":null,"stop_sequence":null"#;
        self.event(
            &message,
            &format!(r#""message_start","message":{{{head},{nothing},{usage}}}"#),
        )?;
        for (index, block) in blocks.iter().enumerate() {
            let StreamedBlock { start, delta: (name, kind), text, whole } = block;
            self.event(
                &message,
                &format!(r#""content_block_start","index":{index},"content_block":{start}"#),
            )?;
            for piece in cut(&mut self.chance, PIECES, text) {
                self.event(
                    &message,
                    &format!(
                        r#""content_block_delta","index":{index},"delta":{{"type":"{kind}","{name}":"{piece}"}}"#
                    ),
                )?;
            }
            let time = self.clock.tick(&mut self.chance);
            self.line(&format!(
                r#""type":"assistant","message":{{{head},"content":[{whole}],"stop_reason":null,"stop_sequence":null,{usage}}},"timestamp":"{time}""#
            ))?;
            self.event(&message, &format!(r#""content_block_stop","index":{index}"#))?;
        }
        self.event(
            &message,
            r#""message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":119}"#,
        )?;
        self.event(&message, r#""message_stop""#)
    }

    fn result(&mut self, call: &Call) -> io::Result<()> {
        let Call { id, content, structured, is_error, .. } = call;
        let time = self.clock.tick(&mut self.chance);
        self.lines.written.calls += 1;
        self.line(&format!(
            r#""type":"user","message":{{"role":"user","content":[{{"tool_use_id":"{id}","type":"tool_result","content":{content},"is_error":{is_error}}}]}},"timestamp":"{time}","tool_use_result":{structured}"#
        ))
    }

    fn event(&mut self, message: &str, event: &str) -> io::Result<()> {
        self.line(&format!(
            r#""type":"stream_event","event":{{"type":{event}}},"api_message_id":"{message}""#
        ))
    }

    /// Writes a line with the common fields.
    fn line(&mut self, fields: &str) -> io::Result<()> {
        let uuid = self.chance.uuid();
        let line = format!(
            r#"{{{fields},"session_id":"{}","parent_tool_use_id":null,"uuid":"{uuid}"}}"#,
            self.session
        );
        self.lines.push(&line)
    }
}

fn calling(call: &Call) -> StreamedBlock {
    let Call { id, name, input, .. } = call;
    let block = |input: &str| {
        format!(r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{input}}}"#)
    };
    StreamedBlock {
        start: block("{}"),
        delta: ("partial_json", "input_json_delta"),
        text: input.replace('\\', "\\\\").replace('"', "\\\""),
        whole: block(input),
    }
}

/// Splits the content of a JSON string into pieces of this size, never within an escape.
pub(super) fn cut<'a>(
    chance: &mut Chance,
    (least, most): (usize, usize),
    mut text: &'a str,
) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        let mut end = 0;
        let wanted = chance.between(least, most);
        let mut letters = text.char_indices();
        while end < wanted
            && let Some((at, letter)) = letters.next()
        {
            end = at + letter.len_utf8();
            if letter == '\\' {
                end += letters.next().map_or(0, |(_, escaped)| escaped.len_utf8());
            }
        }
        let (piece, rest) = text.split_at(end);
        pieces.push(piece);
        text = rest;
    }
    pieces
}

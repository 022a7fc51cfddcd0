//! Detects the agent and the format of an input from its first bytes.

use serde::de::IgnoredAny;
use threadfold_convert::lines::lines;
use threadfold_convert::{Agent, Format, RECOGNIZED_LINES, Shape, events, opens_as_bundle};

/// The most bytes of an input that are read to recognize it: as many as the longest line that is one
/// record, because the first line can be the only one that is.
pub const HEAD_BYTES: usize = 65 << 20;

/// The agent and the format of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detection {
    /// The agent; none for Threadfold's own events.
    pub agent: Option<Agent>,
    /// The format.
    pub format: &'static Format,
}

impl Detection {
    /// Returns how the input is read.
    pub fn shape(self) -> Shape {
        self.format.shape
    }

    /// Returns the fallback for lines of unknown format.
    pub fn unknown() -> Self {
        let agent = Agent::unknown();
        let format = agent.formats().first().unwrap_or(events::FORMAT);
        Self { agent: Some(agent), format }
    }

    /// Returns the detection of Threadfold's own events.
    pub fn events() -> Self {
        Self { agent: None, format: events::FORMAT }
    }

    /// Returns whether the format is known.
    pub fn is_known(self) -> bool {
        self.agent.is_none_or(Agent::is_known)
    }
}

/// Returns every format that can be read, in the order of the table of agents.
pub fn formats() -> impl Iterator<Item = Detection> {
    let of_agent = |agent: Agent| {
        agent.formats().iter().map(move |format| Detection { agent: Some(agent), format })
    };
    std::iter::once(Detection::events()).chain(Agent::all().flat_map(of_agent))
}

/// Returns the format with this name.
pub fn detection_named(name: &str) -> Option<Detection> {
    formats().find(|it| it.format.name == name)
}

/// Recognizes an input by its first bytes; nothing if they are ambiguous.
///
/// The first line that any agent recognizes decides, so that a corrupt first line does no harm.
///
/// ```
/// use threadfold_fold::{Shape, detect};
///
/// let found = detect(br#"{"type":"user","sessionId":"s1"}"#).expect("a transcript");
/// assert_eq!((found.format.name, found.shape()), ("claude-transcript", Shape::Transcript));
/// assert_eq!(detect(b"7\n"), None);
/// ```
pub fn detect(head: &[u8]) -> Option<Detection> {
    let opening = |agent: Agent| detection(agent, agent.recognize_opening(head));
    let mut first_lines = lines(head).take(RECOGNIZED_LINES);
    first_lines
        .find_map(|line| detect_record(line.bytes))
        .or_else(|| Agent::all().find_map(opening))
}

fn detect_record(line: &[u8]) -> Option<Detection> {
    if events::is_event(line) {
        return Some(Detection::events());
    }
    Agent::all().find_map(|it| detection(it, it.recognize_record(line)))
}

fn detection(agent: Agent, format: Option<&'static Format>) -> Option<Detection> {
    format.map(|format| Detection { agent: Some(agent), format })
}

/// Returns whether enough of an input was read to recognize it: a complete record of a known format,
/// or so many lines that none is expected.
///
/// A record of no known format is not enough: what the next line shows would depend on how many
/// bytes the reader happened to have.
pub fn is_enough(head: &[u8]) -> bool {
    let whole = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut count = 0;
    let mut first_lines = lines(&head[..whole]).take(RECOGNIZED_LINES).inspect(|_| count += 1);
    let is_binary = head.len() >= 16 && lines(head).next().is_none();
    head.len() >= HEAD_BYTES
        || head.starts_with(b"SQLite format 3\0")
        || is_binary
        || first_lines.any(|line| detect_record(line.bytes).is_some())
        || count == RECOGNIZED_LINES
}

/// The first bytes of an input, and whether there are more.
#[derive(Clone, Copy, Debug)]
pub struct InputHead<'a> {
    /// The first bytes.
    pub bytes: &'a [u8],
    /// There are no more bytes.
    pub is_complete: bool,
}

impl InputHead<'_> {
    /// Returns whether the input is text.
    ///
    /// Zero bytes between records are corruption; without records they indicate a binary file.
    pub fn is_text(&self) -> bool {
        let opens = |line: &[u8]| {
            let start = line.iter().find(|byte| **byte != 0 && !byte.is_ascii_whitespace());
            matches!(start, Some(b'{' | b'['))
        };
        !self.bytes.contains(&0)
            || lines(self.bytes).take(RECOGNIZED_LINES).any(|line| opens(line.bytes))
    }

    /// Returns whether the input ends inside its first record, so that its format is still unknown.
    pub fn is_before_first_record(&self) -> bool {
        let is_truncated_record = || {
            let read = serde_json::from_slice::<IgnoredAny>(payload(self.bytes));
            self.bytes.trim_ascii_start().starts_with(b"{") && read.is_err_and(|it| it.is_eof())
        };
        let is_one_line = self.is_complete && !self.bytes.contains(&b'\n');
        let is_unknown = || detect(self.bytes).is_none();
        // A byte order mark alone is no record.
        lines(self.bytes).next().is_none() || (is_one_line && is_unknown() && is_truncated_record())
    }
}

/// Returns the data of a line of server-sent events; any other line as it is.
fn payload(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"data:").unwrap_or(line)
}

/// Returns whether an input with these first bytes may be one document, on any number of lines.
///
/// Only then must all of it be read to decide.
pub fn may_be_document(input: Detection, head: &[u8]) -> bool {
    match input.shape() {
        Shape::Stream | Shape::Transcript => opens_as_bundle(head),
        Shape::Export => true,
        Shape::Opaque => {
            let first = lines(head).next();
            let opens = |line: &[u8]| matches!(line.trim_ascii_start().first(), Some(b'{' | b'['));
            first.is_some_and(|it| opens(it.bytes) && !is_value(it.bytes))
        }
        Shape::Database | Shape::Folder | Shape::Events => false,
    }
}

/// Returns whether all bytes of an input are one document.
pub fn is_document(input: Detection, bytes: &[u8]) -> bool {
    let is_bundle = || input.agent.is_some_and(|agent| agent.unpack(bytes).is_some());
    may_be_document(input, bytes)
        && match input.shape() {
            Shape::Stream | Shape::Transcript => is_bundle(),
            _ => is_value(bytes),
        }
}

fn is_value(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

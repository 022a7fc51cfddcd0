//! What an input is, from its first bytes.

use serde::de::IgnoredAny;
use threadfold_convert::lines::lines;
use threadfold_convert::{Agent, Format, RECOGNIZED_LINES, Shape, events, opens_as_bundle};

/// How many bytes of an input are read at most to recognize it.
pub const HEAD_BYTES: usize = 1 << 20;

/// What an input is: whose, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detection {
    /// Whose; nobody's for Threadfold's own events.
    pub agent: Option<Agent>,
    /// In which form.
    pub format: &'static Format,
}

impl Detection {
    /// Returns how the input is read.
    pub fn shape(self) -> Shape {
        self.format.shape
    }

    /// Returns what is taken for lines that nobody recognizes.
    pub fn unknown() -> Self {
        let agent = Agent::unknown();
        let format = agent.formats().first().unwrap_or(events::FORMAT);
        Self { agent: Some(agent), format }
    }

    /// Returns Threadfold's own events.
    pub fn events() -> Self {
        Self { agent: None, format: events::FORMAT }
    }

    /// Says whether an agent, or Threadfold, is known to write this.
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

/// Returns the format of that name.
pub fn detection_named(name: &str) -> Option<Detection> {
    formats().find(|it| it.format.name == name)
}

/// Recognizes an input by its first bytes; nothing if they do not tell.
///
/// ```
/// use threadfold_fold::{Shape, detect};
///
/// let found = detect(br#"{"type":"user","sessionId":"s1"}"#).expect("a transcript");
/// assert_eq!((found.format.name, found.shape()), ("claude-transcript", Shape::Transcript));
/// assert_eq!(detect(b"7\n"), None);
/// ```
pub fn detect(head: &[u8]) -> Option<Detection> {
    let record = |line: &[u8]| {
        if events::is_event(line) {
            return Some(Detection::events());
        }
        let mut agents = Agent::all();
        agents.find_map(|it| detection(it, it.recognize_record(line)))
    };
    let opening = |agent: Agent| detection(agent, agent.recognize_opening(head));
    let mut first_lines = lines(head).take(RECOGNIZED_LINES);
    first_lines.find_map(|line| record(line.bytes)).or_else(|| Agent::all().find_map(opening))
}

fn detection(agent: Agent, format: Option<&'static Format>) -> Option<Detection> {
    format.map(|format| Detection { agent: Some(agent), format })
}

/// Says whether enough of an input was read to recognize it: a whole record, or so many lines that
/// none will come.
pub fn is_enough(head: &[u8]) -> bool {
    let whole = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let is_record = |line: &[u8]| serde_json::from_slice::<IgnoredAny>(payload(line)).is_ok();
    let mut count = 0;
    let mut first_lines = lines(&head[..whole]).take(RECOGNIZED_LINES).inspect(|_| count += 1);
    let is_binary = head.len() >= 16 && lines(head).next().is_none();
    head.len() >= HEAD_BYTES
        || head.starts_with(b"SQLite format 3\0")
        || is_binary
        || first_lines.any(|line| is_record(line.bytes))
        || count == RECOGNIZED_LINES
}

/// The first bytes of an input, and whether there are more.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The first bytes.
    pub bytes: &'a [u8],
    /// These are all.
    pub is_whole: bool,
}

impl Head<'_> {
    /// Says whether the input holds records, whoever wrote them.
    pub fn holds_records(&self) -> bool {
        let is_object = |line: &[u8]| {
            line.trim_ascii_start().starts_with(b"{")
                && serde_json::from_slice::<IgnoredAny>(line).is_ok()
        };
        opens_as_bundle(self.bytes)
            || lines(self.bytes).take(RECOGNIZED_LINES).any(|line| is_object(line.bytes))
    }

    /// Says whether the input is text, whoever wrote it. Zero bytes between records are damage;
    /// without records they are the mark of a picture, a program or an archive.
    pub fn is_text(&self) -> bool {
        !self.bytes.contains(&0) || self.holds_records()
    }

    /// Says whether the input ends before its first record does, so that nothing tells yet what it
    /// will be.
    pub fn is_before_first_record(&self) -> bool {
        let is_record_begun = || {
            let read = serde_json::from_slice::<IgnoredAny>(payload(self.bytes));
            self.bytes.trim_ascii_start().starts_with(b"{") && read.is_err_and(|it| it.is_eof())
        };
        let is_cut = self.is_whole && !self.bytes.contains(&b'\n');
        let is_unknown = || detect(self.bytes).is_none();
        self.bytes.trim_ascii().is_empty() || (is_cut && is_unknown() && is_record_begun())
    }
}

/// Returns the data of a line of server-sent events; any other line as it is.
fn payload(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"data:").unwrap_or(line)
}

/// Says whether an input that begins so may be one document, however many lines it has. Only then
/// all of it needs to be read to decide.
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

/// Says whether all bytes of an input are one document.
pub fn is_document(input: Detection, bytes: &[u8]) -> bool {
    let is_in_one_piece = || input.agent.is_some_and(|agent| agent.unpack(bytes).is_some());
    may_be_document(input, bytes)
        && match input.shape() {
            Shape::Stream | Shape::Transcript => is_in_one_piece(),
            _ => is_value(bytes),
        }
}

fn is_value(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

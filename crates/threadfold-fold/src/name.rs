//! Names a session after the id in its records, or after its content.

use threadfold_convert::lines::{Position, line};
use threadfold_convert::{Agent, Bundle, Converter, Feed, FeedKind, FeedLine, Shape, events};
use threadfold_core::SessionId;

use crate::cutter::Cutter;
use crate::detect::Detection;
use crate::record::RecordKind;

/// The most bytes that are searched for a session's id.
const SEARCH_LIMIT: u64 = 16 << 20;

/// Finds the id of a session in its bytes.
///
/// It asks the agent's converter, so that the id is the one that events will carry.
///
/// ```
/// use threadfold_fold::{SessionNamer, detect};
///
/// let line = b"{\"type\":\"user\",\"sessionId\":\"s1\"}\n";
/// let mut namer = SessionNamer::new(detect(line).expect("a transcript"));
/// namer.push(line);
/// assert_eq!(namer.finish().map(|name| name.id.to_string()), Some("s1".into()));
/// ```
pub struct SessionNamer {
    feed: Feed,
    agent: Option<Agent>,
    converter: Box<dyn Converter>,
    cutter: Cutter,
    number: u64,
    found: Option<SessionName>,
}

/// The id of a session, as its records name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionName {
    /// The id.
    pub id: SessionId,
    /// The records are only a part of a session, such as a subagent's. They are not that session,
    /// and other parts may have the same name.
    pub is_part: bool,
}

impl SessionNamer {
    /// Returns a namer for an input of this format.
    pub fn new(input: Detection) -> Self {
        let kind = match input.shape() {
            Shape::Stream => FeedKind::Stream,
            _ => FeedKind::Main,
        };
        let (feed, converter) = match input.agent {
            Some(agent) => (Feed::new(agent, kind, "main"), agent.converter()),
            None => (Feed::of_events("events"), events::converter()),
        };
        let (agent, cutter) = (input.agent, Cutter::new(1));
        Self { feed, agent, converter, cutter, number: 0, found: None }
    }

    /// Reads the next bytes. Returns whether more are needed.
    pub fn push(&mut self, chunk: &[u8]) -> bool {
        let mut records = Vec::new();
        self.cutter.push(chunk, &mut records);
        for record in records {
            self.number += 1;
            if record.kind == RecordKind::Line && self.found.is_none() {
                self.push_line(&record.bytes);
            }
        }
        self.found.is_none() && self.cutter.end() < SEARCH_LIMIT
    }

    /// Reads a document.
    pub fn push_document(&mut self, agent: Agent, bytes: &[u8]) {
        match agent.unpack(bytes) {
            Some(Bundle::Lines(lines)) => {
                self.push(&lines);
            }
            Some(Bundle::Files(files)) => {
                if let Some(main) = files.first() {
                    self.push(&main.bytes);
                }
            }
            None => self.push_line(bytes),
        }
    }

    fn push_line(&mut self, bytes: &[u8]) {
        let position = Position { number: self.number, ..Position::default() };
        let Some(line) = line(position, bytes) else { return };
        let line = FeedLine { feed: &self.feed, number: line.number, bytes: line.bytes };
        if self.feed.kind == FeedKind::Main
            && let Some(id) = self.agent.and_then(|agent| agent.part_name(line.bytes))
        {
            self.found = Some(SessionName { id, is_part: true });
            return;
        }
        self.converter.push(&line, &mut Vec::new());
        self.found = self.converter.session().map(|id| SessionName { id, is_part: false });
    }

    /// Returns the session's id, if its bytes contain one; the last line may lack its end.
    pub fn finish(mut self) -> Option<SessionName> {
        if self.found.is_none()
            && let Some(last) = self.cutter.unfinished()
        {
            self.push_line(&last.bytes);
        }
        self.found
    }
}

/// Returns the name of a session without an id: its agent, and a hash of its first record, which
/// does not change while the session grows.
///
/// Two sessions with the same first record get the same name; the store must distinguish them.
pub fn content_name(input: Detection, first_record: &[u8]) -> SessionId {
    let hash = blake3::hash(first_record.trim_ascii());
    let owner = input.agent.map_or("events", Agent::name);
    SessionId::from(format!("{owner}-{}", &hash.to_hex()[..12]))
}

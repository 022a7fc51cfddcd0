//! The table of agents: everything that is needed to read an agent's sessions is in one row.
//!
//! What is needed to compare them is in a second table.

use std::fmt;
use std::hash::{Hash, Hasher};

use threadfold_core::{Json, SessionId};

use crate::bundle::Bundle;
use crate::parity::ParityTable;
use crate::record::FeedKind;
use crate::{Converter, MemoryError, claude, codex, opencode, other};

/// Every agent whose data can be read. The last row is the fallback for unknown agents.
///
/// Formats are recognized in this order, so an agent with stricter tests comes before one with
/// looser tests.
static AGENTS: [Agent; 4] = [opencode::AGENT, codex::AGENT, claude::AGENT, other::AGENT];

/// What each agent reports in only one of stream and transcript.
///
/// Apart from the table above, so that a program that compares nothing is linked without any of it.
static PARITY: [(Agent, ParityTable); 3] = [
    (opencode::AGENT, opencode::PARITY),
    (codex::AGENT, codex::PARITY),
    (claude::AGENT, claude::PARITY),
];

static UNKNOWN_PARITY: ParityTable = other::PARITY;

/// An agent whose sessions can be read.
///
/// This is a handle to a row of a static table: copying it is free, and two are equal if their
/// names are.
#[derive(Clone, Copy)]
pub struct Agent(&'static AgentModule);

/// What one agent's folder provides to the rest of the project.
pub(crate) struct AgentModule {
    /// The name in events, logs and flags. It never changes, because stored logs contain it.
    pub(crate) name: &'static str,
    /// Names that other programs have for it.
    pub(crate) other_names: &'static [&'static str],
    /// The name for people.
    pub(crate) title: &'static str,
    /// The formats of its sessions.
    pub(crate) formats: &'static [Format],
    /// Recognizes one record: a line without its line end.
    pub(crate) recognize_record: fn(&[u8]) -> Option<&'static Format>,
    /// Recognizes an input by its first bytes; used if none of its first lines is a record.
    pub(crate) recognize_opening: fn(&[u8]) -> Option<&'static Format>,
    /// Returns a converter. With a session id, it ignores other sessions of the same source.
    pub(crate) converter: fn(Option<&SessionId>) -> Box<dyn Converter>,
    /// Returns a converter that continues from the memory of another one.
    pub(crate) resume: fn(&Json) -> Result<Box<dyn Converter>, MemoryError>,
    /// Unpacks a bundle: a session that is one document.
    pub(crate) unpack: fn(&[u8]) -> Option<Bundle>,
    /// Returns whether a file's name, without its extension, is a session id of the agent.
    pub(crate) is_session_name: fn(&str) -> bool,
    /// Returns the name of a file that is only a part of a session, such as a subagent's, by one of
    /// its lines.
    pub(crate) part_name: fn(&[u8]) -> Option<SessionId>,
    /// Texts of which at least one is in every record that changes the session's title.
    pub(crate) title_marks: &'static [&'static str],
    /// A session has one main file, so that another main file must be a copy of it.
    pub(crate) has_one_main_file: bool,
    /// Sorts the files of one session into reading order, each with its kind; files that are no
    /// part of a session are left out.
    pub(crate) reading_order: fn(&[SessionFile<'_>]) -> Vec<OrderedFile>,
}

/// A format of an agent's sessions.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its description, in one line.
    pub help: &'static str,
    /// How it is read.
    pub shape: Shape,
}

/// How a format is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Lines that the agent emits while it works.
    Stream,
    /// Lines that the agent stores, possibly in several files.
    Transcript,
    /// One document, or lines, that the agent exports.
    Export,
    /// A database that holds many sessions.
    Database,
    /// A folder of small files that holds many sessions.
    Folder,
    /// Threadfold's own events, one per line.
    Events,
    /// Lines of an unknown format.
    Opaque,
}

/// A file of a session: its path and its content.
#[derive(Clone, Copy, Debug)]
pub struct SessionFile<'a> {
    /// Its path. Only the names of the file and its folders matter, not where they are.
    pub path: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// A file of a session in reading order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedFile {
    /// Its index among the files that were passed.
    pub index: usize,
    /// What it is.
    pub kind: FeedKind,
    /// Its name within the session, which does not depend on its path.
    pub name: String,
}

impl OrderedFile {
    /// Returns a file under its name without folders.
    pub(crate) fn new(index: usize, kind: FeedKind, path: &str) -> Self {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned();
        Self { index, kind, name }
    }
}

impl Agent {
    pub(crate) const fn new(module: &'static AgentModule) -> Self {
        Self(module)
    }

    /// Returns all agents, in the order in which formats are recognized.
    pub fn all() -> impl Iterator<Item = Self> {
        AGENTS.into_iter()
    }

    /// Returns the fallback for unknown agents: its records are stored and shown unchanged.
    pub fn unknown() -> Self {
        other::AGENT
    }

    /// Returns the agent with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|agent| agent.name() == name)
    }

    /// Returns the agent with this name, or with this name in another program.
    ///
    /// ```
    /// use threadfold_convert::{Agent, claude};
    ///
    /// assert_eq!(Agent::from_any_name("claude-sdk"), Some(claude::AGENT));
    /// assert_eq!(Agent::from_name("claude-sdk"), None, "logs have one name for it");
    /// ```
    pub fn from_any_name(name: &str) -> Option<Self> {
        let is_called = |agent: &Self| agent.0.other_names.contains(&name);
        Self::from_name(name).or_else(|| Self::all().find(is_called))
    }

    /// Returns whether the agent's records are understood.
    pub fn is_known(self) -> bool {
        self != Self::unknown()
    }

    /// Returns the name in events, logs and flags.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the name for people.
    pub fn title(self) -> &'static str {
        self.0.title
    }

    /// Returns the formats of its sessions.
    pub fn formats(self) -> &'static [Format] {
        self.0.formats
    }

    /// Returns its format of this shape.
    pub fn format(self, shape: Shape) -> Option<&'static Format> {
        self.formats().iter().find(|format| format.shape == shape)
    }

    /// Recognizes one record: a line without its line end.
    pub fn recognize_record(self, line: &[u8]) -> Option<&'static Format> {
        (self.0.recognize_record)(line)
    }

    /// Recognizes an input by its first bytes; for inputs whose first lines are not records.
    pub fn recognize_opening(self, head: &[u8]) -> Option<&'static Format> {
        (self.0.recognize_opening)(head)
    }

    /// Returns a converter for one session.
    pub fn converter(self) -> Box<dyn Converter> {
        (self.0.converter)(None)
    }

    /// Returns a converter for the session with this id; other sessions of the same source are
    /// ignored.
    pub fn converter_of(self, session: &SessionId) -> Box<dyn Converter> {
        (self.0.converter)(Some(session))
    }

    /// Returns a converter that continues from another one's [memory](Converter::memory).
    ///
    /// ```
    /// use threadfold_convert::claude;
    ///
    /// let memory = claude::AGENT.converter().memory();
    /// let resumed = claude::AGENT.resume_converter(&memory)?;
    /// assert_eq!(resumed.memory(), memory);
    /// # Ok::<(), threadfold_convert::MemoryError>(())
    /// ```
    pub fn resume_converter(self, memory: &Json) -> Result<Box<dyn Converter>, MemoryError> {
        (self.0.resume)(memory)
    }

    /// Unpacks a bundle; nothing if the bytes are not one.
    pub fn unpack(self, bytes: &[u8]) -> Option<Bundle> {
        (self.0.unpack)(bytes)
    }

    /// Returns whether a file's name, without its extension, is a session id of the agent.
    pub fn is_session_name(self, stem: &str) -> bool {
        (self.0.is_session_name)(stem)
    }

    /// Returns the name of a file that is only a part of a session, such as a subagent's, by one of
    /// its lines: the line names the session, but the file is not that session.
    pub fn part_name(self, line: &[u8]) -> Option<SessionId> {
        (self.0.part_name)(line)
    }

    /// Returns texts of which at least one is in every record that changes the session's title, so
    /// that those records are found without converting the others.
    pub fn title_marks(self) -> &'static [&'static str] {
        self.0.title_marks
    }

    /// Returns whether a session has one main file, so that another main file must be a copy of it,
    /// whatever its name.
    pub fn has_one_main_file(self) -> bool {
        self.0.has_one_main_file
    }

    /// Sorts the files of one session into reading order, each with its kind.
    pub fn reading_order(self, files: &[SessionFile<'_>]) -> Vec<OrderedFile> {
        (self.0.reading_order)(files)
    }

    pub(crate) fn parity(self) -> &'static ParityTable {
        let row = PARITY.iter().find(|(agent, _)| *agent == self);
        row.map_or(&UNKNOWN_PARITY, |(_, table)| table)
    }
}

impl PartialEq for Agent {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Agent {}

impl Hash for Agent {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Agent").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_agent_has_a_row_in_both_tables() {
        for agent in Agent::all().filter(|agent| agent.is_known()) {
            assert!(PARITY.iter().any(|(of, _)| *of == agent), "{agent:?}");
        }
    }
}

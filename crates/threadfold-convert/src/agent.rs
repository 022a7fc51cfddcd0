//! The table of agents: everything this crate knows about one agent is a row of it.

use std::fmt;
use std::hash::{Hash, Hasher};

use threadfold_core::{Block, Json, SessionId};

use crate::bundle::Bundle;
use crate::parity::{BlockPlace, Rule, Side};
use crate::record::FeedKind;
use crate::{Converter, MemoryError, claude, opencode, other};

/// Every agent whose data can be read. The last row takes whatever the others do not recognize.
///
/// Formats are recognized in this order, so a stricter test stands before a looser one.
static AGENTS: [Agent; 3] = [opencode::AGENT, claude::AGENT, other::AGENT];

/// An agent whose sessions can be read.
///
/// It is a handle to a row of a static table: copying it is free, and two are equal if their
/// names are.
#[derive(Clone, Copy)]
pub struct Agent(&'static AgentModule);

/// What one agent's folder offers to the rest of the project.
pub(crate) struct AgentModule {
    /// The name that events, logs and flags carry. Never changes.
    pub(crate) name: &'static str,
    /// The name that people know.
    pub(crate) title: &'static str,
    /// The forms in which its sessions come.
    pub(crate) formats: &'static [Format],
    /// Recognizes one record, a line of text without its end.
    pub(crate) recognize_record: fn(&[u8]) -> Option<&'static Format>,
    /// Recognizes an input by its first bytes, where no line of it is a record.
    pub(crate) recognize_opening: fn(&[u8]) -> Option<&'static Format>,
    /// Returns a converter; one that is given a session ignores others of the same source.
    pub(crate) converter: fn(Option<&SessionId>) -> Box<dyn Converter>,
    /// Returns a converter that continues from what another remembered.
    pub(crate) resume: fn(&Json) -> Result<Box<dyn Converter>, MemoryError>,
    /// Takes a session apart that is stored in one piece.
    pub(crate) unpack: fn(&[u8]) -> Option<Bundle>,
    /// Says whether a file's name, without its extension, is a session's id as the agent writes it.
    pub(crate) is_session_name: fn(&str) -> bool,
    /// Says whether the session has one main file, so that another main file is a copy of it.
    pub(crate) has_one_main_file: bool,
    /// Sorts the files of one session into reading order, each with what it is; a file that is not
    /// part of a session is left out.
    pub(crate) reading_order: fn(&[SessionFile<'_>]) -> Vec<OrderedFile>,
    /// What the agent itself does not keep on one side.
    pub(crate) parity: ParityTable,
}

/// What an agent does not keep on one side, and how it is recognized.
pub(crate) struct ParityTable {
    pub(crate) rules: &'static [Rule],
    /// Returns the rule that explains a block which only one side has.
    pub(crate) explain_block: fn(&BlockPlace, &Block, Side) -> Option<&'static str>,
    /// Returns the rule that explains a field which only the transcript has: of a block of this
    /// type, or of a subagent itself.
    pub(crate) explain_field: fn(block_type: Option<&Json>, field: &str) -> Option<&'static str>,
    /// A subagent is stored apart from its parent, so a transcript may lack it as a whole.
    pub(crate) stores_subagents_apart: bool,
}

/// A form in which an agent's sessions come.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub help: &'static str,
    /// How it is read.
    pub shape: Shape,
}

/// How a format is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Lines that the agent emits while it works.
    Stream,
    /// Lines that the agent stores, perhaps with more files beside them.
    Transcript,
    /// One document, or lines, that the agent exports.
    Export,
    /// A database that holds many sessions.
    Database,
    /// A folder of small files that holds many sessions.
    Folder,
    /// Threadfold's own events, one a line.
    Events,
    /// Lines that nobody understands.
    Opaque,
}

/// A file of a session: where it was, and what is in it.
#[derive(Clone, Copy, Debug)]
pub struct SessionFile<'a> {
    /// Its path; only its names count.
    pub path: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// A file of a session in reading order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedFile {
    /// Its place among the files that were given.
    pub index: usize,
    /// What it is.
    pub kind: FeedKind,
    /// Its name within the session, whatever path it was given with.
    pub name: String,
}

impl OrderedFile {
    /// Returns a file under the name that it has within its folder.
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

    /// Returns the agent that stands for all that are not known: its records are kept and shown as
    /// they came.
    pub fn unknown() -> Self {
        other::AGENT
    }

    /// Returns the agent of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|agent| agent.name() == name)
    }

    /// Says whether this is one whose records are understood.
    pub fn is_known(self) -> bool {
        self != Self::unknown()
    }

    /// Returns the name that events, logs and flags carry.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the name that people know.
    pub fn title(self) -> &'static str {
        self.0.title
    }

    /// Returns the forms in which its sessions come.
    pub fn formats(self) -> &'static [Format] {
        self.0.formats
    }

    /// Returns its format of this shape.
    pub fn format(self, shape: Shape) -> Option<&'static Format> {
        self.formats().iter().find(|format| format.shape == shape)
    }

    /// Recognizes one record, a line without its end.
    pub fn recognize_record(self, line: &[u8]) -> Option<&'static Format> {
        (self.0.recognize_record)(line)
    }

    /// Recognizes an input by its first bytes, where no line of it is a record.
    pub fn recognize_opening(self, head: &[u8]) -> Option<&'static Format> {
        (self.0.recognize_opening)(head)
    }

    /// Returns a converter for one session.
    pub fn converter(self) -> Box<dyn Converter> {
        (self.0.converter)(None)
    }

    /// Returns a converter for the session of that id; others of the same source are ignored.
    pub fn converter_of(self, session: &SessionId) -> Box<dyn Converter> {
        (self.0.converter)(Some(session))
    }

    /// Returns a converter that continues from what another [remembered](Converter::memory).
    ///
    /// ```
    /// use threadfold_convert::claude;
    ///
    /// let remembered = claude::AGENT.converter().memory();
    /// let again = claude::AGENT.resume_converter(&remembered)?;
    /// assert_eq!(again.memory(), remembered);
    /// # Ok::<(), threadfold_convert::MemoryError>(())
    /// ```
    pub fn resume_converter(self, memory: &Json) -> Result<Box<dyn Converter>, MemoryError> {
        (self.0.resume)(memory)
    }

    /// Takes a session apart that is stored in one piece; nothing if it is not.
    pub fn unpack(self, bytes: &[u8]) -> Option<Bundle> {
        (self.0.unpack)(bytes)
    }

    /// Says whether a file's name, without its extension, is a session's id as the agent writes it.
    pub fn is_session_name(self, stem: &str) -> bool {
        (self.0.is_session_name)(stem)
    }

    /// Says whether a session has one main file, so that another main file is a copy of it,
    /// whatever somebody called it.
    pub fn has_one_main_file(self) -> bool {
        self.0.has_one_main_file
    }

    /// Sorts the files of one session into reading order, each with what it is.
    pub fn reading_order(self, files: &[SessionFile<'_>]) -> Vec<OrderedFile> {
        (self.0.reading_order)(files)
    }

    pub(crate) fn parity(self) -> &'static ParityTable {
        &self.0.parity
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

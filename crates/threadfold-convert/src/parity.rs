//! What an agent reports in only one of stream and transcript, and what its records state.
//!
//! The crate that folds both also compares them; the tables stay in each agent's folder.

mod evidence;
mod facts;
mod known_gap;
mod table;

use threadfold_core::{Block, Json};

use crate::Agent;
use crate::record::FeedLine;

pub(crate) use evidence::{Answer, QueuedPrompt, RunReport, StoredHook, TaskEvent, TaskNotice};
pub use evidence::{CrossCheck, Evidence, Refutation};
pub(crate) use facts::is_same_path;
pub use facts::{Contradiction, Facts, RecordName, Variant};
pub(crate) use known_gap::parse;
pub use known_gap::{KnownGap, Versions, is_within, normalize};
pub(crate) use table::ParityTable;

/// One of the two sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The agent's live stream.
    Stream,
    /// The agent's stored session.
    Transcript,
}

/// The conversation of a block that only one side has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockPlace {
    /// The depth of nesting: 0 for the main conversation, 1 for its subagents.
    pub depth: usize,
    /// The name of the conversation.
    pub conversation: String,
    /// The transcript has this subagent, but no call that started it.
    pub is_uncalled: bool,
    /// The first prompt in the transcript of this subagent.
    pub opening: Option<String>,
    /// The block is the first one of its conversation.
    pub is_first: bool,
    /// The text of the harness's line directly before the block, in the transcript.
    pub after: Option<String>,
    /// The prompt in the call that started this subagent.
    pub called_with: Option<String>,
    /// The call returns before the subagent ends.
    pub is_background: bool,
    /// The stream repeats the prompts of the turn.
    pub has_prompts: bool,
    /// A later block of the conversation is on both sides.
    pub is_answered: bool,
    /// The block is of the turns before the stream began.
    pub is_earlier: bool,
    /// The block is a prompt that was delivered while the agent was at work, so it opens no turn.
    pub is_delivered: bool,
    /// How many blocks of this conversation in the transcript open a turn, are not in the stream, and
    /// precede this one: since the stream began, and in all.
    pub openers_before: (usize, usize),
    /// The transcript has answers of the turns before the stream began.
    pub has_earlier: bool,
    /// What the stream shows of the run.
    pub run: PlaceRun,
    /// The notices of the transcript up to the place of a block that only the stream has.
    pub notices: Vec<PlaceNotice>,
    /// The agent's version, if it is known.
    pub version: Option<String>,
}

/// What is known of the run of a block that only one side has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceRun {
    /// The run was killed, or a signal interrupted it, so its end may be missing.
    pub lost_end: bool,
    /// The stream left a session and began another one.
    pub has_reset: bool,
    /// The stream shows that a session was resumed.
    pub was_resumed: bool,
    /// The turns that the stream shows; 0 if it shows none.
    pub turns: usize,
    /// The turns for which the file reports that their prompt was taken from a queue; 0 if it reports
    /// none.
    pub dequeued: usize,
    /// The model called a script, which may make calls of its own.
    pub has_scripts: bool,
}

/// A notice of the transcript, before the place of a block that only the stream has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceNotice {
    /// Its subtype.
    pub subtype: String,
    /// No block that both sides have is between the notice and that place.
    pub is_beside: bool,
}

/// A field that the two sides of a block or of a subagent do not share.
#[derive(Clone, Copy, Debug)]
pub struct FieldPlace<'a> {
    /// The block as each side has it; none for a field of a subagent itself.
    pub blocks: Option<(&'a Block, &'a Block)>,
    /// The field; those of the metadata are `metadata.<name>`.
    pub field: &'a str,
    /// The side that has it; none if both have it, with different values.
    pub side: Option<Side>,
    /// The depth of nesting: 0 for the main conversation, 1 for its subagents.
    pub depth: usize,
    /// The stream repeats the prompts of the turn.
    pub has_prompts: bool,
    /// The agent's version, if it is known.
    pub version: Option<&'a str>,
    /// The form of the stored history, where one version has several.
    pub history: Option<&'a str>,
}

/// What a line of a file says about its own place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinePlace {
    /// The name of the line.
    pub id: Option<String>,
    /// The name of the line that it continues.
    pub parent: Option<String>,
    /// When the line was made; texts are ordered like the times.
    pub time: Option<String>,
}

/// Reads the records of one side, and states what each field of each record is.
///
/// This is separate from the converter: a state holds what people read, while a comparison must
/// also detect a change in what no block shows, such as the stop reason of a message.
pub trait FactReader {
    /// Reads one line.
    fn push(&mut self, line: &FeedLine<'_>);

    /// Returns what the lines state.
    fn finish(self: Box<Self>) -> Facts;
}

impl Agent {
    /// Returns the known gaps: what the agent reports on one side only.
    pub fn known_gaps(self) -> &'static [KnownGap] {
        (self.parity().known_gaps)()
    }

    /// Returns the known gap that explains a block on one side only.
    pub fn explain_block(
        self,
        place: &BlockPlace,
        block: &Block,
        side: Side,
    ) -> Option<&'static str> {
        let name = (self.parity().explain_block)(place, block, side)?;
        self.applying(name, place.version.as_deref())
    }

    /// Returns whether a block of the main conversation opens a turn.
    pub fn opens_turn(self, block: &Block) -> bool {
        (self.parity().opens_turn)(block)
    }

    /// Compares what one side reports in sum with what both report one by one, and finds lines for
    /// which there is no evidence.
    pub fn cross_check(self, stream: &Facts, transcript: &Facts) -> CrossCheck {
        (self.parity().cross_check)(stream, transcript)
    }

    /// Returns the known gap that explains a field that only the transcript has: of a block of
    /// this type, or of a subagent itself.
    pub fn explain_field(
        self,
        block_type: Option<&Json>,
        field: &str,
        version: Option<&str>,
    ) -> Option<&'static str> {
        let name = (self.parity().explain_field)(block_type, field)?;
        self.applying(name, version)
    }

    /// Returns the known gap that explains a field that the sides do not share, where that depends
    /// on more than the type of the block.
    pub fn explain_place(self, place: &FieldPlace<'_>) -> Option<&'static str> {
        let name = (self.parity().field_gap)(place)?;
        self.applying(name, place.version)
    }

    /// Returns whether a line is of a stream that names nothing, so that its blocks get the names of
    /// the transcript.
    pub fn is_unnamed(self, line: &[u8]) -> bool {
        self.parity().is_unnamed.is_some_and(|is_unnamed| is_unnamed(line))
    }

    /// Returns what a line of a file says about its own place; nothing if the lines of this agent are
    /// where they stand.
    pub fn line_place(self, line: &[u8]) -> Option<LinePlace> {
        self.parity().line_place.map(|line_place| line_place(line))
    }

    /// Returns whether one of the agent's views names nothing and repeats no prompts, while the others
    /// always do.
    pub fn has_unnamed_view(self) -> bool {
        self.parity().is_unnamed.is_some()
    }

    /// Returns a gap's name if it holds for this version of the agent.
    fn applying(self, name: &'static str, version: Option<&str>) -> Option<&'static str> {
        let mut named = self.known_gaps().iter().filter(|gap| gap.name == name);
        named.any(|gap| gap.versions.include(version)).then_some(name)
    }

    /// Returns the known gap that explains a field that only this side has: of a record that both
    /// sides have, or of one that the other side lacks.
    pub fn explain_record(
        self,
        record: &str,
        field: &str,
        (side, whole): (Side, bool),
        version: Option<&str>,
    ) -> Option<&'static KnownGap> {
        let covers = |gap: &&KnownGap| {
            gap.whole == whole && gap.covers(record, field, side) && gap.versions.include(version)
        };
        self.known_gaps().iter().find(covers)
    }

    /// Returns whether both sides of this version carry this field of a record, so that its absence
    /// on one side is a difference.
    pub fn is_shared(self, record: &str, field: &str, version: Option<&str>) -> bool {
        (self.parity().is_shared)(record, field, version)
    }

    /// Returns whether a record of this kind on this side only is a difference, although no
    /// block shows it.
    pub fn is_paired(self, record: &str, side: Side) -> bool {
        let one_sided = match side {
            Side::Stream => self.parity().paired_if_streamed,
            Side::Transcript => self.parity().paired_if_stored,
        };
        self.parity().paired.contains(&record) || one_sided.contains(&record)
    }

    /// Returns the record that a record follows from, as a result from its call.
    pub fn cause_of(self, record: &RecordName) -> Option<RecordName> {
        (self.parity().cause_of)(record)
    }

    /// Returns the known gap of a record that a run of this version may lack, although what it follows
    /// from is on both sides.
    pub fn omission_of(self, record: &RecordName, version: Option<&str>) -> Option<&'static str> {
        let name = (self.parity().omission_of)(record)?;
        self.applying(name, version)
    }

    /// Returns a reader of what the agent's records state.
    pub fn fact_reader(self) -> Box<dyn FactReader> {
        (self.parity().facts)()
    }

    /// Returns whether subagents are stored apart from their parent, so that a transcript may lack
    /// one entirely.
    pub fn stores_subagents_apart(self) -> bool {
        self.parity().stores_subagents_apart
    }

    /// Returns whether the agent buffers what it stores, so that a kill loses the end of it.
    pub fn loses_end_at_kill(self) -> bool {
        self.parity().loses_end_at_kill
    }

    /// Returns whether this version exits at a signal before it has stored everything.
    pub fn loses_end_at_signal(self, version: Option<&str>) -> bool {
        self.parity().loses_end_at_signal.is_some_and(|versions| versions.include(version))
    }

    /// Returns whether the file of this version may have a prompt in its queue only, and not as a
    /// message.
    pub fn leaves_prompts_in_queue(self, version: Option<&str>) -> bool {
        self.parity().leaves_prompts_in_queue.is_some_and(|versions| versions.include(version))
    }

    /// Returns whether this version may exit before it has written the file of a subagent.
    pub fn loses_subagents_at_exit(self, version: Option<&str>) -> bool {
        self.parity().loses_subagents_at_exit.is_some_and(|versions| versions.include(version))
    }

    /// Returns whether this version may write lines before the lines that they continue.
    pub fn disorders_lines(self, version: Option<&str>) -> bool {
        self.parity().disorders_lines.is_some_and(|versions| versions.include(version))
    }

    /// Returns whether the stream of this version omits what background subagents do.
    pub fn omits_background(self, version: Option<&str>) -> bool {
        self.parity().omits_background.is_some_and(|versions| versions.include(version))
    }

    /// Returns whether this version does not store the result of a call if the response was cut off.
    pub fn loses_results_at_cut(self, version: Option<&str>) -> bool {
        self.parity().loses_results_at_cut.is_some_and(|versions| versions.include(version))
    }

    /// Returns whether the stream of this version omits what subagents do after their caller was
    /// interrupted.
    pub fn omits_after_interruption(self, version: Option<&str>) -> bool {
        self.parity().omits_after_interruption.is_some_and(|versions| versions.include(version))
    }
}

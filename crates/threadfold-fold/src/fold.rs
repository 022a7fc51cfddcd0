//! The fold: everything that is derived from a session's log, updated one record at a time.
//!
//! It is pure: the same records give the same fold, whoever reads them, wherever and whenever.

mod ledger;
mod observation;
mod push;
mod slices;
mod snapshot;
mod stored_converter;

use std::collections::BTreeMap;
use std::sync::Arc;

use threadfold_convert::{Agent, Converter, EndProgress, events};
use threadfold_core::{
    Anomaly, Change, ConversationState, Json, SessionEvent, SessionId, SessionMetadata, SpillStore,
    TurnState,
};

use crate::short_lines::ShortLines;
use crate::slice::{Item, Items, SliceChange, SliceError, Slices};
use crate::snapshot::{METADATA, SliceSnapshot};
use crate::source::{Source, SourceRole, SourceSpec};
use crate::sources::Sources;
use crate::spill_budget::Spill;

use ledger::Turns;
pub use observation::is_observation;
use push::finish_line;
pub use slices::SliceCommand;

/// Everything that is derived from a session's log.
pub struct Fold {
    session: SessionId,
    seq: u64,
    sources: Sources,
    /// The agent's converter, once a source of an agent was declared.
    converter: Option<(Agent, Box<dyn Converter>)>,
    /// The converter of Threadfold's own events, which any session may contain.
    events: Box<dyn Converter>,
    conversation: ConversationState,
    /// Where closed blocks go that do not fit in memory.
    spill: Option<Spill>,
    metadata: SessionMetadata,
    turns: Turns,
    slices: Slices,
    /// Slices of a snapshot that are not registered here. They are valid at its record only,
    /// because nothing here updates them.
    unknown: Vec<SliceSnapshot>,
    /// The events that follow if every source ends at this record, as a snapshot has them.
    stored_settling: Option<(u64, Vec<SessionEvent>)>,
    oddities: u64,
    /// Hashes the records of each source, so that the source can be continued later.
    is_continuable: bool,
    /// Folds the conversation and nothing beside it.
    is_conversation_only: bool,
}

/// What one record changed.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The record's sequence number.
    pub seq: u64,
    /// The record's length in bytes.
    pub bytes: usize,
    /// The record's line in its source, from 1; 0 if it is not a line.
    pub line: u64,
    /// The events of the record.
    pub events: Vec<SessionEvent>,
    /// What the events changed in the conversation.
    pub changes: Vec<Change>,
    /// What the record changed in the slices.
    pub slice_changes: Vec<SliceChange>,
    /// The metadata of the session, if the record changed more of it than its times.
    pub metadata: Option<SessionMetadata>,
    /// The session was restored to an earlier snapshot, which `changes` do not contain.
    pub restored: bool,
    /// What could not be applied.
    pub oddities: Vec<Oddity>,
}

/// Something in a log that could not be applied. The log still contains it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Oddity {
    /// The reducer ignored an event.
    Ignored(Anomaly),
    /// A record cannot be read.
    Unreadable(String),
    /// An item was dispatched that no registered slice listens to.
    NoListener(String),
}

impl Fold {
    /// Returns the fold of no records.
    ///
    /// A source may hold several sessions: those that are not `session` are ignored. If its id is
    /// empty, the session is the first that the records name.
    pub fn new(session: SessionId, slices: Slices) -> Self {
        Self {
            session,
            seq: 0,
            sources: Sources::default(),
            converter: None,
            events: events::converter(),
            conversation: ConversationState::default(),
            spill: None,
            metadata: SessionMetadata::default(),
            turns: Turns::default(),
            slices,
            unknown: Vec::new(),
            stored_settling: None,
            oddities: 0,
            is_continuable: true,
            is_conversation_only: false,
        }
    }

    /// Spills closed blocks to `target` after every `budget` bytes of records.
    ///
    /// If the target fails, the conversation is unusable: the owner of the target must check it
    /// before using the state.
    #[must_use]
    pub fn spill_to(self, target: Arc<dyn SpillStore>, budget: usize) -> Self {
        Self { spill: Some(Spill::new(target, budget)), ..self }
    }

    /// Skips the hash over each source's records, which is needed only to continue sources later.
    #[must_use]
    pub fn once(self) -> Self {
        Self { is_continuable: false, ..self }
    }

    /// Folds the conversation alone: no changes, metadata, turns or slices, and no hashes over
    /// sources. For whoever wants a state and nothing else.
    #[must_use]
    pub fn conversation_only(self) -> Self {
        Self { is_conversation_only: true, ..self.once() }
    }

    /// Returns the conversation as if every source ended here: open blocks are closed, and an
    /// incomplete last line is converted.
    pub fn settled(&self) -> ConversationState {
        let mut settling = SettledConversation::of(self.conversation.clone(), self.spill.clone());
        self.each_settling(|events| settling.apply(events));
        settling.state
    }

    /// Returns the settled conversation as [`settled`](Self::settled) does. The converter is used up
    /// instead of copied: its memory may be as large as the input.
    pub fn into_settled(self) -> ConversationState {
        self.into_settled_with(|_| {})
    }

    /// Returns the settled conversation as [`into_settled`](Self::into_settled) does. The events that
    /// led to it are passed to `each` in portions, because each of very many subagents may end with
    /// the last source.
    pub fn into_settled_with(mut self, mut each: impl FnMut(&[SessionEvent])) -> ConversationState {
        let mut settling = self.begin_settling();
        self.end(|events| {
            settling.apply(events);
            each(events);
        });
        settling.state
    }

    /// Takes the conversation out of the fold, to settle it.
    pub(crate) fn begin_settling(&mut self) -> SettledConversation {
        SettledConversation::of(std::mem::take(&mut self.conversation), self.spill.clone())
    }

    /// Returns the events that would follow if every source ended here.
    ///
    /// Forks of the converters emit them, so the fold itself does not change.
    pub fn settling(&self) -> Vec<SessionEvent> {
        let mut all = Vec::new();
        self.each_settling(|events| all.extend_from_slice(events));
        all
    }

    /// Calls `each` with the events of [`settling`](Self::settling), in portions.
    pub fn each_settling(&self, mut each: impl FnMut(&[SessionEvent])) {
        if let Some(stored) = self.settling_here() {
            return each(stored);
        }
        let converter = self.converter.as_ref().map(|(_, converter)| converter.fork());
        self.settle_with(converter, each);
    }

    /// Calls `each` with the events that follow because every source ends here, in portions, and
    /// drops the converter: no record can be pushed any more.
    pub(crate) fn end(&mut self, mut each: impl FnMut(&[SessionEvent])) {
        let converter = self.converter.take().map(|(_, converter)| converter);
        match self.settling_here() {
            Some(stored) => each(stored),
            None => self.settle_with(converter, each),
        }
    }

    /// Returns the events of a snapshot at this very record: to ask the converter would read its
    /// memory.
    fn settling_here(&self) -> Option<&[SessionEvent]> {
        let (seq, events) = self.stored_settling.as_ref()?;
        (*seq == self.seq).then_some(events)
    }

    fn settle_with(
        &self,
        mut converter: Option<Box<dyn Converter>>,
        mut each: impl FnMut(&[SessionEvent]),
    ) {
        let mut own = self.events.fork();
        let mut events = Vec::new();
        for source in self.sources.iter().filter(|source| !source.ended) {
            let converter = match source.spec.kind {
                SourceRole::Events => Some(&mut own),
                _ => converter.as_mut(),
            };
            if let (Some(feed), Some(converter)) = (&source.feed, converter) {
                let open = (source.partial.clone(), source.long.clone());
                finish_line(open, source.position, feed, converter, &mut events);
                loop {
                    let remaining = converter.finish_portion(feed, &mut events);
                    ShortLines::move_anchors(source.short.as_deref(), &mut events);
                    each(&events);
                    events.clear();
                    if remaining == EndProgress::Complete {
                        break;
                    }
                }
            }
        }
    }

    /// Returns the session's id.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns the sequence number of the last record.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the conversation.
    pub fn conversation(&self) -> &ConversationState {
        &self.conversation
    }

    /// Returns the metadata of the session.
    pub fn metadata(&self) -> &SessionMetadata {
        &self.metadata
    }

    /// Returns the ledger of Threadfold's own agent loop: the turns that it wrote under its lease,
    /// and those that a person trusted. Empty for other sessions, whatever their records report.
    pub fn turns(&self) -> &TurnState {
        &self.turns.ledger
    }

    /// Returns the turns that all records report, including those of imported events. They are
    /// history: nothing may be run because of them.
    pub fn reported_turns(&self) -> &TurnState {
        self.turns.reported()
    }

    /// Returns true if the session began as a run of a loop, and was not read from elsewhere.
    pub fn is_run(&self) -> bool {
        self.sources.iter().next().is_none() && self.reported_turns().last().is_some()
    }

    /// Returns the sources in the order of their declaration.
    pub fn sources(&self) -> impl DoubleEndedIterator<Item = &Source> {
        self.sources.iter()
    }

    /// Returns the sources that may be the same file as `spec`, or copies of it at other paths, in
    /// the order of their declaration.
    pub fn same_files(&self, spec: &SourceSpec) -> impl DoubleEndedIterator<Item = &Source> {
        self.sources.same_files(spec)
    }

    /// Returns the number for the next source to declare.
    pub fn next_source(&self) -> u32 {
        self.sources.greatest_number().unwrap_or_default() + 1
    }

    /// Returns the latest part of a source.
    pub fn source(&self, spec: &SourceSpec) -> Option<&Source> {
        self.sources.latest(spec)
    }

    /// Returns the agent of the session.
    pub fn agent(&self) -> Option<Agent> {
        self.converter.as_ref().map(|(agent, _)| *agent)
    }

    /// Returns the session's id in the agent's own records.
    pub fn agent_session(&self) -> Option<SessionId> {
        self.converter.as_ref().and_then(|(_, converter)| converter.session())
    }

    /// Returns how many oddities there were.
    pub fn oddities(&self) -> u64 {
        self.oddities
    }

    /// Returns the items of this type, from the slice that holds them.
    pub fn items<T: Item>(&self) -> Result<&Items<T>, SliceError> {
        self.slices.items()
    }

    /// Returns the slices.
    pub fn slices(&self) -> &Slices {
        &self.slices
    }

    /// Returns the slices beside the conversation as they are shown: the items of each, by its name.
    pub fn shown_slices(&self) -> BTreeMap<&str, Vec<Json>> {
        let mut shown = self.slices.to_json();
        shown.insert(METADATA, vec![Json::of(&self.metadata)]);
        shown
    }

    /// Returns an independent fold with the same state.
    #[must_use]
    pub fn fork(&self) -> Self {
        let converter = self.converter.as_ref().map(|(agent, it)| (*agent, it.fork()));
        Self { converter, ..self.without_converter() }
    }

    /// Returns the fold without its converter, for readers that receive events from here on.
    ///
    /// Its cost does not depend on the length of the session, unlike copying a converter's memory.
    #[must_use]
    pub fn without_converter(&self) -> Self {
        Self {
            session: self.session.clone(),
            seq: self.seq,
            sources: self.sources.clone(),
            converter: None,
            events: self.events.fork(),
            conversation: self.conversation.clone(),
            spill: self.spill.clone(),
            metadata: self.metadata.clone(),
            turns: self.turns.clone(),
            slices: self.slices.fork(),
            unknown: self.unknown.clone(),
            stored_settling: self.stored_settling.clone(),
            oddities: self.oddities,
            is_continuable: self.is_continuable,
            is_conversation_only: self.is_conversation_only,
        }
    }
}

/// A conversation that is settled event by event. There may be one for each of very many subagents, so
/// what they change is spilled like any other change.
pub(crate) struct SettledConversation {
    pub(crate) state: ConversationState,
    spill: Option<Spill>,
}

impl SettledConversation {
    pub(crate) fn of(state: ConversationState, spill: Option<Spill>) -> Self {
        Self { state, spill }
    }

    pub(crate) fn apply(&mut self, events: &[SessionEvent]) {
        for event in events {
            self.state.extend([event]);
            if let Some(spill) = &mut self.spill {
                spill.after_event(&mut self.state);
            }
        }
    }
}

impl Step {
    /// Returns what the record changed in the slices beside the conversation, as they are shown.
    pub fn shown_slice_changes(&self) -> Vec<SliceChange> {
        let metadata = self.metadata.as_ref().map(|metadata| SliceChange::ItemSet {
            slice: METADATA.to_owned(),
            index: 0,
            item: Json::of(metadata),
        });
        self.slice_changes.iter().cloned().chain(metadata).collect()
    }

    /// Begins the step of another record, in the memory of the last one.
    fn reset(&mut self, record: u64, length: usize) {
        let Self { seq, bytes, line, events, changes, slice_changes, metadata, restored, oddities } =
            self;
        *metadata = None;
        (*seq, *bytes, *line, *restored) = (record, length, 0, false);
        events.clear();
        changes.clear();
        slice_changes.clear();
        oddities.clear();
    }

    fn report_unreadable(&mut self, what: String) {
        self.oddities.push(Oddity::Unreadable(what));
    }
}

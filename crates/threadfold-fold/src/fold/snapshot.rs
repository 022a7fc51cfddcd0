//! A fold as a snapshot, and a fold restored from one.

use std::io::{self, Write};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadfold_convert::{Agent, GENERATION};
use threadfold_core::{
    ConversationState, Fields, Json, OutlinePlaces, SessionMetadata, SnapshotError, SpillStore,
    TurnState,
};

use super::Fold;
use super::stored_converter::StoredConverter;
use crate::cursor::LogId;
use crate::error::with_causes;
use crate::slice::RestorePolicy;
use crate::snapshot::{
    CONVERSATION, CONVERTER, ConverterPlace, METADATA, MetadataPlace, SliceSnapshot, SliceText,
    Snapshot, SnapshotFooter, SnapshotHeader, SnapshotOutline, SnapshotRestoreError, SnapshotText,
    TextRange,
};
use crate::source::SourceItem;
use crate::sources::Sources;

/// The fold's own slices in a snapshot, and what a restore does with each.
const OWN: [(&str, RestorePolicy); 6] = [
    (CONVERSATION, RestorePolicy::State),
    (CONVERTER, RestorePolicy::State),
    (METADATA, RestorePolicy::Log),
    (REPORTED_TURNS, RestorePolicy::Log),
    (SOURCES, RestorePolicy::Log),
    // A restore is a record like any other: it must not write a ledger.
    ("turns", RestorePolicy::Log),
];
const REPORTED_TURNS: &str = "reportedTurns";
const SOURCES: &str = "sources";
const OWN_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
pub(super) struct ConverterItem {
    pub(super) agent: String,
    pub(super) memory: Json,
}

impl Fold {
    /// Returns this fold with everything that a restore rolls back taken from `snapshot`.
    pub fn rolled_back(&self, snapshot: &Snapshot) -> Result<Self, SnapshotRestoreError> {
        let mut fold = self.fork();
        // It belongs to the conversation that is replaced.
        fold.stored_settling = None;
        fold.slices.clear_states();
        for slice in &snapshot.slices {
            if fold.policy_of(&slice.slice_type) == Some(RestorePolicy::State) {
                fold.load(&slice.as_text())?;
            }
        }
        let hash = fold.state_hash();
        if hash != snapshot.state_hash {
            let reason = format!("it is {}, but the slices have {hash}", snapshot.state_hash);
            return Err(SnapshotRestoreError::new("stateHash", reason));
        }
        Ok(fold)
    }

    /// Returns the fold of a snapshot of this log; `self` is the fold of no records.
    ///
    /// The snapshot's hash is not verified, because that takes longer than reading it: stores detect
    /// corruption with hashes of their own.
    pub fn from_snapshot(self, json: &str, log: &LogId) -> Result<Self, SnapshotRestoreError> {
        let snapshot = SnapshotText::read(json)?;
        check_log(&snapshot.log_id, snapshot.generation, log)?;
        let mut fold = self;
        fold.load_all(&snapshot.slices)?;
        fold.seq = snapshot.seq;
        Ok(fold)
    }

    /// Returns the fold of a stored snapshot of this log, by its outline; `self` is the fold of no
    /// records.
    ///
    /// `text` holds the whole stored snapshot. Blocks, the converter's memory and the tokens of
    /// messages are read from it when they are needed, so its owner must check it before using the
    /// state.
    pub fn from_outline(
        self,
        outline: SnapshotOutline,
        footer: &SnapshotFooter,
        text: &Arc<dyn SpillStore>,
        log: &LogId,
    ) -> Result<Self, SnapshotRestoreError> {
        check_log(&outline.log_id, outline.generation, log)?;
        let SnapshotOutline { seq, state, converter, metadata, slices, settling, .. } = outline;
        let mut texts = Vec::with_capacity(slices.len());
        for TextRange { place, length } in slices {
            let bytes = usize::try_from(length).ok().and_then(|it| text.fetch(place, it));
            let bytes = bytes.and_then(|it| String::from_utf8(it).ok());
            let missing = || SnapshotRestoreError::new("slices", format!("no text at {place}"));
            texts.push(bytes.ok_or_else(missing)?);
        }
        let mut fold = self;
        {
            let slices = texts.iter().map(|json| {
                serde_json::from_str::<SliceText<'_>>(json)
                    .map_err(|error| SnapshotRestoreError::new("slices", error.to_string()))
            });
            fold.load_all(&slices.collect::<Result<Vec<_>, _>>()?)?;
        }
        let places = OutlinePlaces {
            state: outline.conversation,
            rows: footer.rows..footer.hashes,
            hashes: footer.hashes..footer.index,
            index: footer.index..footer.outline,
        };
        fold.conversation = ConversationState::restore_outline(&state, text, &places)
            .map_err(|error| SnapshotRestoreError::new("state", error.to_string()))?;
        if let Some(MetadataPlace { head, item: TextRange { place, length } }) = metadata {
            let invalid = |reason: String| SnapshotRestoreError::new(METADATA, reason);
            let length = usize::try_from(length).map_err(|error| invalid(error.to_string()))?;
            fold.metadata = SessionMetadata::from_head(&head, text.clone(), place, length)
                .map_err(|error| invalid(error.to_string()))?;
        }
        if let Some(ConverterPlace { agent, session, item }) = converter {
            let agent = Agent::from_name(&agent).ok_or_else(|| {
                SnapshotRestoreError::new("converter", format!("agent `{agent}` is unknown"))
            })?;
            let stored = StoredConverter::new(agent, session, text.clone(), item);
            fold.converter = Some((agent, Box::new(stored)));
        }
        fold.stored_settling = settling.map(|events| (seq, events));
        fold.seq = seq;
        Ok(fold)
    }

    /// Loads slices of a snapshot, and fails if one that is registered here is missing.
    fn load_all(&mut self, slices: &[SliceText<'_>]) -> Result<(), SnapshotRestoreError> {
        // A slice that is missing in the snapshot needs every record from the start.
        let has = |name: &str| slices.iter().any(|slice| slice.slice_type == name);
        if let Some(missing) = self.slices.iter().find(|slice| !has(slice.name())) {
            let field = format!("slices.{}", missing.name());
            return Err(SnapshotRestoreError::new(field, "the snapshot does not contain it"));
        }
        for slice in slices {
            match self.policy_of(&slice.slice_type) {
                Some(_) => self.load(slice)?,
                None => self.unknown.push(slice.to_snapshot()),
            }
        }
        self.slices.forget_changes();
        Ok(())
    }

    /// Returns the hash of the conversation.
    pub fn state_hash(&self) -> String {
        self.conversation.hash().to_string()
    }

    fn policy_of(&self, slice: &str) -> Option<RestorePolicy> {
        let own = OWN.iter().find(|(name, _)| *name == slice).map(|(_, policy)| *policy);
        own.or_else(|| self.slices.get(slice).map(|slice| slice.policy()))
    }

    /// Returns what a restore does with each slice.
    fn policies(&self) -> impl Iterator<Item = (String, RestorePolicy)> {
        let own = OWN.iter().map(|(name, policy)| ((*name).to_owned(), *policy));
        own.chain(self.slices.iter().map(|it| (it.name().to_owned(), it.policy())))
    }

    /// Returns a snapshot of all slices.
    pub fn snapshot(&self, header: SnapshotHeader) -> Snapshot {
        let converter = self.converter.iter().map(|(agent, converter)| {
            Json::of(&ConverterItem { agent: agent.name().to_owned(), memory: converter.memory() })
        });
        let conversation = vec![Json::of(&self.conversation.snapshot())];
        let slices = self.slices_with(conversation, converter.collect());
        Snapshot { state_hash: self.state_hash(), slices, ..self.empty_snapshot(header) }
    }

    /// Returns a snapshot without slices and state hash, and all slices, with the conversation's
    /// and the converter's left empty.
    ///
    /// This is for writers that stream what is large to disk instead of holding it in memory.
    pub fn snapshot_frame(&self, header: SnapshotHeader) -> (Snapshot, Vec<SliceSnapshot>) {
        (self.empty_snapshot(header), self.slices_with(Vec::new(), Vec::new()))
    }

    /// Returns what an outline has of the converter, whose slice's item is at this place.
    pub fn converter_place(&self, item: TextRange) -> Option<ConverterPlace> {
        let (agent, converter) = self.converter.as_ref()?;
        Some(ConverterPlace { agent: agent.name().to_owned(), session: converter.session(), item })
    }

    /// Returns what an outline has of the metadata, whose slice's item is at this place.
    pub fn metadata_place(&self, item: TextRange) -> MetadataPlace {
        MetadataPlace { head: self.metadata.head(), item }
    }

    /// Writes the items of the converter's slice, as JSON.
    pub fn write_converter(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some((agent, converter)) = &self.converter else { return Ok(()) };
        write!(out, "{{\"agent\":{},\"memory\":", Json::string(agent.name()).as_str())?;
        converter.write_memory(out)?;
        out.write_all(b"}")
    }

    fn empty_snapshot(&self, header: SnapshotHeader) -> Snapshot {
        let SnapshotHeader { created_at, log_id, tags } = header;
        let policies = self.policies().map(|(name, policy)| (name, policy.name().to_owned()));
        Snapshot {
            created_at,
            session_id: self.session.clone(),
            log_id,
            generation: GENERATION,
            seq: self.seq,
            state_hash: String::new(),
            tags,
            policies: policies.collect(),
            slices: Vec::new(),
            extra: Fields::default(),
        }
    }

    fn slices_with(&self, conversation: Vec<Json>, converter: Vec<Json>) -> Vec<SliceSnapshot> {
        let sources = self.sources.iter().map(|source| Json::of(&SourceItem::from(source)));
        let turns = |turns: &TurnState| -> Vec<Json> {
            turns.last().map(|_| turns.to_json()).into_iter().collect()
        };
        let reported = self.turns.reported.as_ref().map(turns).unwrap_or_default();
        let own = |slice: &str, item: &str, items: Vec<Json>| {
            SliceSnapshot::new(slice, item, OWN_VERSION, items)
        };
        let mut all = vec![
            own(CONVERSATION, "conversationState", conversation),
            own(CONVERTER, "converterMemory", converter),
            own(METADATA, "sessionMetadata", vec![self.metadata.facts()]),
            own(SOURCES, "source", sources.collect()),
            own(REPORTED_TURNS, "turnState", reported),
            own("turns", "turnState", turns(&self.turns.ledger)),
        ];
        all.extend(self.slices.iter().map(|slice| {
            SliceSnapshot::new(slice.name(), slice.item_type(), slice.version(), slice.items())
        }));
        all.extend(self.unknown.iter().cloned());
        all.sort_by(|one, other| one.slice_type.cmp(&other.slice_type));
        all
    }

    /// Replaces the state of one slice with that of a snapshot.
    fn load(&mut self, slice: &SliceText<'_>) -> Result<(), SnapshotRestoreError> {
        let invalid = |reason: String| {
            SnapshotRestoreError::new(format!("slices.{}.items", slice.slice_type), reason)
        };
        let wanted =
            self.slices.get(&slice.slice_type).map_or(OWN_VERSION, |known| known.version());
        if slice.version != wanted {
            return Err(SnapshotRestoreError::new(
                format!("slices.{}.version", slice.slice_type),
                format!("expected version {wanted}, found {}", slice.version),
            ));
        }
        match &*slice.slice_type {
            CONVERSATION => {
                let Some(item) = slice.items.first() else {
                    return Err(invalid("there is no conversation".to_owned()));
                };
                let json = item.get();
                let state = match self.spill.as_mut().and_then(|it| it.prepare(json.len())) {
                    Some(shelf) => ConversationState::restore_spilling(json, &shelf),
                    None => serde_json::from_str(json)
                        .map_err(|error| SnapshotError::Unreadable { reason: error.to_string() })
                        .and_then(|facts| ConversationState::restore(&facts)),
                };
                self.conversation = state.map_err(|error| invalid(error.to_string()))?;
            }
            "converter" => {
                self.converter = match slice.items.first() {
                    Some(item) => {
                        let item: ConverterItem = serde_json::from_str(item.get())
                            .map_err(|error| invalid(error.to_string()))?;
                        let agent = Agent::from_name(&item.agent)
                            .ok_or_else(|| invalid(format!("agent `{}` is unknown", item.agent)))?;
                        let converter = agent.resume_converter(&item.memory);
                        Some((agent, converter.map_err(|error| invalid(error.to_string()))?))
                    }
                    None => None,
                };
            }
            METADATA => {
                if let Some(item) = slice.items.first() {
                    self.metadata = SessionMetadata::from_facts(&Json::from(*item))
                        .map_err(|error| invalid(error.to_string()))?;
                }
            }
            SOURCES => {
                let read = |item: &&RawValue| serde_json::from_str::<SourceItem>(item.get());
                let mut sources = Sources::default();
                for item in &slice.items {
                    sources.restore(read(item).map_err(|error| invalid(error.to_string()))?);
                }
                self.sources = sources;
            }
            "turns" | REPORTED_TURNS => {
                let turns = slice.items.first().map(|item| TurnState::restore(&Json::from(*item)));
                let turns = turns.transpose().map_err(|error| invalid(with_causes(&error)))?;
                match &*slice.slice_type {
                    REPORTED_TURNS => self.turns.reported = turns,
                    _ => self.turns.ledger = turns.unwrap_or_default(),
                }
            }
            name => {
                let items: Vec<Json> = slice.items.iter().map(|item| Json::from(*item)).collect();
                let seeded = self.slices.seed(name, &items);
                seeded.map_err(|error| invalid(with_causes(&error)))?;
            }
        }
        Ok(())
    }
}

/// Refuses a snapshot of another log, or of another generation.
fn check_log(found: &LogId, generation: u32, log: &LogId) -> Result<(), SnapshotRestoreError> {
    if found == log && generation == GENERATION {
        return Ok(());
    }
    let reason = format!("it is of log {found}.{generation}, and this is {log}.{GENERATION}");
    Err(SnapshotRestoreError::new("logId", reason))
}

//! Words to a session's slices, and the fold as a snapshot.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadfold_convert::{Agent, GENERATION};
use threadfold_core::{ConversationState, Fields, Json, SessionMetadata, SnapshotError, TurnState};

use super::{Fold, Oddity, Step};
use crate::cursor::LogId;
use crate::error::with_causes;
use crate::record::StoredRecord;
use crate::slice::{Dispatch, RestorePolicy};
use crate::snapshot::{
    CONVERSATION, SliceSnapshot, SliceText, Snapshot, SnapshotHeader, SnapshotRestoreError,
    SnapshotText,
};
use crate::source::SourceItem;
use crate::sources::Sources;

/// A word to a session's slices, as its log has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceCommand {
    op: Op,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    item_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slice: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    items: Vec<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot: Option<Json>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Op {
    /// An item, to whichever slices listen.
    Dispatch,
    /// Items in place of all that a slice has.
    Seed,
    /// Nothing in place of them.
    Clear,
    /// A snapshot, to which all slices go back that are rolled back.
    Restore,
}

impl SliceCommand {
    fn new(op: Op) -> Self {
        Self { op, item_type: None, slice: None, items: Vec::new(), snapshot: None }
    }

    /// Hands an item to every slice that listens to its type.
    pub fn dispatch(item_type: &str, item: Json) -> Self {
        let item_type = Some(item_type.to_owned());
        Self { item_type, items: vec![item], ..Self::new(Op::Dispatch) }
    }

    /// Replaces all items of a slice.
    pub fn seed(slice: &str, items: Vec<Json>) -> Self {
        Self { slice: Some(slice.to_owned()), items, ..Self::new(Op::Seed) }
    }

    /// Removes all items of a slice.
    pub fn clear(slice: &str) -> Self {
        Self { slice: Some(slice.to_owned()), ..Self::new(Op::Clear) }
    }

    /// Takes the slices back to a snapshot.
    pub fn restore(snapshot: Json) -> Self {
        Self { snapshot: Some(snapshot), ..Self::new(Op::Restore) }
    }
}

/// How a slice of a snapshot is read, and what becomes of it.
const OWN: [(&str, RestorePolicy); 5] = [
    (CONVERSATION, RestorePolicy::State),
    ("converter", RestorePolicy::State),
    ("metadata", RestorePolicy::Log),
    ("transcript", RestorePolicy::Log),
    ("turns", RestorePolicy::State),
];
const OWN_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct ConverterItem {
    agent: String,
    memory: Json,
}

impl Fold {
    pub(super) fn hear_slice(&mut self, record: &StoredRecord, step: &mut Step) {
        let word: SliceCommand = match serde_json::from_slice(&record.bytes) {
            Ok(word) => word,
            Err(error) => {
                return step.unreadable(format!("a word to the slices cannot be read: {error}"));
            }
        };
        let slice = word.slice.as_deref().unwrap_or_default();
        match word.op {
            Op::Dispatch => {
                let item_type = word.item_type.as_deref().unwrap_or_default();
                for item in &word.items {
                    match self.slices.hear_item(item_type, item) {
                        Dispatch::Accepted => {}
                        Dispatch::NoListener => {
                            step.oddities.push(Oddity::NoListener(item_type.to_owned()))
                        }
                        Dispatch::Unreadable(why) => step.unreadable(why),
                    }
                }
            }
            Op::Seed => {
                if let Err(error) = self.slices.seed(slice, &word.items) {
                    step.unreadable(with_causes(&error));
                }
            }
            Op::Clear => {
                if let Err(error) = self.slices.clear(slice) {
                    step.unreadable(with_causes(&error));
                }
            }
            Op::Restore => {
                let snapshot = word.snapshot.as_ref().map_or("null", Json::as_str);
                let restored =
                    Snapshot::from_json(snapshot).and_then(|snapshot| self.rolled_back(&snapshot));
                match restored {
                    Ok(fold) => {
                        *self = fold;
                        step.restored = true;
                    }
                    Err(error) => step.unreadable(error.to_string()),
                }
            }
        }
    }

    /// Returns this fold with all that a restore rolls back as `snapshot` has it.
    pub fn rolled_back(&self, snapshot: &Snapshot) -> Result<Self, SnapshotRestoreError> {
        let mut fold = self.fork();
        fold.slices.clear_states();
        for slice in &snapshot.slices {
            if fold.policy_of(&slice.slice_type) == Some(RestorePolicy::State) {
                fold.load(&slice.as_text())?;
            }
        }
        let hash = fold.state_hash();
        if hash != snapshot.state_hash {
            let reason = format!("{} is said, and the slices give {hash}", snapshot.state_hash);
            return Err(SnapshotRestoreError::new("stateHash", reason));
        }
        Ok(fold)
    }

    /// Returns the fold that a snapshot of this log was taken of, from one of no records.
    ///
    /// The snapshot's hash is not computed again, for that takes longer than reading it: a store
    /// knows by hashes of its own whether it is as it was written.
    pub fn from_snapshot(self, json: &str, log: &LogId) -> Result<Self, SnapshotRestoreError> {
        let snapshot = SnapshotText::read(json)?;
        if snapshot.log_id != *log || snapshot.generation != GENERATION {
            let reason = format!(
                "it is of log {}.{}, and this is {log}.{GENERATION}",
                snapshot.log_id, snapshot.generation
            );
            return Err(SnapshotRestoreError::new("logId", reason));
        }
        // A slice that the snapshot was made without must receive every record.
        let has = |name: &str| snapshot.slices.iter().any(|slice| slice.slice_type == name);
        if let Some(missing) = self.slices.iter().find(|slice| !has(slice.name())) {
            let field = format!("slices.{}", missing.name());
            return Err(SnapshotRestoreError::new(field, "the snapshot was made without it"));
        }
        let mut fold = self;
        for slice in &snapshot.slices {
            match fold.policy_of(&slice.slice_type) {
                Some(_) => fold.load(slice)?,
                None => fold.unknown.push(slice.to_snapshot()),
            }
        }
        fold.seq = snapshot.seq;
        Ok(fold)
    }

    /// Returns the hash of the conversation.
    pub fn state_hash(&self) -> String {
        self.conversation.hash().to_string()
    }

    fn policy_of(&self, slice: &str) -> Option<RestorePolicy> {
        let own = OWN.iter().find(|(name, _)| *name == slice).map(|(_, policy)| *policy);
        own.or_else(|| self.slices.get(slice).map(|slice| slice.policy()))
    }

    /// Returns what every slice does when the session is restored.
    fn policies(&self) -> impl Iterator<Item = (String, RestorePolicy)> {
        let own = OWN.iter().map(|(name, policy)| ((*name).to_owned(), *policy));
        own.chain(self.slices.iter().map(|it| (it.name().to_owned(), it.policy())))
    }

    /// Returns all slices as they are now.
    pub fn snapshot(&self, header: SnapshotHeader) -> Snapshot {
        let slices = self.slices_with(vec![Json::of(&self.conversation.snapshot())]);
        Snapshot { state_hash: self.state_hash(), slices, ..self.empty_snapshot(header) }
    }

    /// Returns a snapshot without its slices and without the hash of the conversation, and all
    /// slices, that of the conversation without its item: for a writer that does not hold a large
    /// conversation in memory.
    pub fn snapshot_frame(&self, header: SnapshotHeader) -> (Snapshot, Vec<SliceSnapshot>) {
        (self.empty_snapshot(header), self.slices_with(Vec::new()))
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

    fn slices_with(&self, conversation: Vec<Json>) -> Vec<SliceSnapshot> {
        let converter = self.converter.iter().map(|(agent, converter)| {
            Json::of(&ConverterItem { agent: agent.name().to_owned(), memory: converter.memory() })
        });
        let sources = self.sources.iter().map(|source| Json::of(&SourceItem::from(source)));
        let has_turns = self.turns.last().is_some();
        let turns = has_turns.then(|| self.turns.to_json()).into_iter();
        let own = |slice: &str, item: &str, items: Vec<Json>| {
            SliceSnapshot::new(slice, item, OWN_VERSION, items)
        };
        let mut all = vec![
            own(CONVERSATION, "conversationState", conversation),
            own("converter", "converterMemory", converter.collect()),
            own("metadata", "sessionMetadata", vec![self.metadata.facts()]),
            own("transcript", "source", sources.collect()),
            own("turns", "turnState", turns.collect()),
        ];
        all.extend(self.slices.iter().map(|slice| {
            SliceSnapshot::new(slice.name(), slice.item_type(), slice.version(), slice.items())
        }));
        all.extend(self.unknown.iter().cloned());
        all.sort_by(|one, other| one.slice_type.cmp(&other.slice_type));
        all
    }

    fn load(&mut self, slice: &SliceText<'_>) -> Result<(), SnapshotRestoreError> {
        let unfit = |reason: String| {
            SnapshotRestoreError::new(format!("slices.{}.items", slice.slice_type), reason)
        };
        let wanted =
            self.slices.get(&slice.slice_type).map_or(OWN_VERSION, |known| known.version());
        if slice.version != wanted {
            return Err(SnapshotRestoreError::new(
                format!("slices.{}.version", slice.slice_type),
                format!("version {wanted} was wanted, and {} was found", slice.version),
            ));
        }
        match &*slice.slice_type {
            CONVERSATION => {
                let Some(item) = slice.items.first() else {
                    return Err(unfit("there is no conversation".to_owned()));
                };
                let json = item.get();
                let state = match self.spill.as_mut().and_then(|it| it.prepare(json.len())) {
                    Some(shelf) => ConversationState::restore_spilling(json, &shelf),
                    None => serde_json::from_str(json)
                        .map_err(SnapshotError::from)
                        .and_then(|facts| ConversationState::restore(&facts)),
                };
                self.conversation = state.map_err(|error| unfit(error.to_string()))?;
            }
            "converter" => {
                self.converter = match slice.items.first() {
                    Some(item) => {
                        let item: ConverterItem = serde_json::from_str(item.get())
                            .map_err(|error| unfit(error.to_string()))?;
                        let agent = Agent::from_name(&item.agent)
                            .ok_or_else(|| unfit(format!("agent `{}` is unknown", item.agent)))?;
                        let converter = agent.resume_converter(&item.memory);
                        Some((agent, converter.map_err(|error| unfit(error.to_string()))?))
                    }
                    None => None,
                };
            }
            "metadata" => {
                if let Some(item) = slice.items.first() {
                    self.metadata = SessionMetadata::from_facts(&Json::from(*item))
                        .map_err(|error| unfit(error.to_string()))?;
                }
            }
            "transcript" => {
                let read = |item: &&RawValue| serde_json::from_str::<SourceItem>(item.get());
                let mut sources = Sources::default();
                for item in &slice.items {
                    sources.restore(read(item).map_err(|error| unfit(error.to_string()))?);
                }
                self.sources = sources;
            }
            "turns" => {
                self.turns = match slice.items.first() {
                    Some(item) => TurnState::restore(&Json::from(*item))
                        .map_err(|error| unfit(with_causes(&error)))?,
                    None => TurnState::default(),
                };
            }
            name => {
                let items: Vec<Json> = slice.items.iter().map(|item| Json::from(*item)).collect();
                let seeded = self.slices.seed(name, &items);
                seeded.map_err(|error| unfit(with_causes(&error)))?;
            }
        }
        Ok(())
    }
}

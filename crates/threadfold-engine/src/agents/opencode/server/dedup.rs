//! Deduplicates a server's events against the session's log.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::value::RawValue;
use threadfold_fold::{RecordKind, SourceSpec};

use crate::error::EngineError;
use crate::session::Session;

/// What was received: sessions, messages and parts by id, as hashes of their last version.
#[derive(Default)]
pub(super) struct Deduplicator {
    hashes: HashMap<String, blake3::Hash>,
    /// The messages of version 2, by session: they can disappear.
    messages: HashMap<String, BTreeSet<String>>,
    /// The last number of each session's events.
    numbers: HashMap<String, u64>,
    /// Events are missing between two that were received.
    pub(super) has_gap: bool,
}

#[derive(Deserialize)]
struct BusEvent<'a> {
    #[serde(rename = "type", default, borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    properties: Properties<'a>,
    #[serde(default, borrow)]
    data: Option<EventData<'a>>,
    #[serde(default, borrow)]
    durable: Option<Durable<'a>>,
    /// The export of one message of version 2.
    #[serde(default, borrow)]
    info: Option<&'a RawValue>,
    #[serde(default, borrow)]
    messages: Option<Vec<&'a RawValue>>,
}

/// What an event of version 2 is about.
#[derive(Deserialize, Default)]
struct EventData<'a> {
    #[serde(default, rename = "sessionID", borrow)]
    session: Option<Cow<'a, str>>,
    #[serde(default, rename = "assistantMessageID", borrow)]
    message: Option<Cow<'a, str>>,
    #[serde(default, rename = "inboxID", borrow)]
    inbox: Option<Cow<'a, str>>,
}

/// The number of an event of version 2 in its session.
#[derive(Deserialize)]
struct Durable<'a> {
    #[serde(rename = "aggregateID", borrow)]
    session: Cow<'a, str>,
    seq: u64,
}

#[derive(Deserialize, Default)]
struct Properties<'a> {
    #[serde(default, borrow)]
    info: Option<&'a RawValue>,
    #[serde(default, borrow)]
    part: Option<&'a RawValue>,
    #[serde(default, rename = "partID", borrow)]
    part_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ObjectId {
    id: String,
}

impl Deduplicator {
    /// Restores the hashes from a session's log of this source.
    pub(super) async fn of(session: &mut Session, spec: &SourceSpec) -> Result<Self, EngineError> {
        let parts = session.fold().sources().filter(|it| it.spec.is_same_source(spec));
        let parts: Vec<u32> = parts.map(|it| it.number).collect();
        let mut dedup = Self::default();
        if parts.is_empty() {
            return Ok(dedup);
        }
        session
            .read_back(|record| {
                if record.kind == RecordKind::Line && parts.contains(&record.source) {
                    dedup.is_new(&record.bytes);
                }
            })
            .await?;
        Ok(dedup)
    }

    /// Records a line, and returns whether it is new.
    pub(super) fn is_new(&mut self, line: &[u8]) -> bool {
        let json = line.trim_ascii().strip_prefix(b"data:").unwrap_or(line);
        let Ok(event) = serde_json::from_slice::<BusEvent<'_>>(json) else { return true };
        if let (Some(info), Some(messages)) = (event.info, &event.messages) {
            return self.is_new_export(info, messages);
        }
        if let Some(data) = &event.data {
            self.note_event(&event, data);
            return true;
        }
        let BusEvent { kind, properties, .. } = event;
        if let Some(whole) = properties.info.or(properties.part)
            && let Ok(ObjectId { id }) = serde_json::from_str(whole.get())
            && matches!(kind.rsplit_once('.'), Some((_, "created" | "updated")))
        {
            let hash = blake3::hash(whole.get().as_bytes());
            return self.hashes.insert(id, hash) != Some(hash);
        }
        match (kind.rsplit_once('.'), properties.part_id) {
            // The event does not name the parts that are removed with it.
            (Some((_, "removed" | "deleted")), _) => self.hashes.clear(),
            // A delta changed the part, so its last whole version is outdated.
            (_, Some(part)) => drop(self.hashes.remove(part.as_ref())),
            _ => {}
        }
        true
    }

    /// Returns the messages of a session that were received.
    pub(super) fn messages_of(&self, session: &str) -> BTreeSet<String> {
        self.messages.get(session).cloned().unwrap_or_default()
    }

    /// Records the export of one message, or of a session alone, and returns whether it is new.
    fn is_new_export(&mut self, info: &RawValue, messages: &[&RawValue]) -> bool {
        let object = messages.first().copied().unwrap_or(info);
        let ids = [info, object].map(|it| serde_json::from_str::<ObjectId>(it.get()).ok());
        let [Some(session), Some(object_id)] = ids else { return true };
        if !messages.is_empty() {
            self.messages.entry(session.id).or_default().insert(object_id.id.clone());
        }
        let hash = blake3::hash(object.get().as_bytes());
        self.hashes.insert(object_id.id, hash) != Some(hash)
    }

    /// Records an event of version 2: the last whole version of its message is outdated.
    fn note_event(&mut self, event: &BusEvent<'_>, data: &EventData<'_>) {
        let Some(session) = data.session.as_deref() else { return };
        self.hashes.remove(session);
        let delivered = data.inbox.as_ref().filter(|_| event.kind.ends_with(".delivered"));
        if let Some(message) = data.message.as_ref().or(delivered) {
            self.hashes.remove(message.as_ref());
            let known = self.messages.entry(session.to_owned()).or_default();
            known.insert(message.clone().into_owned());
        }
        if let Some(durable) = &event.durable {
            let last = self.numbers.insert(durable.session.clone().into_owned(), durable.seq);
            // One number is used for what is never sent, before these events.
            let skips = matches!(
                &*event.kind,
                "session.renamed" | "session.compaction.ended" | "session.compaction.failed"
            );
            let expected = last.map(|last| last + 1 + u64::from(skips));
            self.has_gap |= expected.is_some_and(|expected| durable.seq > expected);
        }
    }
}

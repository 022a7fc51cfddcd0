//! Marks: what a loop wrote is authenticated, so that a store from elsewhere cannot forge it.
//!
//! The kind of a record keeps imported events out of a ledger, but a store file can contain any
//! kind. A mark is a keyed hash over the record, its session and its log, with a key that never
//! leaves the user's machines. It cannot be moved to another run.

mod key_file;

use std::fmt;

use threadfold_core::SessionId;
use threadfold_fold::{LogId, Record, RecordKind, StoredRecord};

/// The key that authenticates what a user's loops wrote. Its value is never printed.
#[derive(Clone)]
pub struct MarkKey([u8; 32]);

impl MarkKey {
    /// Returns the key with these bytes, which must be secret and random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the mark of a record's content in a log.
    fn mark(&self, place: (&SessionId, &LogId), kind: RecordKind, content: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        let (session, log) = (place.0.as_str().as_bytes(), place.1.as_str().as_bytes());
        for piece in [b"threadfold mark 1", session, log, &[kind.code()], content] {
            // With its length, so that different pieces never give the same input.
            hasher.update(&(piece.len() as u64).to_le_bytes());
            hasher.update(piece);
        }
        hasher.finalize()
    }
}

impl fmt::Debug for MarkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MarkKey(***)")
    }
}

/// Returns a record of the loop, marked if there is a key.
pub(crate) fn loop_record(
    key: Option<&MarkKey>,
    place: (&SessionId, &LogId),
    kind: RecordKind,
    json: String,
) -> Record {
    let mark = key.map(|key| key.mark(place, kind, json.as_bytes()).to_hex());
    Record::of_loop(kind, json, mark.as_deref())
}

/// Checks the records of a log, in order: whether a loop with this key wrote its ledger.
pub struct LedgerCheck {
    key: MarkKey,
    session: SessionId,
    log: LogId,
    /// The hash of all records so far.
    records: blake3::Hasher,
    fault: Option<String>,
}

/// The content of a record that trusts the log before it.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct TrustContent {
    /// The hash of the records before it.
    pub(crate) records: String,
}

impl LedgerCheck {
    /// Returns the check of a session's log.
    pub fn new(key: MarkKey, session: SessionId, log: LogId) -> Self {
        Self { key, session, log, records: blake3::Hasher::new(), fault: None }
    }

    /// Checks the next record. Returns true if the loop wrote it and its mark is valid.
    pub fn push(&mut self, record: &StoredRecord) -> bool {
        let is_marked = record.kind.is_of_loop() && self.has_mark(record);
        if record.kind.is_of_loop() && !is_marked {
            let seq = record.seq;
            self.fault.get_or_insert_with(|| format!("record {seq} has no valid mark"));
        }
        // What a person trusted is authenticated by the hash in the decision.
        if record.kind == RecordKind::Trust && is_marked {
            let content = serde_json::from_slice::<TrustContent>(record.content_and_mark().0);
            let is_same = content.is_ok_and(|it| it.records == self.records_so_far());
            let why = || format!("the log before record {} was changed", record.seq);
            self.fault = (!is_same).then(why);
        }
        self.records.update(&[record.kind.code()]);
        self.records.update(&(record.bytes.len() as u64).to_le_bytes());
        self.records.update(&record.bytes);
        is_marked
    }

    fn has_mark(&self, record: &Record) -> bool {
        let (content, mark) = record.content_and_mark();
        let Some(mark) = mark.and_then(|it| blake3::Hash::from_hex(it).ok()) else { return false };
        // Hashes are compared in constant time.
        mark == self.key.mark((&self.session, &self.log), record.kind, content)
    }

    /// Returns why the ledger is not one that a loop with this key wrote.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Returns the hash of the records so far.
    pub(crate) fn records_so_far(&self) -> String {
        self.records.finalize().to_hex().to_string()
    }
}

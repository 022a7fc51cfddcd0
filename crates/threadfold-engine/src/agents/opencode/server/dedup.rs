//! What a session's log has already of what a server tells.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use threadfold_fold::{RecordKind, SourceSpec};

use crate::error::EngineError;
use crate::session::Session;

/// Sessions, messages and parts by their names, as hashes of what was said of them last.
#[derive(Default)]
pub(super) struct Deduplicator(HashMap<String, blake3::Hash>);

#[derive(Deserialize)]
struct Told<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    properties: Properties<'a>,
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
struct Named {
    id: String,
}

impl Deduplicator {
    /// Finds out what the log of a session holds of this source.
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

    /// Hears a line, and says whether it tells anything that was not said before.
    pub(super) fn is_new(&mut self, line: &[u8]) -> bool {
        let json = line.trim_ascii().strip_prefix(b"data:").unwrap_or(line);
        let Ok(Told { kind, properties }) = serde_json::from_slice(json) else { return true };
        if let Some(whole) = properties.info.or(properties.part)
            && let Ok(Named { id }) = serde_json::from_str(whole.get())
            && matches!(kind.rsplit_once('.'), Some((_, "created" | "updated")))
        {
            let hash = blake3::hash(whole.get().as_bytes());
            return self.0.insert(id, hash) != Some(hash);
        }
        match (kind.rsplit_once('.'), properties.part_id) {
            // What goes with it is not told.
            (Some((_, "removed" | "deleted")), _) => self.0.clear(),
            // A part that grew is not what was said of it as a whole.
            (_, Some(part)) => drop(self.0.remove(part.as_ref())),
            _ => {}
        }
        true
    }
}

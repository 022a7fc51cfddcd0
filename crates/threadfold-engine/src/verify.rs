//! Compares the stream of a stored session with its transcript.

use threadfold_core::SessionId;
use threadfold_fold::parity::{Comparison, SideState, Verdict, compare_sides};
use threadfold_fold::{Agent, Record, RecordKind, SourceRole, SourceSpec};
use threadfold_store::{Limit, Store};

use crate::error::EngineError;
use crate::originals::end;

/// What a comparison found.
#[derive(Debug, serde::Serialize)]
pub struct StoredComparison {
    /// The verdict.
    pub verdict: Verdict,
    /// What was compared, and each difference.
    #[serde(flatten)]
    pub comparison: Comparison,
}

/// Compares the stream of a session with its transcript; nothing if it does not have both.
pub async fn verify_stored(
    store: &dyn Store,
    session: &SessionId,
) -> Result<Option<StoredComparison>, EngineError> {
    let end = end(store, session).await?;
    let (mut stream, mut transcript) = (Vec::new(), Vec::new());
    let mut streams = std::collections::BTreeSet::new();
    let mut agent = None;
    let mut after = 0;
    while after < end {
        let records = store.read(session, after, Limit { until: end, ..Limit::default() }).await?;
        let Some(last) = records.last() else { break };
        after = last.seq;
        for record in &records {
            if record.kind == RecordKind::Source
                && let Ok(spec) = serde_json::from_slice::<SourceSpec>(&record.bytes)
            {
                agent = agent.or_else(|| spec.known_agent().filter(|it| Agent::is_known(*it)));
                if spec.kind == SourceRole::Stream {
                    streams.insert(record.source);
                }
            }
            // What no source has is the session's own: it is on neither side.
            match (record.source, streams.contains(&record.source)) {
                (0, _) => {}
                (_, true) => stream.push(record.record.clone()),
                (_, false) => transcript.push(record.record.clone()),
            }
        }
    }
    let Some(agent) = agent.filter(|_| !stream.is_empty() && !transcript.is_empty()) else {
        return Ok(None);
    };
    let (stream, transcript) = (ended(stream), ended(transcript));
    let streamed = SideState::fold_stream(agent, session, &stream, &transcript);
    let stored = SideState::fold(agent, session, &transcript);
    let comparison = compare_sides(agent, &streamed, &stored);
    Ok(Some(StoredComparison { verdict: comparison.verdict(), comparison }))
}

/// Appends an end record for every source that has none, because nothing more is compared.
pub fn ended(mut records: Vec<Record>) -> Vec<Record> {
    let has_ended =
        |source: u32| records.iter().any(|it| it.kind == RecordKind::End && it.source == source);
    let sources = records.iter().filter(|it| it.kind == RecordKind::Source).map(|it| it.source);
    let sources: Vec<u32> = sources.filter(|it| !has_ended(*it)).collect();
    records.extend(sources.into_iter().map(|it| Record::new(RecordKind::End, it, 0, "")));
    records
}

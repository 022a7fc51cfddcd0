//! Compares the stream of a session with its files.

use serde::Serialize;
use threadfold_core::SessionId;
use threadfold_fold::parity::{Comparison, SideState, Verdict, compare_sides};
use threadfold_fold::{file_records, stream_records};

use crate::engine::Engine;
use crate::folds::{find_agent, read_files};
use crate::input::Parts;

/// A comparison with its verdict.
#[derive(Serialize)]
struct JudgedComparison {
    verdict: Verdict,
    #[serde(flatten)]
    comparison: Comparison,
}

/// Compares the stream of a session with its files, and writes the verdict.
pub(crate) fn verify(engine: &mut Engine, input: &[u8], agent: usize) -> Result<i32, String> {
    let mut parts = Parts::new(input);
    let agent = find_agent(parts.text(agent)?)?;
    let session = parts.length();
    let session = SessionId::from(parts.text(session)?);
    let length = parts.length();
    let stream = stream_records(agent, 1, parts.bytes(length));
    let files = file_records(agent, 2, &read_files(&mut parts)?);
    let stream = SideState::fold_stream(agent, &session, &stream, &files);
    let files = SideState::fold(agent, &session, &files);
    let comparison = compare_sides(agent, &stream, &files);
    Ok(engine.write_json(&JudgedComparison { verdict: comparison.verdict(), comparison }))
}

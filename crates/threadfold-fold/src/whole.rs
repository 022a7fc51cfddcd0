//! Folds whole sessions in one call, from bytes in memory.

use threadfold_convert::{Agent, FeedKind, OrderedFile, SessionFile, Shape};
use threadfold_core::{ConversationState, SessionId};

use crate::cut::Cutter;
use crate::fold::{Fold, Step};
use crate::record::{Record, RecordKind};
use crate::slice::Slices;
use crate::source::{SourceRole, SourceSpec};

/// Returns the state of a session from its files.
///
/// The files may be in any order. See the crate's front page for an example.
pub fn parse_transcript(agent: Agent, files: &[SessionFile<'_>]) -> ConversationState {
    let mut fold = Fold::new(SessionId::from(""), Slices::default()).once();
    fold_files(&mut fold, agent, files, |_| {});
    fold.settled()
}

/// Pushes the files of one session into a fold, each to its end, and passes every step to `each`.
pub fn fold_files(
    fold: &mut Fold,
    agent: Agent,
    files: &[SessionFile<'_>],
    mut each: impl FnMut(Step),
) {
    let mut records = Vec::new();
    for OrderedFile { index, kind, name } in agent.reading_order(files) {
        let file = &files[index];
        let source = fold.next_source();
        let spec = spec_of(agent, &kind, name);
        records.push(Record::new(RecordKind::Source, source, 0, spec.to_json()));
        if matches!(kind, FeedKind::SubagentMeta(_)) || is_document(agent, file.bytes) {
            let bytes = file.bytes.to_vec();
            records.push(Record::new(RecordKind::Document, source, 0, bytes));
        } else {
            let mut cutter = Cutter::new(source);
            for chunk in file.bytes.chunks(CHUNK) {
                cutter.push(chunk, &mut records);
                push_all(fold, &mut records, &mut each);
            }
            records.extend(cutter.unfinished());
        }
        let end = file.bytes.len() as u64;
        records.push(Record::new(RecordKind::End, source, end, ""));
        push_all(fold, &mut records, &mut each);
    }
}

/// How many bytes are cut before their records are folded, so that few records are in memory.
const CHUNK: usize = 256 << 10;

fn push_all(fold: &mut Fold, records: &mut Vec<Record>, each: &mut impl FnMut(Step)) {
    for record in records.drain(..) {
        let seq = fold.seq() + 1;
        each(fold.push(&record.at(seq)));
    }
}

fn spec_of(agent: Agent, kind: &FeedKind, name: String) -> SourceSpec {
    let spec = |role| SourceSpec::new(agent, role, name);
    match kind {
        FeedKind::Stream => spec(SourceRole::Stream),
        FeedKind::Main => spec(SourceRole::Main),
        FeedKind::Subagent(id) => spec(SourceRole::Subagent).of_subagent(id.clone()),
        FeedKind::SubagentMeta(id) => spec(SourceRole::SubagentMeta).of_subagent(id.clone()),
    }
}

/// Returns whether a file is one document, on any number of lines.
fn is_document(agent: Agent, bytes: &[u8]) -> bool {
    let has_documents = agent.format(Shape::Export).is_some();
    agent.unpack(bytes).is_some()
        || has_documents && serde_json::from_slice::<&serde_json::value::RawValue>(bytes).is_ok()
}

//! Whole sessions in one call, from bytes in memory.

use threadfold_convert::{Agent, FeedKind, OrderedFile, SessionFile, Shape};
use threadfold_core::{ConversationState, SessionId};

use crate::cut::Cutter;
use crate::fold::{Fold, Step};
use crate::record::{Record, RecordKind};
use crate::slice::Slices;
use crate::source::{SourceRole, SourceSpec};

/// Returns the state of a session from its files.
///
/// The main file may stand anywhere among them. If they hold several sessions, this is the first
/// that they name. See the crate's front page for an example.
pub fn parse_transcript(agent: Agent, files: &[SessionFile<'_>]) -> ConversationState {
    let mut fold = Fold::new(SessionId::from(""), Slices::default()).conversation_only();
    fold_files(&mut fold, agent, files, |_| {});
    fold.settled()
}

/// Pushes the files of one session into a fold, each to its end, and hands on every step.
pub fn fold_files(
    fold: &mut Fold,
    agent: Agent,
    files: &[SessionFile<'_>],
    mut each: impl FnMut(Step),
) {
    each_batch(agent, fold.next_source(), files, |records| {
        for record in records.drain(..) {
            let seq = fold.seq() + 1;
            each(fold.push(&record.at(seq)));
        }
    });
}

/// Returns the records of a session's files: for each the declaration of its source, its content
/// and its end. Sources are numbered from `first_source` on.
pub fn file_records(agent: Agent, first_source: u32, files: &[SessionFile<'_>]) -> Vec<Record> {
    let mut all = Vec::new();
    each_batch(agent, first_source, files, |records| all.append(records));
    all
}

/// Returns the records of a stream that was recorded: the declaration of its source, its lines and
/// its end.
pub fn stream_records(agent: Agent, source: u32, bytes: &[u8]) -> Vec<Record> {
    let spec = SourceSpec::new(agent, SourceRole::Stream, "stream");
    let mut all = vec![Record::new(RecordKind::Source, source, 0, spec.to_json())];
    if agent.unpack(bytes).is_some() {
        all.push(Record::new(RecordKind::Document, source, 0, bytes.to_vec()));
    } else {
        let mut cutter = Cutter::new(source);
        cutter.push(bytes, &mut all);
        cutter.finish(&mut all);
    }
    all.push(Record::new(RecordKind::End, source, bytes.len() as u64, ""));
    all
}

/// Cuts files into records, and hands these on in batches, so that a large file is never held as
/// records as a whole.
fn each_batch(
    agent: Agent,
    first_source: u32,
    files: &[SessionFile<'_>],
    mut each: impl FnMut(&mut Vec<Record>),
) {
    let mut records = Vec::new();
    for (source, ordered) in (first_source..).zip(agent.reading_order(files)) {
        let OrderedFile { index, kind, name } = ordered;
        let file = &files[index];
        let spec = spec_of(agent, &kind, name);
        records.push(Record::new(RecordKind::Source, source, 0, spec.to_json()));
        if matches!(kind, FeedKind::SubagentMeta(_)) || is_document(agent, file.bytes) {
            let bytes = file.bytes.to_vec();
            records.push(Record::new(RecordKind::Document, source, 0, bytes));
        } else {
            let mut cutter = Cutter::new(source);
            for chunk in file.bytes.chunks(CHUNK) {
                cutter.push(chunk, &mut records);
                each(&mut records);
            }
            records.extend(cutter.unfinished());
        }
        let end = file.bytes.len() as u64;
        records.push(Record::new(RecordKind::End, source, end, ""));
        each(&mut records);
    }
}

/// How many bytes are cut before their records are folded: records are not kept.
const CHUNK: usize = 256 << 10;

fn spec_of(agent: Agent, kind: &FeedKind, name: String) -> SourceSpec {
    let spec = |role| SourceSpec::new(agent, role, name);
    match kind {
        FeedKind::Stream => spec(SourceRole::Stream),
        FeedKind::Main => spec(SourceRole::Main),
        FeedKind::Subagent(id) => spec(SourceRole::Subagent).of_subagent(id.clone()),
        FeedKind::SubagentMeta(id) => spec(SourceRole::SubagentMeta).of_subagent(id.clone()),
    }
}

/// Says whether a file is one record, however many lines it has.
fn is_document(agent: Agent, bytes: &[u8]) -> bool {
    let has_documents = agent.format(Shape::Export).is_some();
    agent.unpack(bytes).is_some()
        || has_documents && serde_json::from_slice::<&serde_json::value::RawValue>(bytes).is_ok()
}

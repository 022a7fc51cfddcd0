//! Whole sessions in one call, from bytes in memory.

use threadfold_convert::{Agent, FeedKind, OrderedFile, SessionFile, Shape};
use threadfold_core::{ConversationState, SessionId};

use crate::cutter::{Cutter, whole_lines};
use crate::fold::{Fold, Step};
use crate::record::{Record, RecordKind};
use crate::slice::Slices;
use crate::source::{SourceRole, SourceSpec};

/// Returns the state of a session from its transcript: its files, or one text.
///
/// The main file may stand anywhere among the files. If they hold several sessions, this is the
/// first that they name. A text is lines, an export, or all transcripts of a session in one JSON
/// object: `{"main", "subagents": [{"id", "transcript"}]}`. See the crate's front page for an
/// example.
pub fn parse_transcript<'a>(
    agent: Agent,
    transcript: impl Into<Transcript<'a>>,
) -> ConversationState {
    let mut fold = Fold::new(SessionId::from(""), Slices::default()).conversation_only();
    match transcript.into() {
        Transcript::Files(files) => fold_in_batches(&mut fold, agent, files, BATCH, |_| {}),
        Transcript::Text(text) => {
            let file = SessionFile { path: "transcript.jsonl", bytes: text.as_bytes() };
            fold_in_batches(&mut fold, agent, &[file], BATCH, |_| {});
        }
    }
    fold.into_settled()
}

/// The transcript of a session.
#[derive(Clone, Copy, Debug)]
pub enum Transcript<'a> {
    /// Its files.
    Files(&'a [SessionFile<'a>]),
    /// One text that holds all of it.
    Text(&'a str),
}

impl<'a> From<&'a [SessionFile<'a>]> for Transcript<'a> {
    fn from(files: &'a [SessionFile<'a>]) -> Self {
        Self::Files(files)
    }
}

impl<'a, const N: usize> From<&'a [SessionFile<'a>; N]> for Transcript<'a> {
    fn from(files: &'a [SessionFile<'a>; N]) -> Self {
        Self::Files(files)
    }
}

impl<'a> From<&'a Vec<SessionFile<'a>>> for Transcript<'a> {
    fn from(files: &'a Vec<SessionFile<'a>>) -> Self {
        Self::Files(files)
    }
}

impl<'a> From<&'a str> for Transcript<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Transcript<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

/// Pushes the files of one session into a fold, each to its end, and hands on every step.
pub fn fold_files(
    fold: &mut Fold,
    agent: Agent,
    files: &[SessionFile<'_>],
    each: impl FnMut(&Step),
) {
    fold_in_batches(fold, agent, files, 1, each);
}

/// How many lines are converted before their events are applied, where nobody looks at each step.
/// Their events fit into the processor's first cache.
const BATCH: usize = 16;

fn fold_in_batches(
    fold: &mut Fold,
    agent: Agent,
    files: &[SessionFile<'_>],
    batch: usize,
    mut each: impl FnMut(&Step),
) {
    let mut step = Step::default();
    let mut push = |fold: &mut Fold, part: FilePart<'_>| {
        match part {
            FilePart::Record(record) => {
                let seq = fold.seq() + 1;
                fold.push_to(&record.at(seq), &mut step);
            }
            FilePart::Lines(source, lines) => fold.push_lines_to(source, lines, &mut step),
        }
        each(&step);
    };
    for (source, ordered) in (fold.next_source()..).zip(agent.reading_order(files)) {
        let file = OpenedFile::new(agent, source, ordered, files);
        push(fold, FilePart::Record(file.declaration()));
        match file.document() {
            Some(document) => push(fold, FilePart::Record(document)),
            None => {
                let mut lines = Vec::with_capacity(batch);
                let rest = whole_lines(file.bytes, |line| {
                    lines.push(line);
                    if lines.len() == batch {
                        push(fold, FilePart::Lines(source, &lines));
                        lines.clear();
                    }
                });
                if !lines.is_empty() {
                    push(fold, FilePart::Lines(source, &lines));
                }
                let position = (file.bytes.len() - rest.len()) as u64;
                let mut cutter = Cutter::resume(source, position, false);
                let mut records = Vec::new();
                for chunk in rest.chunks(CHUNK) {
                    cutter.push(chunk, &mut records);
                    records.drain(..).for_each(|it| push(fold, FilePart::Record(it)));
                }
                let partial = cutter.unfinished();
                partial.into_iter().for_each(|it| push(fold, FilePart::Record(it)));
            }
        }
        push(fold, FilePart::Record(file.end()));
    }
}

/// Returns the records of a session's files: for each the declaration of its source, its content
/// and its end. Sources are numbered from `first_source` on.
pub fn file_records(agent: Agent, first_source: u32, files: &[SessionFile<'_>]) -> Vec<Record> {
    let mut all = Vec::new();
    for (source, ordered) in (first_source..).zip(agent.reading_order(files)) {
        let file = OpenedFile::new(agent, source, ordered, files);
        all.push(file.declaration());
        match file.document() {
            Some(document) => all.push(document),
            None => {
                let mut cutter = Cutter::new(source);
                cutter.push(file.bytes, &mut all);
                all.extend(cutter.unfinished());
            }
        }
        all.push(file.end());
    }
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

/// A part of a file, as a fold receives it.
enum FilePart<'a> {
    /// A record.
    Record(Record),
    /// Lines of a source, which are not copied.
    Lines(u32, &'a [&'a [u8]]),
}

/// A file of a session that is about to be read.
struct OpenedFile<'a> {
    agent: Agent,
    source: u32,
    kind: FeedKind,
    name: String,
    bytes: &'a [u8],
}

impl<'a> OpenedFile<'a> {
    fn new(agent: Agent, source: u32, ordered: OrderedFile, files: &[SessionFile<'a>]) -> Self {
        let OrderedFile { index, kind, name } = ordered;
        Self { agent, source, kind, name, bytes: files[index].bytes }
    }

    /// Returns the record that declares the source.
    fn declaration(&self) -> Record {
        let spec = spec_of(self.agent, &self.kind, self.name.clone());
        Record::new(RecordKind::Source, self.source, 0, spec.to_json())
    }

    /// Returns the file as one record, if it is one.
    fn document(&self) -> Option<Record> {
        let is_one =
            matches!(self.kind, FeedKind::SubagentMeta(_)) || is_document(self.agent, self.bytes);
        is_one.then(|| Record::new(RecordKind::Document, self.source, 0, self.bytes.to_vec()))
    }

    /// Returns the record of the file's end.
    fn end(&self) -> Record {
        Record::new(RecordKind::End, self.source, self.bytes.len() as u64, "")
    }
}

/// How many bytes are cut before their records are folded: records are not kept.
const CHUNK: usize = 64 << 10;

fn spec_of(agent: Agent, kind: &FeedKind, name: String) -> SourceSpec {
    let spec = |role| SourceSpec::new(agent, role, name);
    match kind {
        FeedKind::Stream => spec(SourceRole::Stream),
        FeedKind::Main => spec(SourceRole::Main),
        FeedKind::Subagent(id) => spec(SourceRole::Subagent).of_subagent(id.clone()),
        FeedKind::SubagentMeta(id) => spec(SourceRole::SubagentMeta).of_subagent(id.clone()),
    }
}

/// Returns whether a file is one record, however many lines it has.
fn is_document(agent: Agent, bytes: &[u8]) -> bool {
    let has_documents = agent.format(Shape::Export).is_some();
    agent.unpack(bytes).is_some()
        || has_documents && serde_json::from_slice::<&serde_json::value::RawValue>(bytes).is_ok()
}

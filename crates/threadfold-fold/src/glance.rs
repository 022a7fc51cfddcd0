//! What the first and the last bytes of a session's files show of it.
//!
//! The same converters read them as read the whole session. What only the rest could tell is
//! unknown: a title that stands in neither part is not replaced by an older one.

use threadfold_convert::Agent;
use threadfold_core::SessionId;

use crate::cutter::Cutter;
use crate::fold::Fold;
use crate::record::{Record, RecordKind};
use crate::slice::Slices;
use crate::source::{SourceRole, SourceSpec};
use crate::summary::SessionSummary;

/// How many of the last bytes are converted, at first and if more are needed.
const LAST_BYTES: [usize; 3] = [4 << 10, 16 << 10, usize::MAX];

/// The summary of a session of which only parts were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Glance {
    /// What is known.
    pub summary: SessionSummary,
    /// What is not; the summary has nothing there.
    pub unknown: Vec<UnknownField>,
}

/// A field of a summary that the parts that were read do not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnknownField {
    /// The title.
    Title,
    /// The first prompt, or the first command.
    FirstPrompt,
    /// The model.
    Model,
    /// The time of the main file's first event.
    StartedAt,
    /// The time of the last event.
    EndedAt,
    /// The cost.
    Cost,
    /// The numbers of blocks, subagents and tokens.
    Counts,
}

/// The parts of a file that were read.
#[derive(Clone, Debug)]
pub struct FileParts {
    /// The file.
    pub spec: SourceSpec,
    /// Its last bytes, from the beginning of a line on; nothing if they were not read.
    pub tail: Option<Vec<u8>>,
    /// The last bytes are all that it has.
    pub is_whole: bool,
}

impl From<SessionSummary> for Glance {
    fn from(summary: SessionSummary) -> Self {
        Self { summary, unknown: Vec::new() }
    }
}

impl Glance {
    /// Returns what one record of a session shows, of an agent that keeps a record for the session
    /// as a whole: its title, and what else is in it.
    pub fn of_header(session: &SessionId, agent: Agent, spec: &SourceSpec, record: Record) -> Self {
        let mut fold = Fold::new(session.clone(), Slices::default()).once();
        declare(&mut fold, record.source, spec);
        push(&mut fold, record);
        let known = summary_of(fold);
        let fields = [
            (known.first_prompt.is_some(), UnknownField::FirstPrompt),
            (known.model.is_some(), UnknownField::Model),
            (known.started_at.is_some(), UnknownField::StartedAt),
            (false, UnknownField::EndedAt),
            (known.cost_usd.is_some(), UnknownField::Cost),
            (false, UnknownField::Counts),
        ];
        let unknown = fields.into_iter().filter(|(is_known, _)| !is_known).map(|(_, it)| it);
        let summary = SessionSummary {
            agent: Some(agent.name().to_owned()),
            title: known.title,
            first_prompt: known.first_prompt,
            model: known.model,
            cwd: known.cwd,
            version: known.version,
            started_at: known.started_at,
            cost_usd: known.cost_usd,
            ..SessionSummary::default()
        };
        Self { summary, unknown: unknown.collect() }
    }
}

/// Reads the beginning of a session, until that is no longer needed.
pub struct HeadReader {
    fold: Fold,
    cutter: Cutter,
}

impl HeadReader {
    /// Returns a reader of a session's main file.
    pub fn new(session: &SessionId, spec: &SourceSpec) -> Self {
        let mut fold = Fold::new(session.clone(), Slices::default()).once();
        declare(&mut fold, 1, spec);
        Self { fold, cutter: Cutter::new(1) }
    }

    /// Reads the next bytes. Returns whether more are needed.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let mut records = Vec::new();
        self.cutter.push(bytes, &mut records);
        for record in records {
            push(&mut self.fold, record);
            if self.is_enough() {
                return false;
            }
        }
        true
    }

    fn is_enough(&self) -> bool {
        let has_prompt = self.fold.conversation().blocks().of_kind("user_message").next().is_some();
        has_prompt && self.fold.metadata().started_at().is_some()
    }

    /// Returns what the beginning shows, together with the last bytes of all files.
    pub fn finish(self, agent: Agent, files: &[FileParts]) -> Glance {
        let session = self.fold.session().clone();
        let head = summary_of(self.fold);
        let tail = read_tails(&session, agent, files);
        let mut unknown = vec![UnknownField::Cost, UnknownField::Counts];
        let mut note = |is_known: bool, field| {
            if !is_known {
                unknown.push(field);
            }
        };
        let is_main = |it: &&FileParts| it.spec.kind == SourceRole::Main;
        let is_whole = files.iter().filter(is_main).all(|it| it.is_whole);
        note(is_whole || tail.title.is_some(), UnknownField::Title);
        // Of several main files, another one may be the beginning.
        let is_only = files.iter().filter(is_main).count() == 1;
        note(is_only && (is_whole || head.first_prompt.is_some()), UnknownField::FirstPrompt);
        note(is_whole || tail.model.is_some(), UnknownField::Model);
        note(is_only && head.started_at.is_some(), UnknownField::StartedAt);
        // Nothing is read of a file whose last line is longer than the part that was read.
        let has_end =
            |it: &FileParts| it.is_whole || it.tail.as_ref().is_some_and(|it| !it.is_empty());
        let are_ends_known = files.iter().all(has_end);
        note(are_ends_known && tail.ended_at.is_some(), UnknownField::EndedAt);
        unknown.sort();
        let is_known = |field| !unknown.contains(&field);
        let summary = SessionSummary {
            agent: Some(agent.name().to_owned()),
            title: tail.title,
            first_prompt: head.first_prompt.filter(|_| is_known(UnknownField::FirstPrompt)),
            first_command: head.first_command.filter(|_| is_only),
            model: tail.model,
            // A session's project is where it began, if its end does not name another.
            cwd: tail.cwd.or(head.cwd),
            version: tail.version,
            started_at: head.started_at.filter(|_| is_known(UnknownField::StartedAt)),
            ended_at: tail.ended_at.filter(|_| is_known(UnknownField::EndedAt)),
            ..SessionSummary::default()
        };
        Glance { summary, unknown }
    }
}

/// Returns what the last bytes of files show.
fn read_tails(session: &SessionId, agent: Agent, files: &[FileParts]) -> SessionSummary {
    let mut last = SessionSummary::default();
    for bytes in LAST_BYTES {
        last = read_last(session, agent, files, bytes);
        if last.model.is_some() && last.ended_at.is_some() {
            break;
        }
    }
    last
}

/// Returns the summary of a fold, without a hash of its state.
fn summary_of(fold: Fold) -> SessionSummary {
    let metadata = fold.metadata().clone();
    SessionSummary::of(&fold.into_settled(), &metadata)
}

/// Converts the last lines of each file that are within so many bytes, and before them those that
/// may change the title.
fn read_last(
    session: &SessionId,
    agent: Agent,
    files: &[FileParts],
    bytes: usize,
) -> SessionSummary {
    let mut fold = Fold::new(session.clone(), Slices::default()).once();
    for (number, file) in (1..).zip(files) {
        let Some(tail) = &file.tail else { continue };
        declare(&mut fold, number, &file.spec);
        let mut cutter = Cutter::new(number);
        let mut records = Vec::new();
        let start = line_after(tail, tail.len().saturating_sub(bytes));
        if file.spec.kind == SourceRole::Main {
            for line in marked_lines(&tail[..start], agent.title_marks()) {
                cutter.push(line, &mut records);
            }
        }
        cutter.push(&tail[start..], &mut records);
        records.extend(cutter.unfinished());
        records.into_iter().for_each(|record| push(&mut fold, record));
    }
    summary_of(fold)
}

/// Returns where the first line after a place begins; the place itself if that is the beginning.
fn line_after(bytes: &[u8], place: usize) -> usize {
    match place {
        0 => 0,
        place => memchr::memchr(b'\n', &bytes[place - 1..]).map_or(bytes.len(), |end| place + end),
    }
}

/// Returns the lines that contain one of these texts, in order.
fn marked_lines<'a>(bytes: &'a [u8], marks: &[&str]) -> Vec<&'a [u8]> {
    let mut lines = std::collections::BTreeMap::new();
    for mark in marks {
        let mut from = 0;
        while let Some(place) = memchr::memmem::find(&bytes[from..], mark.as_bytes()) {
            let place = from + place;
            let start = memchr::memrchr(b'\n', &bytes[..place]).map_or(0, |it| it + 1);
            let end = memchr::memchr(b'\n', &bytes[place..]);
            let end = end.map_or(bytes.len(), |it| place + it + 1);
            lines.insert(start, &bytes[start..end]);
            from = end;
        }
    }
    lines.into_values().collect()
}

fn declare(fold: &mut Fold, number: u32, spec: &SourceSpec) {
    push(fold, Record::new(RecordKind::Source, number, 0, spec.to_json()));
}

fn push(fold: &mut Fold, record: Record) {
    let seq = fold.seq() + 1;
    fold.push(&record.at(seq));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_by_their_text_and_by_their_place() {
        let text = b"a-title\"\nb\nc-title\" -title\"\nd";
        let marks = &["-title\""];
        assert_eq!(marked_lines(text, marks), [&b"a-title\"\n"[..], b"c-title\" -title\"\n"]);
        assert_eq!(marked_lines(text, &[]), [&b""[..]; 0]);
        let starts: Vec<usize> = [0, 1, 9, 10, 11, 12].map(|it| line_after(text, it)).to_vec();
        assert_eq!(starts, [0, 9, 9, 11, 11, 28]);
        assert_eq!(line_after(text, 29), 29);
    }
}

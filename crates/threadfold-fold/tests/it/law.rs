//! Invariants that hold for any bytes; the fuzz targets check the same functions.

use std::collections::BTreeMap;

use threadfold_convert::lines::{Line, Position, line, lines};
use threadfold_convert::{Agent, claude, codex, opencode};
use threadfold_core::SessionId;
use threadfold_fold::{
    Cutter, Fold, LogId, Record, RecordKind, Slices, Snapshot, SnapshotHeader, SourceRole,
    SourceSpec,
};

/// How many bytes of a line that is over the limit a cutter holds.
const PIECE: usize = 1 << 20;

/// Returns the records of `bytes` cut into chunks of the lengths in `cuts`, in turn.
pub(crate) fn cut(mut cutter: Cutter, bytes: &[u8], cuts: &[u8], limit: usize) -> Vec<Record> {
    let mut records = Vec::new();
    let mut rest = bytes;
    for length in cuts.iter().cycle().take(bytes.len()) {
        let (chunk, after) = rest.split_at(rest.len().min(usize::from(*length)));
        cutter.push(chunk, &mut records);
        let held = cutter.end() - cutter.position();
        assert!(held <= limit.max(PIECE) as u64, "{held} bytes are held");
        rest = after;
    }
    cutter.push(rest, &mut records);
    cutter.finish(&mut records);
    assert_eq!(cutter.end(), bytes.len() as u64);
    assert_eq!(cutter.position(), bytes.len() as u64);
    records
}

/// A line cut from a stream of bytes.
#[derive(Debug, PartialEq)]
pub(crate) enum CutLine<'a> {
    Line(Line<'a>),
    /// Its number, and its bytes with its end.
    TooLong(u64, Vec<u8>),
}

/// Returns the lines of the records; blank lines are counted and not returned.
pub(crate) fn given(records: &[Record]) -> Vec<CutLine<'_>> {
    let mut position = Position::default();
    let mut long = Vec::new();
    let mut all = Vec::new();
    for record in records {
        assert_eq!(record.position, position.offset, "every record begins where the last ended");
        match record.kind {
            RecordKind::Line => all.extend(line(position, &record.bytes).map(CutLine::Line)),
            RecordKind::Piece => long.extend_from_slice(&record.bytes),
            RecordKind::LastPiece => {
                long.extend_from_slice(&record.bytes);
                all.push(CutLine::TooLong(position.number, std::mem::take(&mut long)));
            }
            other => panic!("a cutter gives no record of kind `{}`", other.name()),
        }
        position.offset += record.bytes.len() as u64;
        position.number += u64::from(record.kind != RecordKind::Piece);
    }
    all
}

/// Takes a limit, how many cuts, and the cuts from the beginning of `input`, and checks the
/// laws of lines on the rest.
pub(crate) fn lines_of_any_input(input: &[u8]) {
    let [limit, count, rest @ ..] = input else { return };
    let (cuts, bytes) = rest.split_at(rest.len().min(usize::from(*count) % 8));
    lines_are_the_same_however_cut(bytes, cuts, usize::from(*limit));
    lines_are_the_same_after_a_restart(bytes, usize::from(*limit).min(bytes.len()));
}

/// However bytes are cut, the same records come, and all of them together are the bytes; without
/// a limit, their lines are those of the slice.
pub(crate) fn lines_are_the_same_however_cut(bytes: &[u8], cuts: &[u8], limit: usize) {
    let whole: Vec<_> = lines(bytes).map(CutLine::Line).collect();
    let unlimited = cut(Cutter::new(1), bytes, cuts, usize::MAX);
    assert_eq!(given(&unlimited), whole);
    for line in lines(bytes) {
        let start = line.offset as usize;
        assert_eq!(&bytes[start..start + line.bytes.len()], line.bytes);
    }

    let limited = cut(Cutter::new(1).with_limit(limit), bytes, &[u8::MAX], limit);
    assert_eq!(cut(Cutter::new(1).with_limit(limit), bytes, cuts, limit), limited);
    for records in [&unlimited, &limited] {
        let all: Vec<u8> = records.iter().flat_map(|it| it.bytes.to_vec()).collect();
        assert_eq!(all, bytes);
    }
    for given in given(&limited) {
        match given {
            CutLine::Line(line) => {
                assert!(line.bytes.len() <= limit);
                assert!(whole.contains(&given));
            }
            CutLine::TooLong(number, raw) => {
                assert!(raw.strip_suffix(b"\n").unwrap_or(&raw).len() > limit);
                let mut all = bytes.split_inclusive(|byte| *byte == b'\n');
                assert_eq!(all.nth(number as usize - 1), Some(&raw[..]));
            }
        }
    }
}

/// Reading that stops after `stop` bytes and goes on from the position is reading on.
pub(crate) fn lines_are_the_same_after_a_restart(bytes: &[u8], stop: usize) {
    let mut records = Vec::new();
    let mut first = Cutter::new(1);
    first.push(&bytes[..stop], &mut records);
    let position = first.position();
    let unfinished = first.unfinished().map(|it| it.bytes.to_vec()).unwrap_or_default();
    assert_eq!(unfinished, bytes[position as usize..stop]);

    let mut again = Cutter::resume(1, position, false);
    again.push(&bytes[position as usize..], &mut records);
    again.finish(&mut records);
    assert_eq!(given(&records), lines(bytes).map(CutLine::Line).collect::<Vec<_>>());
}

/// Any Claude Code stream folds deterministically.
pub(crate) fn a_claude_stream_folds(input: &[u8]) {
    folds_alike(claude::AGENT, &[(SourceRole::Stream, None)], input);
}

/// Any Claude Code files fold deterministically.
pub(crate) fn a_claude_transcript_folds(input: &[u8]) {
    let sources = [
        (SourceRole::SubagentMeta, Some("a1")),
        (SourceRole::Main, None),
        (SourceRole::Subagent, Some("a1")),
        (SourceRole::Subagent, Some("a2")),
    ];
    folds_alike(claude::AGENT, &sources, input);
}

/// Any OpenCode input folds deterministically.
pub(crate) fn opencode_folds(input: &[u8]) {
    let sources = [(SourceRole::Stream, None), (SourceRole::Main, None)];
    folds_alike(opencode::AGENT, &sources, input);
}

/// Any input of Codex folds deterministically: a stream, a rollout, and that of a subagent.
pub(crate) fn codex_folds(input: &[u8]) {
    let sources = [
        (SourceRole::Stream, None),
        (SourceRole::Main, None),
        (SourceRole::Subagent, Some("01a1e44f-223b-72a0-a1af-bea2d0d697d9")),
    ];
    folds_alike(codex::AGENT, &sources, input);
}

/// Takes a limit, how many cuts, and the cuts from the beginning of `input`, and folds the rest
/// in two ways; form feeds stand between the sources.
///
/// Once in one go; once the bytes come in pieces, and the fold is replaced before each record by
/// one that goes on from its snapshot.
fn folds_alike(agent: Agent, sources: &[(SourceRole, Option<&str>)], input: &[u8]) {
    let [limit, count, rest @ ..] = input else { return };
    let (cuts, bytes) = rest.split_at(rest.len().min(usize::from(*count) % 8));
    let limit = usize::from(*limit) * 64;
    let parts: Vec<_> = bytes.splitn(sources.len(), |byte| *byte == b'\x0c').collect();
    let records = |cuts: &[u8]| -> Vec<Record> {
        let mut all = Vec::new();
        for (number, ((role, subagent), bytes)) in (1..).zip(sources.iter().zip(&parts)) {
            let spec = SourceSpec::new(agent, *role, format!("source {number}"));
            let spec = match subagent {
                Some(subagent) => spec.of_subagent((*subagent).into()),
                None => spec,
            };
            all.push(Record::new(RecordKind::Source, number, 0, spec.to_json()));
            all.extend(cut(Cutter::new(number).with_limit(limit), bytes, cuts, limit));
            all.push(Record::new(RecordKind::End, number, bytes.len() as u64, ""));
        }
        all
    };

    let mut whole = empty_fold();
    for (seq, record) in (1..).zip(records(&[u8::MAX])) {
        whole.push(&record.at(seq));
    }

    let mut piecewise = empty_fold();
    for (seq, record) in (1..).zip(records(cuts)) {
        let json = snapshot_of(&piecewise).to_json();
        let restored = empty_fold().from_snapshot(&json, &log());
        piecewise = restored.expect("what was written can be read");
        assert_eq!(snapshot_of(&piecewise).to_json(), json);
        piecewise.push(&record.at(seq));
    }
    let hash = whole.conversation().hash();
    assert_eq!(piecewise.conversation().hash(), hash, "the state depends on where it was resumed");
    assert_eq!(whole.settled().hash(), hash, "every source is at its end");
}

fn empty_fold() -> Fold {
    Fold::new(SessionId::from(""), Slices::default())
}

fn log() -> LogId {
    LogId::from("log")
}

fn snapshot_of(fold: &Fold) -> Snapshot {
    let (created_at, tags) = ("2026-01-01T00:00:00Z".to_owned(), BTreeMap::new());
    fold.snapshot(SnapshotHeader { created_at, log_id: log(), tags })
}

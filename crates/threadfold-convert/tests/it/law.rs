//! What holds for any bytes at all; the fuzz targets check the same functions.

use std::str;

use threadfold_convert::lines::{LineBuffer, LineOrLoss, Position, lines};
use threadfold_convert::recover::{Damage, Piece, records};
use threadfold_convert::{Agent, Feed, FeedKind, Record, TooLong, converter, converter_from};
use threadfold_convert::{claude, opencode};
use threadfold_core::{ConversationState, SessionEvent, fold};

/// A line or a loss that outlives its buffer.
#[derive(Debug, PartialEq)]
pub(crate) enum Given {
    /// Number, offset and bytes.
    Line(u64, u64, Vec<u8>),
    /// Number, offset, length and head.
    TooLong(u64, u64, u64, Vec<u8>),
}

impl From<LineOrLoss<'_>> for Given {
    fn from(given: LineOrLoss<'_>) -> Self {
        match given {
            LineOrLoss::Line(line) => Self::Line(line.number, line.offset, line.bytes.to_vec()),
            LineOrLoss::TooLong { number, offset, length, head } => {
                Self::TooLong(number, offset, length, head.to_vec())
            }
        }
    }
}

/// Returns what `buffer` gives for `bytes` cut into pieces of the lengths in `cuts`, in turn.
pub(crate) fn cut(mut buffer: LineBuffer, bytes: &[u8], cuts: &[u8], limit: usize) -> Vec<Given> {
    let mut given = Vec::new();
    let mut rest = bytes;
    for length in cuts.iter().cycle().take(bytes.len()) {
        let (chunk, after) = rest.split_at(rest.len().min(usize::from(*length)));
        buffer.push(chunk, |it| given.push(it.into()));
        assert!(buffer.capacity() <= limit, "{} bytes are held", buffer.capacity());
        rest = after;
    }
    buffer.push(rest, |it| given.push(it.into()));
    buffer.finish(|it| given.push(it.into()));
    let last = buffer.position();
    assert_eq!(last.offset, bytes.len() as u64);
    given
}

/// Takes a limit, how many cuts, and the cuts from the beginning of `input`, and checks the
/// laws of lines on the rest.
pub(crate) fn lines_of_any_input(input: &[u8]) {
    let [limit, count, rest @ ..] = input else { return };
    let (cuts, bytes) = rest.split_at(rest.len().min(usize::from(*count) % 8));
    lines_are_the_same_however_cut(bytes, cuts, usize::from(*limit));
    lines_are_the_same_after_a_restart(bytes, usize::from(*limit).min(bytes.len()));
}

/// However bytes are cut, the same lines come; and without a limit, the lines of the slice.
pub(crate) fn lines_are_the_same_however_cut(bytes: &[u8], cuts: &[u8], limit: usize) {
    let whole: Vec<_> = lines(bytes).map(|it| Given::from(LineOrLoss::Line(it))).collect();
    assert_eq!(cut(LineBuffer::default(), bytes, cuts, usize::MAX), whole);
    for line in lines(bytes) {
        let start = line.offset as usize;
        assert_eq!(&bytes[start..start + line.bytes.len()], line.bytes);
    }

    let limited = cut(LineBuffer::with_limit(limit), bytes, &[u8::MAX], limit);
    assert_eq!(cut(LineBuffer::with_limit(limit), bytes, cuts, limit), limited);
    for given in limited {
        match given {
            Given::Line(_, _, ref bytes) => {
                assert!(bytes.len() <= limit);
                assert!(whole.contains(&given));
            }
            Given::TooLong(_, offset, length, head) => {
                let start = offset as usize;
                let line = &bytes[start..start + length as usize];
                assert!(line.starts_with(&head));
            }
        }
    }
}

/// Reading that stops after `stop` bytes and goes on from the position is reading on.
pub(crate) fn lines_are_the_same_after_a_restart(bytes: &[u8], stop: usize) {
    let mut given = Vec::new();
    let mut buffer = LineBuffer::default();
    buffer.push(&bytes[..stop], |it| given.push(Given::from(it)));
    let json = serde_json::to_string(&buffer.position()).expect("plain data");
    let position: Position = serde_json::from_str(&json).expect("it was just written");

    let mut buffer = LineBuffer::resume(position);
    buffer.push(&bytes[position.offset as usize..], |it| given.push(Given::from(it)));
    buffer.finish(|it| given.push(Given::from(it)));
    let whole: Vec<_> = lines(bytes).map(|it| Given::from(LineOrLoss::Line(it))).collect();
    assert_eq!(given, whole);
}

/// Every byte is in a piece, or separates two; and each piece is what it says.
pub(crate) fn pieces_cover_the_line(line: &[u8]) {
    let mut covered = 0;
    for piece in records(line) {
        let (start, bytes) = match piece {
            Piece::Record(text) => {
                let raw: &serde_json::value::RawValue =
                    serde_json::from_str(text).expect("a record is JSON");
                assert_eq!(raw.get(), text);
                assert!(text.starts_with('{'));
                // The only place where it can be: after separators.
                (covered + separators(&line[covered..]), text.as_bytes())
            }
            Piece::Lost { bytes, why, offset } => {
                assert_eq!(why == Damage::NotUtf8, str::from_utf8(bytes).is_err());
                assert_eq!(why == Damage::NulRun, bytes.contains(&0));
                (offset, bytes)
            }
        };
        assert!(!bytes.is_empty());
        assert_eq!(separators(&line[covered..start]), start - covered);
        assert_eq!(&line[start..start + bytes.len()], bytes);
        covered = start + bytes.len();
    }
    assert_eq!(separators(&line[covered..]), line.len() - covered);
}

fn separators(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|it| b" \t\r\n,".contains(it)).count()
}

/// What is read as an event is written, and read again, as the same.
pub(crate) fn an_event_survives_a_round_trip(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(event) = SessionEvent::from_json(text) else { return };
    let json = serde_json::to_string(&event).expect("an event has a form in JSON");
    let again = SessionEvent::from_json(&json).expect("it was just written");
    assert_eq!(again, event);
    assert_eq!(serde_json::to_string(&again).expect("plain data"), json);
}

/// Whatever a stream of Claude Code says is folded, and always into the same state.
pub(crate) fn a_claude_stream_folds(input: &[u8]) {
    folds_alike(claude::AGENT, &[FeedKind::Stream], input);
}

/// Whatever the files of Claude Code hold is folded, and always into the same state.
pub(crate) fn a_claude_transcript_folds(input: &[u8]) {
    let kinds = [
        FeedKind::SubagentMeta("a1".into()),
        FeedKind::Main,
        FeedKind::Subagent("a1".into()),
        FeedKind::Subagent("a2".into()),
    ];
    folds_alike(claude::AGENT, &kinds, input);
}

/// Whatever OpenCode says and keeps is folded, and always into the same state.
pub(crate) fn opencode_folds(input: &[u8]) {
    folds_alike(opencode::AGENT, &[FeedKind::Stream, FeedKind::Main], input);
}

/// Takes a limit, how many cuts, and the cuts from the beginning of `input`, and folds the rest
/// in two ways; form feeds stand between the feeds.
///
/// Once all events are taken at the end; once the bytes come in pieces, and events are taken and
/// the converter is replaced after each line by one that goes on from its memory.
fn folds_alike(agent: Agent, kinds: &[FeedKind], input: &[u8]) {
    let [limit, count, rest @ ..] = input else { return };
    let (cuts, bytes) = rest.split_at(rest.len().min(usize::from(*count) % 8));
    let limit = usize::from(*limit) * 64;
    let name = |index: usize| format!("feed {index}");
    let feeds: Vec<_> = kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| Feed::new(agent, kind.clone(), &name(index)))
        .collect();
    let parts: Vec<_> = bytes.splitn(feeds.len(), |byte| *byte == b'\x0c').collect();

    let mut whole = agent.converter();
    let mut events = Vec::new();
    for (feed, bytes) in feeds.iter().zip(&parts) {
        for given in cut(LineBuffer::with_limit(limit), bytes, &[u8::MAX], limit) {
            given.say(feed, |record| match record {
                Ok(record) => whole.push(&record, &mut events),
                Err(lost) => whole.too_long(&lost, &mut events),
            });
        }
        whole.finish(feed, &mut events);
    }
    let hash = fold(&events).hash();

    let mut piecewise = agent.converter();
    let mut state = ConversationState::default();
    for (feed, bytes) in feeds.iter().zip(&parts) {
        for given in cut(LineBuffer::with_limit(limit), bytes, cuts, limit) {
            let mut events = Vec::new();
            let remembered = piecewise.memory();
            piecewise = agent.resume_converter(&remembered).expect("what was written can be read");
            assert_eq!(piecewise.memory(), remembered);
            given.say(feed, |record| match record {
                Ok(record) => piecewise.push(&record, &mut events),
                Err(lost) => piecewise.too_long(&lost, &mut events),
            });
            events.iter().for_each(|event| drop(state.apply(event)));
        }
        let mut events = Vec::new();
        piecewise.finish(feed, &mut events);
        events.iter().for_each(|event| drop(state.apply(event)));
    }
    assert_eq!(state.hash(), hash, "the state depends on when events are taken");
}

impl Given {
    /// Hands this on as what a converter takes.
    fn say<'a>(&'a self, feed: &'a Feed, say: impl FnOnce(Result<Record<'a>, TooLong<'a>>)) {
        match self {
            Self::Line(line, _, bytes) => say(Ok(FeedLine { feed, number: *line, bytes })),
            Self::TooLong(line, _, length, head) => {
                say(Err(TooLong { feed, line: *line, length: *length, head }))
            }
        }
    }
}

//! Takes the records of an agent that runs elsewhere: raw bytes of a stream, with their position.
//!
//! The sender names its stream and says where the bytes stand in it, so that bytes that are sent
//! again are stored once, and a gap is refused.

use bytes::Bytes;
use threadfold_fold::{Cutter, Detection, InputHead, Record, RecordKind, Shape, detect, is_enough};

use crate::error::EngineError;
use crate::open_path::source_spec;
use crate::session::Session;

/// Bytes of a stream.
#[derive(Clone, Debug)]
pub struct PushedBytes {
    /// The name of the stream, chosen by the sender and never reused for another one.
    pub stream: String,
    /// Where the bytes begin in the stream.
    pub position: u64,
    /// The bytes.
    pub bytes: Bytes,
    /// Nothing follows them: an incomplete last line is stored as well.
    pub is_end: bool,
    /// The format; detected from the first bytes if it is not given.
    pub format: Option<Detection>,
}

/// What a session has of a pushed stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushReceipt {
    /// How many bytes of the stream are durable. Whatever follows is to be sent again.
    pub position: u64,
    /// How many records were added.
    pub records: u64,
    /// The stream has ended.
    pub is_ended: bool,
}

/// Why pushed bytes were refused. Nothing of them is stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// Send the stream again from `expected`.
    #[error("the stream has {expected} bytes here, and these begin at {found}")]
    Gap {
        /// The position after the bytes that are stored.
        expected: u64,
        /// The position of the bytes.
        found: u64,
    },
    /// Begin another stream.
    #[error("the stream ended at byte {end}")]
    Ended {
        /// The length of the stream.
        end: u64,
    },
    /// Send more of the stream, or name its format.
    #[error("the format of the stream cannot be detected from its first {length} bytes")]
    Unrecognized {
        /// How many bytes there were.
        length: usize,
    },
    /// Push it to a session of its own.
    #[error("the stream is of agent `{found}`, and the session is of `{expected}`")]
    OtherAgent {
        /// The agent of the session.
        expected: String,
        /// The agent of the stream.
        found: String,
    },
    /// See [`EngineError`].
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Stores pushed bytes in a session: complete lines, and at the end of a stream the rest.
///
/// It is idempotent by stream and position: bytes that the session has already are skipped.
pub async fn accept_pushed(
    session: &mut Session,
    pushed: &PushedBytes,
) -> Result<PushReceipt, PushError> {
    // What an earlier write left in the log is folded first, or the position would be too low.
    session.settle().await?;
    let name = format!("push-{}.jsonl", pushed.stream);
    let known = session.fold().sources().find(|it| it.spec.name == name).cloned();
    let before = session.cursor().seq;
    let end = known.as_ref().map_or(0, |it| it.position.offset);
    if pushed.position > end {
        return Err(PushError::Gap { expected: end, found: pushed.position });
    }
    let skipped = usize::try_from(end - pushed.position).unwrap_or(usize::MAX);
    let bytes = pushed.bytes.slice(skipped.min(pushed.bytes.len())..);
    if known.as_ref().is_some_and(|it| it.ended) {
        return match bytes.is_empty() {
            true => Ok(PushReceipt { position: end, records: 0, is_ended: true }),
            false => Err(PushError::Ended { end }),
        };
    }
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
    let taken = if pushed.is_end { bytes.len() } else { whole };
    let mut records = Vec::new();
    let source = match known {
        Some(known) => known.number,
        None if taken == 0 => return Ok(PushReceipt { position: 0, records: 0, is_ended: false }),
        None => {
            let declaration = declaration(session, &name, pushed, &bytes)?;
            let source = declaration.source;
            records.push(declaration);
            source
        }
    };
    let mut cutter = Cutter::resume(source, end, false);
    cutter.push(&bytes[..taken], &mut records);
    if pushed.is_end {
        cutter.finish(&mut records);
        records.push(Record::new(RecordKind::End, source, cutter.end(), ""));
    }
    let end = cutter.end();
    session.accept_in_batches(records).await?;
    let records = session.cursor().seq - before;
    Ok(PushReceipt { position: end, records, is_ended: pushed.is_end })
}

/// Returns the record that declares a stream.
fn declaration(
    session: &Session,
    name: &str,
    pushed: &PushedBytes,
    bytes: &Bytes,
) -> Result<Record, PushError> {
    let head = InputHead { bytes, is_complete: pushed.is_end };
    let detected = pushed.format.or_else(|| detect(bytes));
    let detected = match detected {
        Some(detected) if !matches!(detected.shape(), Shape::Database | Shape::Folder) => detected,
        // A later line may show the format.
        None if is_enough(bytes) || pushed.is_end => match head.is_text() {
            true => Detection::unknown(),
            false => return Err(PushError::Unrecognized { length: bytes.len() }),
        },
        _ => return Err(PushError::Unrecognized { length: bytes.len() }),
    };
    if let (Some(expected), Some(found)) = (session.fold().agent(), detected.agent)
        && expected != found
    {
        let [expected, found] = [expected, found].map(|it| it.name().to_owned());
        return Err(PushError::OtherAgent { expected, found });
    }
    Ok(session.declaration(source_spec(detected, name))?)
}

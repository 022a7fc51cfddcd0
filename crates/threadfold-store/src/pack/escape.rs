//! Replaces a record's session id and long texts by markers, and restores the exact bytes.
//!
//! | bytes | meaning |
//! |---|---|
//! | `FF 00` | the byte `FF` |
//! | `FF 01` | the session's own id |
//! | `FF 02` and 32 bytes | the content of the blob with that hash |
//!
//! Blob contents are escaped in the same way, but refer to no other blobs: that bounds recursion.

use std::ops::Range;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};

use super::PackError;
use crate::blob::BlobHash;

const ESCAPE: u8 = 0xff;
const LITERAL: u8 = 0;
const OWN_ID: u8 = 1;
const BLOB: u8 = 2;

/// A string of at least this length becomes a blob.
const LONG_TEXT: usize = 16 << 10;
/// A record of at least this length without such a string becomes a blob as a whole.
const LONG_RECORD: usize = 64 << 10;
/// An id must be longer than its marker.
const SHORTEST_ID: usize = 3;

/// Content that was extracted from a record, to be stored as a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extract {
    /// The blob's hash.
    pub hash: BlobHash,
    /// The blob's content, escaped.
    pub bytes: Vec<u8>,
}

/// Escapes the records of one session.
pub(super) struct Escaper<'a> {
    id: Option<Finder<'a>>,
}

impl<'a> Escaper<'a> {
    pub(super) fn new(session: &'a str) -> Self {
        let id = (session.len() >= SHORTEST_ID).then(|| Finder::new(session));
        Self { id }
    }

    /// Appends the escaped record to `out`, and the blobs that it refers to to `extracts`.
    pub(super) fn escape(&self, record: &[u8], out: &mut Vec<u8>, extracts: &mut Vec<Extract>) {
        let mut rest = 0;
        for text in long_texts(record) {
            self.escape_plain(&record[rest..text.start], out);
            rest = text.end;
            let mut bytes = Vec::with_capacity(text.len());
            self.escape_plain(&record[text], &mut bytes);
            let hash = BlobHash::of(&bytes);
            out.extend([ESCAPE, BLOB]);
            out.extend(hash.as_bytes());
            // An answer of a model has each text twice: as it was sent, and as a message.
            if !extracts.iter().any(|it| it.hash == hash) {
                extracts.push(Extract { hash, bytes });
            }
        }
        self.escape_plain(&record[rest..], out);
    }

    fn escape_plain(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        if let Some(id) = &self.id {
            while let Some(at) = id.find(rest) {
                escape_literals(&rest[..at], out);
                out.extend([ESCAPE, OWN_ID]);
                rest = &rest[at + id.needle().len()..];
            }
        }
        escape_literals(rest, out);
    }
}

fn escape_literals(mut rest: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr(ESCAPE, rest) {
        out.extend(&rest[..=at]);
        out.push(LITERAL);
        rest = &rest[at + 1..];
    }
    out.extend(rest);
}

/// Returns the JSON strings that become blobs, without their quotes.
///
/// Bytes that are not JSON may be cut at odd places; that costs deduplication, never correctness.
fn long_texts(record: &[u8]) -> Vec<Range<usize>> {
    if record.len() < LONG_TEXT {
        return Vec::new();
    }
    let mut texts = Vec::new();
    let mut open = None;
    let mut place = 0;
    while let Some(at) = record.get(place..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        let at = place + at;
        place = at + 1;
        match (record[at], open) {
            (b'\\', Some(_)) => place += 1,
            (b'"', None) => open = Some(place),
            (b'"', Some(start)) => {
                if at - start >= LONG_TEXT {
                    texts.push(start..at);
                }
                open = None;
            }
            _ => {}
        }
    }
    if texts.is_empty() && record.len() >= LONG_RECORD {
        texts.push(0..record.len());
    }
    texts
}

/// Restores the exact bytes of a record; `blob` looks up the blobs that it refers to.
pub(super) fn unescape<E: From<PackError>>(
    escaped: &[u8],
    session: &str,
    blob: &mut impl FnMut(&BlobHash) -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let mut out = Vec::with_capacity(escaped.len() + session.len());
    unescape_into(escaped, session, &mut out, &mut |hash, out| {
        let content = blob(hash)?;
        unescape_into(&content, session, out, &mut |_, _| {
            Err(E::from(PackError("a blob refers to another blob")))
        })
    })?;
    Ok(out)
}

fn unescape_into<E: From<PackError>>(
    mut rest: &[u8],
    session: &str,
    out: &mut Vec<u8>,
    blob: &mut impl FnMut(&BlobHash, &mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    while let Some(at) = memchr(ESCAPE, rest) {
        out.extend(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.split_first() {
            Some((&LITERAL, after)) => {
                out.push(ESCAPE);
                rest = after;
            }
            Some((&OWN_ID, after)) => {
                out.extend(session.as_bytes());
                rest = after;
            }
            Some((&BLOB, after)) => {
                let (hash, after) = after
                    .split_first_chunk::<32>()
                    .ok_or(PackError("a blob reference is truncated"))?;
                blob(&BlobHash::from(*hash), out)?;
                rest = after;
            }
            _ => return Err(PackError("an escape sequence is unknown").into()),
        }
    }
    out.extend(rest);
    Ok(())
}

/// Returns the hashes of all blobs that escaped bytes refer to.
pub(super) fn names(mut rest: &[u8]) -> Result<Vec<BlobHash>, PackError> {
    let mut names = Vec::new();
    while let Some(at) = memchr(ESCAPE, rest) {
        rest = &rest[at + 1..];
        let (&what, after) =
            rest.split_first().ok_or(PackError("an escape sequence is truncated"))?;
        rest = after;
        if what == BLOB {
            let (hash, after) =
                rest.split_first_chunk::<32>().ok_or(PackError("a blob reference is truncated"))?;
            names.push(BlobHash::from(*hash));
            rest = after;
        }
    }
    Ok(names)
}

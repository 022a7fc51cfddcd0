//! A record without its session's id and without its long texts, and the exact bytes again.
//!
//! | bytes | stand for |
//! |---|---|
//! | `FF 00` | the byte `FF` |
//! | `FF 01` | the session's own id |
//! | `FF 02` and 32 bytes | the blob of that name |
//!
//! What a blob holds is escaped in the same way, but names no blobs.

use std::ops::Range;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};

use super::Malformed;
use crate::blob::BlobHash;

const ESCAPE: u8 = 0xff;
const LITERAL: u8 = 0;
const OWN_ID: u8 = 1;
const BLOB: u8 = 2;

/// A text of at least this length is a blob of its own.
const LONG_TEXT: usize = 16 << 10;
/// A record of at least this length without such a text is one as a whole.
const LONG_RECORD: usize = 64 << 10;
/// An id must be longer than what stands for it.
const SHORTEST_ID: usize = 3;

/// What was taken out of a record, and is kept by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CutOut {
    pub(crate) hash: BlobHash,
    pub(crate) bytes: Vec<u8>,
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

    /// Appends the record to `out`, and to `cut_out` what it names.
    pub(super) fn escape(&self, record: &[u8], out: &mut Vec<u8>, cut_out: &mut Vec<CutOut>) {
        let mut rest = 0;
        for text in long_texts(record) {
            self.escape_plain(&record[rest..text.start], out);
            rest = text.end;
            let mut bytes = Vec::with_capacity(text.len());
            self.escape_plain(&record[text], &mut bytes);
            let hash = BlobHash::of(&bytes);
            out.extend([ESCAPE, BLOB]);
            out.extend(hash.as_bytes());
            cut_out.push(CutOut { hash, bytes });
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

/// Finds the texts that are blobs of their own, as JSON has them between quotes.
///
/// What is no JSON has other texts than it seems; that costs nothing but sharing.
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

/// Returns the exact bytes of a record; `blob` looks up what it names.
pub(super) fn unescape<E: From<Malformed>>(
    escaped: &[u8],
    session: &str,
    blob: &mut impl FnMut(&BlobHash) -> Result<Vec<u8>, E>,
) -> Result<Vec<u8>, E> {
    let mut out = Vec::with_capacity(escaped.len() + session.len());
    unescape_into(escaped, session, &mut out, &mut |hash, out| {
        let content = blob(hash)?;
        unescape_into(&content, session, out, &mut |_, _| {
            Err(E::from(Malformed("a blob of a record names another")))
        })
    })?;
    Ok(out)
}

fn unescape_into<E: From<Malformed>>(
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
                let (hash, after) =
                    after.split_first_chunk::<32>().ok_or(Malformed("a blob's name is cut off"))?;
                blob(&BlobHash::from(*hash), out)?;
                rest = after;
            }
            _ => return Err(Malformed("an escape is not known").into()),
        }
    }
    out.extend(rest);
    Ok(())
}

/// Returns the names of all blobs in escaped bytes.
pub(super) fn names(mut rest: &[u8]) -> Result<Vec<BlobHash>, Malformed> {
    let mut names = Vec::new();
    while let Some(at) = memchr(ESCAPE, rest) {
        rest = &rest[at + 1..];
        let (&what, after) = rest.split_first().ok_or(Malformed("an escape is cut off"))?;
        rest = after;
        if what == BLOB {
            let (hash, after) =
                rest.split_first_chunk::<32>().ok_or(Malformed("a blob's name is cut off"))?;
            names.push(BlobHash::from(*hash));
            rest = after;
        }
    }
    Ok(names)
}

//! The sources of a session's records, and how far each was read.

mod spec;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use threadfold_convert::lines::Position;
use threadfold_convert::{Feed, TooLong};

use crate::hex;
use crate::short_lines::ShortLines;

pub(crate) use spec::SourceKey;
pub use spec::{SourceRole, SourceSpec};

/// A source, and how far it was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its number in the session.
    pub number: u32,
    /// Its declaration.
    pub spec: SourceSpec,
    /// The position after the last complete line.
    pub position: Position,
    /// The hash of all records before that position.
    pub chain: Chain,
    /// Nothing more will come from it.
    pub ended: bool,
    /// The beginning of an incomplete line.
    pub(crate) partial: Option<Bytes>,
    /// An oversized line, as far as it was read.
    pub(crate) long: Option<LongLine>,
    /// Its short lines that were not understood, once there was one.
    pub(crate) short: Option<Box<ShortLines>>,
    /// The hash of its last document.
    pub(crate) document: Option<Chain>,
    pub(crate) feed: Option<Feed>,
    /// Its feed's name, which ids of unknown blocks contain.
    pub(crate) feed_name: String,
}

/// An oversized line, which is stored in pieces.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LongLine {
    #[serde(with = "hex")]
    pub(crate) head: Vec<u8>,
    pub(crate) length: u64,
    pub(crate) ends_with_return: bool,
}

/// How many bytes of an oversized line are shown.
const HEAD: usize = 4 << 10;
/// May precede the first line of a source, and belongs to no line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl LongLine {
    /// Adds the next bytes of the line, without its end.
    pub(crate) fn extend(&mut self, content: &[u8]) {
        let room = HEAD.saturating_sub(self.head.len()).min(content.len());
        self.head.extend_from_slice(&content[..room]);
        self.length += content.len() as u64;
        if let Some(last) = content.last() {
            self.ends_with_return = *last == b'\r';
        }
    }

    fn is_all_in_head(&self) -> bool {
        self.head.len() as u64 == self.length
    }

    /// Returns the line as a converter receives it, once it is complete.
    pub(crate) fn at<'a>(&'a self, number: u64, feed: &'a Feed) -> TooLong<'a> {
        let is_marked = number == 1 && self.head.starts_with(BYTE_ORDER_MARK);
        let mark = if is_marked { BYTE_ORDER_MARK.len() } else { 0 };
        let length = self.length - mark as u64 - u64::from(self.ends_with_return);
        let end = self.head.len() - usize::from(self.ends_with_return && self.is_all_in_head());
        TooLong { feed, number, length, head: &self.head[mark..end] }
    }
}

/// The hash of a sequence of records, each chained to the hash before it.
///
/// It can be extended without reading earlier records again, to verify that a file still begins with
/// the bytes that were stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Chain(#[serde(with = "hex::array")] [u8; 32]);

impl Chain {
    pub(crate) fn of_document(bytes: &[u8]) -> Self {
        Self::default().after(bytes)
    }

    /// Returns the hash of the sequence with one more record.
    #[must_use]
    pub fn after(self, record: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        hasher.update(record);
        Self(*hasher.finalize().as_bytes())
    }
}

impl Source {
    pub(crate) fn new(number: u32, spec: SourceSpec, feed_name: String) -> Self {
        let feed = spec.feed(&feed_name);
        Self {
            number,
            spec,
            position: Position::default(),
            chain: Chain::default(),
            ended: false,
            partial: None,
            long: None,
            short: None,
            document: None,
            feed,
            feed_name,
        }
    }

    /// Returns whether the source was read as a document, and not as lines.
    pub fn has_document(&self) -> bool {
        self.document.is_some()
    }

    /// Returns the hash of its last document; nothing if it was read as lines.
    pub fn document(&self) -> Option<Chain> {
        self.document
    }

    /// Returns whether `bytes` equal its last document.
    pub fn is_document(&self, bytes: &[u8]) -> bool {
        self.document == Some(Chain::of_document(bytes))
    }

    /// Returns how many bytes of its lines are in the log, including an incomplete one.
    pub fn line_bytes(&self) -> u64 {
        self.position.offset + self.partial.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }

    /// Returns the beginning of an incomplete line.
    pub fn partial(&self) -> Option<&Bytes> {
        self.partial.as_ref()
    }

    /// Returns whether it was read up to the middle of an oversized line.
    pub fn is_in_pieces(&self) -> bool {
        self.long.is_some()
    }
}

/// A source in a snapshot.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceItem {
    source: u32,
    spec: SourceSpec,
    position: Position,
    chain: Chain,
    #[serde(default)]
    ended: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "hex::option")]
    partial: Option<Vec<u8>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    long: Option<LongLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    short: Option<Box<ShortLines>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    document: Option<Chain>,
}

impl From<&Source> for SourceItem {
    fn from(source: &Source) -> Self {
        Self {
            source: source.number,
            spec: source.spec.clone(),
            position: source.position,
            chain: source.chain,
            ended: source.ended,
            partial: source.partial.as_ref().map(|bytes| bytes.to_vec()),
            long: source.long.clone(),
            short: source.short.clone(),
            document: source.document,
        }
    }
}

impl SourceItem {
    /// Returns the source, with this name for its feed.
    pub(crate) fn into_source(self, feed_name: String) -> Source {
        Source {
            position: self.position,
            chain: self.chain,
            ended: self.ended,
            partial: self.partial.map(Bytes::from),
            long: self.long,
            short: self.short,
            document: self.document,
            ..Source::new(self.source, self.spec, feed_name)
        }
    }

    pub(crate) fn spec(&self) -> &SourceSpec {
        &self.spec
    }
}

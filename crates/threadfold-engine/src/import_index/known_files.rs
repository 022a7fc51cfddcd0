//! The files that a log contains, for a session that reads them again.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};
use threadfold_fold::{Chain, Fold, Source};

use crate::file_stamp::FileStamp;
use crate::files::{InputFile, chain_until};

/// A file, as it was when all of it was in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImportedFile {
    #[serde(flatten)]
    pub(crate) stamp: FileStamp,
    /// Where its lines ended; nothing if they cannot be continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lines: Option<LinesRead>,
    /// The hash of its content, if it was read as one record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) document: Option<Chain>,
}

/// Where the lines of a file ended in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LinesRead {
    /// The position after the last complete line.
    offset: u64,
    /// The hash of all records before that position.
    chain: Chain,
    /// How many bytes were read, with an incomplete line.
    end: u64,
    /// How many of them at the end are hashed, to find them in the file again.
    tail_length: usize,
    tail: Chain,
}

/// The files of a session that are known, by path: those that the index has, and those that were
/// read since.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownFiles {
    imported: BTreeMap<String, ImportedFile>,
    read: BTreeMap<String, LinesRead>,
    documents: BTreeMap<String, Chain>,
}

impl KnownFiles {
    pub(crate) fn new(imported: &[ImportedFile]) -> Self {
        let imported = imported.iter().map(|it| (it.stamp.path.clone(), it.clone())).collect();
        Self { imported, ..Self::default() }
    }

    /// Returns whether a file is unchanged since all of it was read.
    pub(crate) fn has(&self, file: &InputFile, metadata: &Metadata) -> bool {
        FileStamp::new(&file.path, metadata)
            .is_some_and(|stamp| self.imported.get(&stamp.path).is_some_and(|it| it.stamp == stamp))
    }

    /// If a file only grew since it was read, returns the source that it continues, and the last
    /// bytes that were read of it.
    ///
    /// The source must end where the file had ended, with the same chain of hashes, and the file
    /// must still have the bytes before that place.
    pub(crate) fn continued<'a>(
        &self,
        fold: &'a Fold,
        file: &InputFile,
        metadata: &Metadata,
        opened: &mut (impl Read + Seek),
    ) -> io::Result<Option<(&'a Source, Vec<u8>)>> {
        let stamp = FileStamp::new(&file.path, metadata);
        let known = stamp.as_ref().and_then(|it| self.imported.get(&it.path));
        let (Some(stamp), Some(ImportedFile { stamp: before, lines: Some(lines), .. })) =
            (stamp, known)
        else {
            return Ok(None);
        };
        let Some(source) = latest_at(fold, file).filter(|it| lines.is_end_of(it)) else {
            return Ok(None);
        };
        if !before.is_before_growth(&stamp) || before.size != lines.end {
            return Ok(None);
        }
        let Some(mut tail) = lines.read_tail(opened)? else { return Ok(None) };
        // The incomplete line is read again, with its end.
        let incomplete = usize::try_from(lines.end - lines.offset).unwrap_or(usize::MAX);
        tail.truncate(tail.len().saturating_sub(incomplete));
        Ok(Some((source, tail)))
    }

    /// Notes that a file was read up to a place, with these bytes before it.
    pub(crate) fn note(&mut self, fold: &Fold, file: &InputFile, end: u64, tail: &[u8]) {
        let Some(path) = file.spec.path.clone() else { return };
        match latest_at(fold, file).filter(|it| it.line_bytes() == end) {
            Some(source) => {
                let (offset, chain) = (source.position.offset, source.chain);
                let (tail_length, tail) = (tail.len(), Chain::default().after(tail));
                self.read.insert(path, LinesRead { offset, chain, end, tail_length, tail });
            }
            None => {
                self.read.remove(&path);
            }
        }
    }

    /// Notes that a file was read as one record.
    pub(crate) fn note_document(&mut self, file: &InputFile, bytes: &[u8]) {
        if let Some(path) = file.spec.path.clone() {
            self.documents.insert(path, Chain::default().after(bytes));
        }
    }

    /// Returns a file with this stamp, and where it ended when it was read.
    pub(crate) fn imported(&self, stamp: FileStamp) -> ImportedFile {
        let unchanged = self.imported.get(&stamp.path).filter(|it| it.stamp == stamp);
        let read = self.read.get(&stamp.path).filter(|it| it.end == stamp.size);
        let lines = read.or(unchanged.and_then(|it| it.lines.as_ref())).cloned();
        let document = self.documents.get(&stamp.path).copied();
        let document = document.or(unchanged.and_then(|it| it.document));
        ImportedFile { stamp, lines, document }
    }
}

impl ImportedFile {
    /// Returns a file of which nothing is known but its stamp.
    pub(crate) fn unread(stamp: FileStamp) -> Self {
        Self { stamp, lines: None, document: None }
    }

    /// Returns whether a file that looks as it did when it was imported has other content now.
    pub(crate) fn is_rewritten(&self) -> io::Result<bool> {
        let mut opened = File::open(&self.stamp.path)?;
        if FileStamp::new(Path::new(&self.stamp.path), &opened.metadata()?)
            != Some(self.stamp.clone())
        {
            return Ok(false);
        }
        if let Some(document) = self.document {
            let mut bytes = Vec::new();
            opened.read_to_end(&mut bytes)?;
            return Ok(Chain::default().after(&bytes) != document);
        }
        let Some(lines) = &self.lines else { return Ok(false) };
        let chain = chain_until(&mut opened, lines.offset)?;
        Ok(chain != Some(lines.chain) || lines.read_tail(&mut opened)?.is_none())
    }
}

impl LinesRead {
    /// Returns the last bytes that were read, if the file still has them.
    fn read_tail(&self, opened: &mut (impl Read + Seek)) -> io::Result<Option<Vec<u8>>> {
        let mut tail = vec![0; self.tail_length];
        opened.seek(SeekFrom::Start(self.end.saturating_sub(tail.len() as u64)))?;
        opened.read_exact(&mut tail)?;
        Ok((Chain::default().after(&tail) == self.tail).then_some(tail))
    }

    fn is_end_of(&self, source: &Source) -> bool {
        (source.position.offset, source.line_bytes(), source.chain)
            == (self.offset, self.end, self.chain)
            && !source.is_in_pieces()
    }
}

/// Returns the latest part of the source that was read from a file's path.
fn latest_at<'a>(fold: &'a Fold, file: &InputFile) -> Option<&'a Source> {
    let own = fold.same_files(&file.spec).rev().find(|it| it.spec.path == file.spec.path)?;
    fold.source(&own.spec).filter(|it| it.number == own.number)
}

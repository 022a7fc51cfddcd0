//! The file of the index: one line for each import, of which the last one counts.
//!
//! Each line has a checksum. A line that is cut or corrupt is skipped, and what it was about is read
//! again.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::NamedTempFile;

use crate::error::EngineError;

/// The version of the lines. Those of another one are skipped.
const VERSION: &str = "1";
/// The largest file that is read; nothing of ours is that large.
const LARGEST: u64 = 1 << 30;
/// How many lines may be outdated, beyond as many as are not, before the file is rewritten.
const MOST_OUTDATED: usize = 64;

/// A file of lines.
pub(super) struct Journal {
    path: PathBuf,
    /// How many lines the file has.
    lines: usize,
    /// It ends in the middle of a line.
    is_cut: bool,
}

impl Journal {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, lines: 0, is_cut: false }
    }

    /// Passes on what the file contains, in order.
    pub(super) fn read<T: DeserializeOwned>(mut self, mut each: impl FnMut(T)) -> Self {
        let mut bytes = Vec::new();
        // What cannot be read is not known.
        let read = File::open(&self.path).and_then(|it| it.take(LARGEST).read_to_end(&mut bytes));
        if read.is_err() {
            return self;
        }
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.lines += 1;
            self.is_cut = !line.ends_with(b"\n");
            if let Some(item) = parse(line) {
                each(item);
            }
        }
        self
    }

    /// Adds news.
    pub(super) fn append<'a, T: Serialize + 'a>(
        &mut self,
        news: impl Iterator<Item = &'a T>,
    ) -> Result<(), EngineError> {
        let news: Vec<String> = news.map(line_of).collect();
        if news.is_empty() {
            return Ok(());
        }
        // Ends a line that was cut, which is skipped.
        let end = if std::mem::take(&mut self.is_cut) { "\n" } else { "" };
        self.lines += news.len();
        let appended = self.append_text(&format!("{end}{}", news.concat()));
        appended.map_err(|source| EngineError::File { path: self.path.clone(), source })
    }

    /// Appends new entries, and rewrites the file if most of it is outdated.
    pub(super) fn write<'a, T: Serialize + 'a>(
        &mut self,
        news: impl Iterator<Item = &'a T>,
        all: impl Iterator<Item = &'a T> + Clone,
    ) -> Result<(), EngineError> {
        self.append(news)?;
        if self.lines <= 2 * all.clone().count() + MOST_OUTDATED {
            return Ok(());
        }
        let all: Vec<String> = all.map(line_of).collect();
        self.lines = all.len();
        let replaced = self.replace(&all.concat());
        replaced.map_err(|source| EngineError::File { path: self.path.clone(), source })
    }

    fn append_text(&self, text: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        private(&mut options);
        options.open(&self.path)?.write_all(text.as_bytes())
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let folder = self.path.parent().filter(|it| !it.as_os_str().is_empty());
        // Readable by this user only, as temporary files are.
        let mut file = match folder {
            Some(folder) => NamedTempFile::new_in(folder)?,
            None => NamedTempFile::new_in(".")?,
        };
        file.write_all(text.as_bytes())?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Makes a new file readable by this user only: it names the user's files.
fn private(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    #[cfg(not(unix))]
    let OpenOptions { .. } = options;
}

fn line_of<T: Serialize>(item: &T) -> String {
    let json = threadfold_core::Json::of(item);
    format!("{} {}\n", checksum(json.as_str()), json.as_str())
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (sum, json) = line.split_once(' ')?;
    (sum == checksum(json)).then(|| serde_json::from_str(json).ok()).flatten()
}

fn checksum(json: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(VERSION.as_bytes());
    hasher.update(json.as_bytes());
    hasher.finalize().to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn content(path: &std::path::Path) -> Vec<u32> {
        let mut found = Vec::new();
        drop(Journal::new(path.to_owned()).read(|it: u32| found.push(it)));
        found
    }

    #[test]
    fn a_cut_or_corrupt_line_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db.files");
        let mut journal = Journal::new(path.clone()).read(|_: u32| {});
        journal.write([1, 2].iter(), [1, 2].iter()).unwrap();
        assert_eq!(content(&path), [1, 2]);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen(" 1\n", " 7\n", 1)).unwrap();
        assert_eq!(content(&path), [2]);
        fs::write(&path, &text[..text.len() - 2]).unwrap();
        assert_eq!(content(&path), [1]);
        let mut journal = Journal::new(path.clone()).read(|_: u32| {});
        journal.write([3].iter(), [1, 3].iter()).unwrap();
        assert_eq!(content(&path), [1, 3]);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3);
    }

    #[test]
    fn the_file_stays_in_proportion_to_what_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db.files");
        for number in 0..1_000 {
            let mut journal = Journal::new(path.clone()).read(|_: u32| {});
            journal.write([number].iter(), [number].iter()).unwrap();
        }
        assert!(content(&path).len() <= 67);
        assert_eq!(content(&path).last(), Some(&999));
    }
}

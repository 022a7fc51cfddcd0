//! What is known of a session at a bounded cost, for lists of many: from the first and the last
//! bytes of its files.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use threadfold_core::SessionId;
use threadfold_fold::{Agent, FileParts, Glance, HeadReader, SourceRole, SourceSpec};

use crate::error::EngineError;
use crate::files::{Form, InputFile, check_readable};
use crate::found_session::FoundSession;
use crate::packed::PlainReader;
use crate::spill_file::Budget;
use crate::transient::read_found;

/// A session with at most this many bytes is read completely.
pub(crate) const SHORT_SESSION: u64 = 16 << 10;
/// How many of the first bytes of a session are read at most, and at first.
const HEAD: usize = 64 << 10;
const FIRST_HEAD: usize = 4 << 10;
/// How many of the last bytes of a session's main file are read.
const TAIL: u64 = 64 << 10;
/// How many of the last bytes of a subagent's file are read, for their time.
const SUBAGENT_TAIL: u64 = 4 << 10;

impl FoundSession {
    /// Returns what can be known of it from a bounded part of its files; if it is short, everything.
    pub async fn glance(&self, budget: Budget) -> Result<Glance, EngineError> {
        if let Some(glance) = self.content.glance(&self.id)? {
            return Ok(glance);
        }
        let files = self.content.files()?;
        let mut size = 0;
        for file in &files {
            // Reading a pipe would block, and what cannot be read is reported.
            size += check_readable(&file.path)?;
        }
        let agent = self.agent.filter(|_| size > SHORT_SESSION && !self.content.has_copies());
        let lines: Vec<InputFile> = files.into_iter().filter(|it| it.form == Form::Lines).collect();
        let has_main = lines.iter().any(|it| it.spec.kind == SourceRole::Main);
        match agent.filter(|_| has_main) {
            Some(agent) => {
                let parts = lines.into_iter().map(|it| SampledFile::plain(it.spec, it.path));
                sample(&self.id, agent, parts.collect())
            }
            // A document has neither first nor last lines, and copies are compared.
            None => Ok(read_found(self, budget, |_| {}).await?.into_summary().into()),
        }
    }
}

/// A file of lines of which only parts are read.
pub(crate) struct SampledFile {
    spec: SourceSpec,
    path: PathBuf,
    /// It is compressed, so that its end cannot be read without the rest.
    is_compressed: bool,
}

impl SampledFile {
    pub(crate) fn plain(spec: SourceSpec, path: PathBuf) -> Self {
        Self { spec, path, is_compressed: false }
    }

    pub(crate) fn compressed(spec: SourceSpec, path: PathBuf) -> Self {
        Self { spec, path, is_compressed: true }
    }

    fn unreadable(&self) -> impl Fn(io::Error) -> EngineError {
        let path = self.path.clone();
        move |source| EngineError::File { path: path.clone(), source }
    }

    /// Reads the last bytes, from the beginning of a line on.
    fn parts(&self, opened: &mut File) -> io::Result<FileParts> {
        let spec = self.spec.clone();
        if self.is_compressed {
            return Ok(FileParts { spec, tail: None, is_whole: false });
        }
        let most = if spec.kind == SourceRole::Main { TAIL } else { SUBAGENT_TAIL };
        let length = opened.seek(SeekFrom::End(0))?;
        // The byte before shows whether a line begins there.
        let start = length.saturating_sub(most + 1);
        opened.seek(SeekFrom::Start(start))?;
        let mut tail = read_up_to(opened, length - start)?;
        if start > 0 {
            let line = memchr::memchr(b'\n', &tail).map_or(tail.len(), |end| end + 1);
            tail.drain(..line);
        }
        Ok(FileParts { spec, tail: Some(tail), is_whole: start == 0 })
    }
}

/// Reads the first bytes of a session's first main file, and the last bytes of all.
pub(crate) fn sample(
    session: &SessionId,
    agent: Agent,
    files: Vec<SampledFile>,
) -> Result<Glance, EngineError> {
    let mut parts = Vec::new();
    let mut head: Option<HeadReader> = None;
    for file in files {
        let unreadable = file.unreadable();
        let mut opened = File::open(&file.path).map_err(&unreadable)?;
        if head.is_none() && file.spec.kind == SourceRole::Main {
            let mut reader = HeadReader::new(session, &file.spec);
            let read = match file.is_compressed {
                true => read_head(PlainReader::new(&opened), &mut reader),
                false => read_head(&opened, &mut reader),
            };
            read.map_err(&unreadable)?;
            head = Some(reader);
        }
        parts.push(file.parts(&mut opened).map_err(&unreadable)?);
    }
    Ok(head.map(|head| head.finish(agent, &parts)).unwrap_or_default())
}

/// Reads so many bytes, or fewer at the end, with as few calls as possible.
fn read_up_to(reader: &mut impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(most).unwrap_or(HEAD)];
    let mut length = 0;
    while length < bytes.len() {
        match reader.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn read_head(mut plain: impl Read, reader: &mut HeadReader) -> io::Result<()> {
    let (mut read, mut size) = (0, FIRST_HEAD);
    while read < HEAD {
        let chunk = read_up_to(&mut plain, size as u64)?;
        if chunk.is_empty() || !reader.push(&chunk) {
            break;
        }
        read += chunk.len();
        size = (HEAD - read).min(size * 2);
    }
    Ok(())
}

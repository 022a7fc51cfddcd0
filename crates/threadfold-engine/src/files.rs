//! Reads files into records: once, or following them while another program writes.
//!
//! Importing and tailing are the same: a file is read from where its source's log ends to the end
//! of the file. Tailing repeats that.

mod growing_set;
mod identify;

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use threadfold_fold::{Chain, Cutter, Record, RecordKind, Source, SourceSpec};

use crate::error::EngineError;
use crate::found_session::{Follow, SessionContent, Stamp};
use crate::session::Session;

pub(crate) use growing_set::GrowingSetFollower;
use identify::{DocumentMatch, FileMatch};
pub(crate) use identify::{has_bytes, has_file, longest_lines};

const CHUNK: usize = 64 << 10;
/// How many bytes of records are written at once.
const BATCH: usize = 4 << 20;
/// How many records are held at once, however short they are.
const BATCH_RECORDS: usize = 4 << 10;
/// How many bytes before the end are compared again, to verify that the file is still the same.
const RECHECKED_BYTES: usize = 256;

/// A file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// Its role in the session.
    pub spec: SourceSpec,
    /// Its path.
    pub path: PathBuf,
    /// How it is split into records.
    pub form: Form,
}

/// How a file is split into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each line is a record; lines are appended.
    Lines,
    /// The whole file is one record, and may be replaced.
    Document,
}

/// How much was read from a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// The number of new records.
    pub records: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// How often the file was rewritten from its beginning; the earlier version is kept as well.
    pub new_parts: u64,
}

impl Intake {
    /// Adds the counts of another read.
    pub fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.new_parts += other.new_parts;
    }
}

/// Follows one file of a session.
#[derive(Debug)]
pub(crate) struct FileFollower {
    file: InputFile,
    following: Option<FilePosition>,
    /// Size and time of a document when it was last read.
    checked: Option<(u64, Option<SystemTime>)>,
}

#[derive(Debug)]
struct FilePosition {
    cutter: Cutter,
    identity: Identity,
    /// The last bytes that were read.
    tail: Vec<u8>,
    /// The log already contains the whole file, as part of something longer or older.
    is_contained: bool,
}

/// Distinguishes a file from another one that replaced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(metadata.dev(), metadata.ino())
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self(0, 0)
    }
}

impl FileFollower {
    /// Returns a follower that has not opened the file yet.
    pub(crate) fn new(file: InputFile) -> Self {
        Self { file, following: None, checked: None }
    }

    /// Reads everything new into the session; unterminated lines wait for their end.
    ///
    /// A missing file is not an error: it may still appear, and what was read of it stays.
    pub(crate) async fn poll(
        &mut self,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError> {
        let opened = match File::open(&self.file.path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.following = None;
                return Ok(Intake::default());
            }
            Err(error) => return Err(self.unreadable(error)),
        };
        let metadata = opened.metadata().map_err(|error| self.unreadable(error))?;
        let identity = Identity::of(&metadata);
        if self.following.is_none() && session.known_files().has(&self.file, &metadata) {
            return Ok(Intake::default());
        }
        match self.file.form {
            Form::Lines => self.poll_lines(opened, &metadata, session, progress).await,
            Form::Document => {
                let checked = Some((metadata.len(), metadata.modified().ok()));
                if self.checked == checked {
                    return Ok(Intake::default());
                }
                let intake = self.poll_document(opened, identity, session, progress).await?;
                self.checked = checked;
                Ok(intake)
            }
        }
    }

    /// Stores the unterminated last line as far as it was written; the file may still grow.
    pub(crate) async fn flush_unterminated(
        &mut self,
        session: &mut Session,
    ) -> Result<Intake, EngineError> {
        let Some(following) = &self.following else { return Ok(Intake::default()) };
        let Some(partial) = following.cutter.unfinished() else {
            self.note_read(session);
            return Ok(Intake::default());
        };
        let source = session.fold().sources().find(|it| it.number == following.cutter.source());
        if source.and_then(Source::partial) == Some(&partial.bytes) {
            self.note_read(session);
            return Ok(Intake::default());
        }
        let intake = Intake { records: 1, bytes: partial.bytes.len() as u64, new_parts: 0 };
        session.accept(vec![partial]).await?;
        self.note_read(session);
        Ok(intake)
    }

    async fn poll_lines(
        &mut self,
        mut opened: impl Read + Seek,
        metadata: &Metadata,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError> {
        let mut intake = Intake::default();
        let identity = Identity::of(metadata);
        let is_same = match &self.following {
            Some(known) => {
                known.identity == identity
                    && known.is_still_in(&mut opened).map_err(|error| self.unreadable(error))?
            }
            None => false,
        };
        // The declaration of a new source is stored together with its first records.
        let (mut following, declaration) = match self.following.take() {
            Some(known) if is_same => (known, None),
            _ => self.begin(&mut opened, metadata, session, &mut intake).await?,
        };
        let start = following.cutter.end();
        opened.seek(SeekFrom::Start(start)).map_err(|error| self.unreadable(error))?;
        let mut chunk = vec![0; CHUNK];
        let mut lines = 0;
        let mut records: Vec<Record> = declaration.into_iter().collect();
        let mut size = 0;
        loop {
            let count = read(&mut opened, &mut chunk).map_err(|error| self.unreadable(error))?;
            following.advance(&chunk[..count]);
            let before = records.len();
            following.cutter.push(&chunk[..count], &mut records);
            size += records[before..].iter().map(|it| it.bytes.len()).sum::<usize>();
            lines += records.len() - before;
            if size >= BATCH || records.len() >= BATCH_RECORDS || count == 0 {
                intake.records += std::mem::take(&mut lines) as u64;
                intake.bytes += size as u64;
                session.accept_in_batches(std::mem::take(&mut records)).await?;
                progress(size as u64);
                size = 0;
            }
            if count == 0 {
                break;
            }
        }
        self.following = Some(following);
        Ok(intake)
    }

    /// Notes that the log contains the file as far as it was read.
    fn note_read(&self, session: &mut Session) {
        if let Some(following) = self.following.as_ref().filter(|it| !it.is_contained) {
            session.note_read(&self.file, following.cutter.end(), &following.tail);
        }
    }

    /// Finds where the file continues in the log; if it does not, returns the record that declares
    /// a new source or part.
    async fn begin(
        &self,
        opened: &mut (impl Read + Seek),
        metadata: &Metadata,
        session: &mut Session,
        intake: &mut Intake,
    ) -> Result<(FilePosition, Option<Record>), EngineError> {
        let identity = Identity::of(metadata);
        // A write that was not acknowledged may have stored some of the file.
        session.settle().await?;
        let grown = session.known_files().continued(session.fold(), &self.file, metadata, opened);
        if let Some((part, tail)) = grown.map_err(|error| self.unreadable(error))? {
            let cutter = Cutter::resume(part.number, part.position.offset, false);
            return Ok((FilePosition { tail, ..FilePosition::new(cutter, identity) }, None));
        }
        let store = session.shared_store();
        let known = (&*store, session.fold());
        let declaration = match identify::find(known, &self.file, identity, opened).await? {
            FileMatch::Continues(part, tail) => {
                let cutter = Cutter::resume(part.number, part.position.offset, part.is_in_pieces());
                return Ok((FilePosition { tail, ..FilePosition::new(cutter, identity) }, None));
            }
            FileMatch::Contained { number, length, tail } => {
                let following = FilePosition::new(Cutter::resume(number, length, false), identity);
                return Ok((FilePosition { tail, is_contained: true, ..following }, None));
            }
            FileMatch::Rewritten(spec) => {
                intake.new_parts += 1;
                session.declaration_of_part(&spec)?
            }
            FileMatch::New(spec) => session.declaration(spec)?,
        };
        let cutter = Cutter::new(declaration.source);
        Ok((FilePosition::new(cutter, identity), Some(declaration)))
    }

    async fn poll_document(
        &mut self,
        mut opened: File,
        identity: Identity,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError> {
        let mut bytes = Vec::new();
        opened.read_to_end(&mut bytes).map_err(|error| self.unreadable(error))?;
        progress(bytes.len() as u64);
        session.note_document(&self.file, &bytes);
        let number = match identify::find_document(session, &self.file.spec, identity, &bytes) {
            DocumentMatch::Known => return Ok(Intake::default()),
            DocumentMatch::Replaces(number) => number,
            DocumentMatch::New(spec) => session.source(&spec).await?,
        };
        let intake = Intake { records: 1, bytes: bytes.len() as u64, new_parts: 0 };
        let record = Record::new(RecordKind::Document, number, 0, bytes);
        session.accept(vec![record]).await?;
        Ok(intake)
    }

    fn unreadable(&self, source: io::Error) -> EngineError {
        EngineError::File { path: self.file.path.clone(), source }
    }
}

impl FilePosition {
    fn new(cutter: Cutter, identity: Identity) -> Self {
        Self { cutter, identity, tail: Vec::new(), is_contained: false }
    }

    fn advance(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(RECHECKED_BYTES)..]);
        let beyond = self.tail.len().saturating_sub(RECHECKED_BYTES);
        self.tail.drain(..beyond);
    }

    /// Returns whether the file still contains the bytes that were read last, at the same place.
    fn is_still_in(&self, opened: &mut (impl Read + Seek)) -> io::Result<bool> {
        if self.is_contained && opened.seek(SeekFrom::End(0))? != self.cutter.end() {
            return Ok(false);
        }
        let from = self.cutter.end() - self.tail.len() as u64;
        opened.seek(SeekFrom::Start(from))?;
        let mut found = vec![0; self.tail.len()];
        match opened.read_exact(&mut found) {
            Ok(()) => Ok(found == self.tail),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns the hash of a file's records before a place; nothing if the file is shorter.
pub(crate) fn chain_until(opened: &mut (impl Read + Seek), end: u64) -> io::Result<Option<Chain>> {
    opened.seek(SeekFrom::Start(0))?;
    let (mut cutter, mut chain) = (Cutter::new(0), Chain::default());
    let (mut rest, mut records, mut chunk) = (end, Vec::new(), vec![0; CHUNK]);
    while rest > 0 {
        let wanted = usize::try_from(rest).unwrap_or(CHUNK).min(CHUNK);
        let count = read(opened, &mut chunk[..wanted])?;
        if count == 0 {
            return Ok(None);
        }
        cutter.push(&chunk[..count], &mut records);
        chain = records.drain(..).fold(chain, |chain: Chain, it: Record| chain.after(&it.bytes));
        rest -= count as u64;
    }
    Ok(Some(chain))
}

/// If a file begins with everything known of a source, returns the last of those bytes.
fn tail_if_continued(
    opened: &mut (impl Read + Seek),
    known: &Source,
) -> io::Result<Option<Vec<u8>>> {
    opened.seek(SeekFrom::Start(0))?;
    let mut rest = known.position.offset;
    let mut cutter = Cutter::new(0);
    let mut chain = Chain::default();
    let mut records = Vec::new();
    let mut chunk = vec![0; CHUNK];
    let mut tail = FilePosition::new(Cutter::new(0), Identity(0, 0));
    while rest > 0 {
        let wanted = usize::try_from(rest).unwrap_or(CHUNK).min(CHUNK);
        let count = read(opened, &mut chunk[..wanted])?;
        if count == 0 {
            return Ok(None);
        }
        tail.advance(&chunk[..count]);
        cutter.push(&chunk[..count], &mut records);
        chain = records.drain(..).fold(chain, |chain: Chain, it: Record| chain.after(&it.bytes));
        rest -= count as u64;
    }
    if known.is_in_pieces()
        && let Some(held) = cutter.unfinished()
    {
        chain = chain.after(&held.bytes);
    }
    let mut unfinished = vec![0; known.partial().map_or(0, Bytes::len)];
    let has_unfinished = match opened.read_exact(&mut unfinished) {
        Ok(()) => known.partial().is_none_or(|it| *it == unfinished),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
        Err(error) => return Err(error),
    };
    Ok((chain == known.chain && has_unfinished).then_some(tail.tail))
}

fn read(file: &mut impl Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// A fixed set of files that make up a session.
#[derive(Clone, Debug)]
pub(crate) struct FileSet(Vec<InputFile>);

impl FileSet {
    pub(crate) fn new(files: Vec<InputFile>) -> Self {
        Self(files)
    }
}

impl SessionContent for FileSet {
    fn check(&self) -> Result<(), EngineError> {
        check_all(self.0.iter().map(|it| it.path.as_path()))
    }

    fn files(&self) -> Result<Vec<InputFile>, EngineError> {
        Ok(self.0.clone())
    }

    fn stamp(&self) -> Stamp {
        stamp_of(self.0.iter().map(|it| it.path.as_path()))
    }

    fn follower(&self) -> Box<dyn Follow> {
        Box::new(FileSetFollower(self.0.iter().cloned().map(FileFollower::new).collect()))
    }
}

/// Follows a fixed set of files.
struct FileSetFollower(Vec<FileFollower>);

#[async_trait]
impl Follow for FileSetFollower {
    async fn poll(
        &mut self,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError> {
        let mut intake = Intake::default();
        for follower in &mut self.0 {
            intake.add(follower.poll(session, progress).await?);
        }
        Ok(intake)
    }

    async fn flush_unterminated(&mut self, session: &mut Session) -> Result<Intake, EngineError> {
        let mut intake = Intake::default();
        for follower in &mut self.0 {
            intake.add(follower.flush_unterminated(session).await?);
        }
        Ok(intake)
    }
}

/// Reads complete files into a session, each to its end, including an unterminated last line.
pub async fn read_files(session: &mut Session, files: &[InputFile]) -> Result<Intake, EngineError> {
    let mut follower = FileSet::new(files.to_vec()).follower();
    let mut intake = follower.poll(session, &mut |_| {}).await?;
    intake.add(follower.flush_unterminated(session).await?);
    Ok(intake)
}

/// Refuses unreadable files, and pipes and devices, which might never end; returns the size.
pub(crate) fn check_readable(path: &Path) -> Result<u64, EngineError> {
    let found = path.metadata().and_then(|it| match it.is_file() {
        true => File::open(path).map(|_| it.len()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    });
    found.map_err(|source| EngineError::File { path: path.to_owned(), source })
}

/// Refuses files of which one cannot be read.
pub(crate) fn check_all<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), EngineError> {
    paths.into_iter().try_for_each(|path| check_readable(path).map(drop))
}

/// Returns the number, size and latest time of files, without reading them; skips missing ones.
pub(crate) fn stamp_of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Stamp {
    let mut stamp = Stamp { files: 0, bytes: Some(0), changed: None };
    for metadata in paths.into_iter().filter_map(|path| path.metadata().ok()) {
        stamp.files += 1;
        stamp.bytes = stamp.bytes.map(|bytes| bytes + metadata.len());
        stamp.changed = stamp.changed.max(metadata.modified().ok());
    }
    stamp
}

/// Returns the folder that contains a file.
pub(crate) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Skips a byte order mark.
pub(crate) fn without_mark(mut reader: impl Read) -> impl Read {
    let mut first = Vec::new();
    // A read error is not reported here: it occurs again when the file is read.
    reader.by_ref().take(3).read_to_end(&mut first).ok();
    let rest = first.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&first).to_vec();
    io::Cursor::new(rest).chain(reader)
}

/// Returns a path as it is stored in the log.
pub(crate) fn noted(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

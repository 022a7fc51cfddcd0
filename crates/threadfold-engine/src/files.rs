//! Files that become records: read once, or followed while another program writes them.
//!
//! Importing and tailing are the same: a file is read from where its source's log ends to where
//! the file ends. Tailing does it again and again.

mod identify;

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use threadfold_fold::{Chain, Cutter, Record, RecordKind, Source, SourceSpec};

use crate::error::EngineError;
use crate::found::{Follow, SessionContent, Stamp};
use crate::session::Session;

pub(crate) use identify::has_file;
use identify::{DocumentMatch, FileMatch};

const CHUNK: usize = 256 << 10;
/// How many bytes of records are kept at once.
const BATCH: usize = 4 << 20;
/// How many bytes before the end are looked at again, to see that the file is still the same.
const LOOKED_AT_AGAIN: usize = 256;

/// A file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// What it is to the session.
    pub spec: SourceSpec,
    /// Where it is.
    pub path: PathBuf,
    /// How it is cut into records.
    pub form: Form,
}

/// How a file is cut into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every line is one; lines are added at the end.
    Lines,
    /// The whole file is one, and may be replaced by another.
    Document,
}

/// What reading a file brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// How many records are new.
    pub records: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// The file was written anew from its beginning, and is kept beside what it was before.
    pub new_parts: u64,
}

impl Intake {
    /// Adds what another reading brought.
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
    following: Option<Following>,
    /// How a file that is one record looked when it was intake.
    looked: Option<(u64, Option<SystemTime>)>,
}

#[derive(Debug)]
struct Following {
    cutter: Cutter,
    identity: Identity,
    /// The last bytes that were read.
    tail: Vec<u8>,
    /// All of the file is in the log already, and more than it or another part of it.
    is_contained: bool,
}

/// Tells a file from another that took its place.
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
    /// Returns a follower who has not looked at the file yet.
    pub(crate) fn new(file: InputFile) -> Self {
        Self { file, following: None, looked: None }
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &InputFile {
        &self.file
    }

    /// Reads all that is new, and hands it to the session; lines without an end wait for it.
    ///
    /// That the file is not there is no mistake: it may come, and what was read of it stays.
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
        match self.file.form {
            Form::Lines => self.poll_lines(opened, identity, session, progress).await,
            Form::Document => {
                let looked = Some((metadata.len(), metadata.modified().ok()));
                if self.looked == looked {
                    return Ok(Intake::default());
                }
                let intake = self.poll_document(opened, identity, session, progress).await?;
                self.looked = looked;
                Ok(intake)
            }
        }
    }

    /// Keeps the last line, which has no end, as far as it has come; the file may still grow.
    pub(crate) async fn keep_unfinished(
        &mut self,
        session: &mut Session,
    ) -> Result<Intake, EngineError> {
        let Some(following) = &self.following else { return Ok(Intake::default()) };
        let Some(partial) = following.cutter.unfinished() else { return Ok(Intake::default()) };
        let source = session.fold().sources().find(|it| it.number == following.cutter.source());
        if source.and_then(Source::partial) == Some(&partial.bytes) {
            return Ok(Intake::default());
        }
        let intake = Intake { records: 1, bytes: partial.bytes.len() as u64, new_parts: 0 };
        session.accept(vec![partial]).await?;
        Ok(intake)
    }

    async fn poll_lines(
        &mut self,
        mut opened: impl Read + Seek,
        identity: Identity,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError> {
        let mut intake = Intake::default();
        let is_same = match &self.following {
            Some(known) => {
                known.identity == identity
                    && known.is_still_in(&mut opened).map_err(|error| self.unreadable(error))?
            }
            None => false,
        };
        let mut following = match self.following.take() {
            Some(known) if is_same => known,
            _ => self.begin(&mut opened, identity, session, &mut intake).await?,
        };
        let start = following.cutter.end();
        opened.seek(SeekFrom::Start(start)).map_err(|error| self.unreadable(error))?;
        let mut chunk = vec![0; CHUNK];
        let mut records = Vec::new();
        let mut size = 0;
        loop {
            let count = read(&mut opened, &mut chunk).map_err(|error| self.unreadable(error))?;
            following.advance(&chunk[..count]);
            let before = records.len();
            following.cutter.push(&chunk[..count], &mut records);
            size += records[before..].iter().map(|it| it.bytes.len()).sum::<usize>();
            if size >= BATCH || count == 0 {
                intake.records += records.len() as u64;
                intake.bytes += size as u64;
                session.accept(std::mem::take(&mut records)).await?;
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

    /// Finds the place in the log where the file goes on, or begins a source or a part of one.
    async fn begin(
        &self,
        opened: &mut (impl Read + Seek),
        identity: Identity,
        session: &mut Session,
        intake: &mut Intake,
    ) -> Result<Following, EngineError> {
        let store = session.shared_store();
        let known = (&*store, session.fold());
        let number = match identify::find(known, &self.file, identity, opened).await? {
            FileMatch::Continues(part, tail) => {
                let cutter = Cutter::resume(part.number, part.position.offset, part.is_in_pieces());
                return Ok(Following { tail, ..Following::new(cutter, identity) });
            }
            FileMatch::Contained { number, length, tail } => {
                let following = Following::new(Cutter::resume(number, length, false), identity);
                return Ok(Following { tail, is_contained: true, ..following });
            }
            FileMatch::Rewritten(spec) => {
                intake.new_parts += 1;
                session.new_part(&spec).await?
            }
            FileMatch::New(spec) => session.source(&spec).await?,
        };
        Ok(Following::new(Cutter::new(number), identity))
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

impl Following {
    fn new(cutter: Cutter, identity: Identity) -> Self {
        Self { cutter, identity, tail: Vec::new(), is_contained: false }
    }

    fn advance(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(LOOKED_AT_AGAIN)..]);
        let beyond = self.tail.len().saturating_sub(LOOKED_AT_AGAIN);
        self.tail.drain(..beyond);
    }

    /// Says whether the file still has what was read last where it was read.
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

/// Says whether a file begins with all that is known of a source; if so, how that ends.
fn goes_on(opened: &mut (impl Read + Seek), known: &Source) -> io::Result<Option<Vec<u8>>> {
    opened.seek(SeekFrom::Start(0))?;
    let mut rest = known.position.offset;
    let mut cutter = Cutter::new(0);
    let mut chain = Chain::default();
    let mut records = Vec::new();
    let mut chunk = vec![0; CHUNK];
    let mut tail = Following::new(Cutter::new(0), Identity(0, 0));
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

/// Files that make up a session and stay the same ones.
#[derive(Clone, Debug)]
pub(crate) struct FileSet(Vec<InputFile>);

impl FileSet {
    pub(crate) fn new(files: Vec<InputFile>) -> Self {
        Self(files)
    }
}

impl SessionContent for FileSet {
    fn check(&self) -> Result<(), EngineError> {
        self.0.iter().try_for_each(|it| check_readable(&it.path))
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

/// Follows each of some files.
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

    async fn keep_unfinished(&mut self, session: &mut Session) -> Result<Intake, EngineError> {
        let mut intake = Intake::default();
        for follower in &mut self.0 {
            intake.add(follower.keep_unfinished(session).await?);
        }
        Ok(intake)
    }
}

/// Reads files that are at rest into a session, each to its end, an unfinished last line as well.
pub async fn read_files(session: &mut Session, files: &[InputFile]) -> Result<Intake, EngineError> {
    let mut follower = FileSet::new(files.to_vec()).follower();
    let mut intake = follower.poll(session, &mut |_| {}).await?;
    intake.add(follower.keep_unfinished(session).await?);
    Ok(intake)
}

/// Refuses what cannot be read, and what might never end: only a file is a file.
pub(crate) fn check_readable(path: &Path) -> Result<(), EngineError> {
    let found = path.metadata().and_then(|it| match it.is_file() {
        true => File::open(path).map(drop),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    });
    found.map_err(|source| EngineError::File { path: path.to_owned(), source })
}

/// Returns how files look from outside. One that is not there adds nothing.
pub(crate) fn stamp_of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Stamp {
    let mut stamp = Stamp { files: 0, bytes: Some(0), changed: None };
    for metadata in paths.into_iter().filter_map(|path| path.metadata().ok()) {
        stamp.files += 1;
        stamp.bytes = stamp.bytes.map(|bytes| bytes + metadata.len());
        stamp.changed = stamp.changed.max(metadata.modified().ok());
    }
    stamp
}

/// Skips a byte order mark.
pub(crate) fn without_mark(mut reader: impl Read) -> impl Read {
    let mut first = Vec::new();
    // What cannot be read now cannot be read later, and is reported then.
    reader.by_ref().take(3).read_to_end(&mut first).ok();
    let rest = first.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&first).to_vec();
    io::Cursor::new(rest).chain(reader)
}

/// Returns a path as the log notes it.
pub(crate) fn noted(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

//! Files that become records: read once, or followed while another program writes them.
//!
//! Importing and tailing are the same: a file is read from where its source's log ends to where
//! the file ends. Tailing does it again and again.

mod claude;
mod kin;

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use threadfold_store::RecordKind;

use crate::cut::{Cut, Cutter};
use crate::error::EngineError;
use crate::session::{Incoming, Session};
use crate::source::{Chain, Source, SourceSpec};

pub use claude::claude_files;
pub use kin::has_file;
use kin::{Kin, KinDocument};

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
pub struct Taken {
    /// How many records are new.
    pub records: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// The file was written anew from its beginning, and is kept beside what it was before.
    pub new_parts: u64,
}

impl Taken {
    /// Adds what another reading brought.
    pub fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.new_parts += other.new_parts;
    }
}

/// Follows one file of a session.
#[derive(Debug)]
pub struct Follower {
    file: InputFile,
    following: Option<Following>,
    /// How a file that is one record looked when it was taken.
    looked: Option<(u64, Option<SystemTime>)>,
}

#[derive(Debug)]
struct Following {
    number: u32,
    cutter: Cutter,
    identity: Identity,
    /// The last bytes that were read.
    tail: Vec<u8>,
    /// All of the file is in the log already, and more than it or another part of it.
    is_known: bool,
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

impl Follower {
    /// Returns a follower who has not looked at the file yet.
    pub fn new(file: InputFile) -> Self {
        Self { file, following: None, looked: None }
    }

    /// Returns the file.
    pub fn file(&self) -> &InputFile {
        &self.file
    }

    /// Reads all that is new, and hands it to the session; lines without an end wait for it.
    ///
    /// That the file is not there is no mistake: it may come, and what was read of it stays.
    pub async fn poll(
        &mut self,
        session: &mut Session,
        mut progress: impl FnMut(u64),
    ) -> Result<Taken, EngineError> {
        let opened = match File::open(&self.file.path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.following = None;
                return Ok(Taken::default());
            }
            Err(error) => return Err(self.unreadable(error)),
        };
        let metadata = opened.metadata().map_err(|error| self.unreadable(error))?;
        let identity = Identity::of(&metadata);
        match self.file.form {
            Form::Lines => self.poll_lines(opened, identity, session, &mut progress).await,
            Form::Document => {
                let looked = Some((metadata.len(), metadata.modified().ok()));
                if self.looked == looked {
                    return Ok(Taken::default());
                }
                let taken = self.poll_document(opened, identity, session, &mut progress).await?;
                self.looked = looked;
                Ok(taken)
            }
        }
    }

    /// Keeps the last line, which has no end, as far as it has come; the file may still grow.
    pub async fn keep_unfinished(&mut self, session: &mut Session) -> Result<Taken, EngineError> {
        let Some(following) = &self.following else { return Ok(Taken::default()) };
        let Some(cut) = following.cutter.unfinished() else { return Ok(Taken::default()) };
        let source = session.fold().sources().find(|it| it.number == following.number);
        if source.and_then(Source::partial) == Some(&cut.bytes) {
            return Ok(Taken::default());
        }
        let taken = Taken { records: 1, bytes: cut.bytes.len() as u64, new_parts: 0 };
        session.accept(vec![incoming(following.number, cut)]).await?;
        Ok(taken)
    }

    async fn poll_lines(
        &mut self,
        mut opened: impl Read + Seek,
        identity: Identity,
        session: &mut Session,
        progress: &mut impl FnMut(u64),
    ) -> Result<Taken, EngineError> {
        let mut taken = Taken::default();
        let is_same = match &self.following {
            Some(known) => {
                known.identity == identity
                    && known.is_still_in(&mut opened).map_err(|error| self.unreadable(error))?
            }
            None => false,
        };
        let mut following = match self.following.take() {
            Some(known) if is_same => known,
            _ => self.begin(&mut opened, identity, session, &mut taken).await?,
        };
        let start = following.cutter.end();
        opened.seek(SeekFrom::Start(start)).map_err(|error| self.unreadable(error))?;
        let mut chunk = vec![0; CHUNK];
        let mut cuts = Vec::new();
        let mut size = 0;
        loop {
            let count = read(&mut opened, &mut chunk).map_err(|error| self.unreadable(error))?;
            following.heard(&chunk[..count]);
            let before = cuts.len();
            following.cutter.push(&chunk[..count], &mut cuts);
            size += cuts[before..].iter().map(|cut| cut.bytes.len()).sum::<usize>();
            if size >= BATCH || count == 0 {
                taken.records += cuts.len() as u64;
                taken.bytes += size as u64;
                let number = following.number;
                let batch = cuts.drain(..).map(|cut| incoming(number, cut)).collect();
                session.accept(batch).await?;
                progress(size as u64);
                size = 0;
            }
            if count == 0 {
                break;
            }
        }
        self.following = Some(following);
        Ok(taken)
    }

    /// Finds the place in the log where the file goes on, or begins a source or a part of one.
    async fn begin(
        &self,
        opened: &mut (impl Read + Seek),
        identity: Identity,
        session: &mut Session,
        taken: &mut Taken,
    ) -> Result<Following, EngineError> {
        let number = match kin::find(session, &self.file, identity, opened).await? {
            Kin::GoesOn(part, tail) => {
                let cutter = Cutter::resume(part.position.offset, part.is_in_pieces());
                return Ok(Following { tail, ..Following::new(part.number, cutter, identity) });
            }
            Kin::Known { number, length, tail } => {
                let following = Following::new(number, Cutter::resume(length, false), identity);
                return Ok(Following { tail, is_known: true, ..following });
            }
            Kin::Anew(spec) => {
                taken.new_parts += 1;
                session.new_part(&spec).await?
            }
            Kin::New(spec) => session.source(&spec).await?,
        };
        Ok(Following::new(number, Cutter::default(), identity))
    }

    async fn poll_document(
        &mut self,
        mut opened: File,
        identity: Identity,
        session: &mut Session,
        progress: &mut impl FnMut(u64),
    ) -> Result<Taken, EngineError> {
        let mut bytes = Vec::new();
        opened.read_to_end(&mut bytes).map_err(|error| self.unreadable(error))?;
        progress(bytes.len() as u64);
        let number = match kin::find_document(session, &self.file.spec, identity, &bytes) {
            KinDocument::Known => return Ok(Taken::default()),
            KinDocument::Replaces(number) => number,
            KinDocument::New(spec) => session.source(&spec).await?,
        };
        let taken = Taken { records: 1, bytes: bytes.len() as u64, new_parts: 0 };
        let bytes = Bytes::from(bytes);
        let kind = RecordKind::Document;
        session.accept(vec![Incoming { kind, source: number, position: 0, bytes }]).await?;
        Ok(taken)
    }

    fn unreadable(&self, source: io::Error) -> EngineError {
        EngineError::File { path: self.file.path.clone(), source }
    }
}

impl Following {
    fn new(number: u32, cutter: Cutter, identity: Identity) -> Self {
        Self { number, cutter, identity, tail: Vec::new(), is_known: false }
    }

    fn heard(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(LOOKED_AT_AGAIN)..]);
        let beyond = self.tail.len().saturating_sub(LOOKED_AT_AGAIN);
        self.tail.drain(..beyond);
    }

    /// Says whether the file still has what was read last where it was read.
    fn is_still_in(&self, opened: &mut (impl Read + Seek)) -> io::Result<bool> {
        if self.is_known && opened.seek(SeekFrom::End(0))? != self.cutter.end() {
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
    let mut cutter = Cutter::default();
    let mut chain = Chain::default();
    let mut cuts = Vec::new();
    let mut chunk = vec![0; CHUNK];
    let mut tail = Following::new(0, Cutter::default(), Identity(0, 0));
    while rest > 0 {
        let wanted = usize::try_from(rest).unwrap_or(CHUNK).min(CHUNK);
        let count = read(opened, &mut chunk[..wanted])?;
        if count == 0 {
            return Ok(None);
        }
        tail.heard(&chunk[..count]);
        cutter.push(&chunk[..count], &mut cuts);
        chain = cuts.drain(..).fold(chain, |chain, cut| chain.after(&cut.bytes));
        rest -= count as u64;
    }
    if known.is_in_pieces()
        && let Some(cut) = cutter.unfinished()
    {
        chain = chain.after(&cut.bytes);
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

fn incoming(source: u32, cut: Cut) -> Incoming {
    Incoming { kind: cut.kind, source, position: cut.position, bytes: cut.bytes }
}

/// Reads files that are at rest into a session, each to its end, an unfinished last line as well.
pub async fn take_files(
    session: &mut Session,
    files: &[InputFile],
    mut progress: impl FnMut(u64),
) -> Result<Taken, EngineError> {
    let mut taken = Taken::default();
    for file in files {
        let mut follower = Follower::new(file.clone());
        taken.add(follower.poll(session, &mut progress).await?);
        taken.add(follower.keep_unfinished(session).await?);
    }
    Ok(taken)
}

/// Takes lines that lie in memory, as if they were a file: what another form of keeping was read
/// into, such as the rows of a database.
pub async fn take_lines(
    session: &mut Session,
    spec: &SourceSpec,
    lines: &[u8],
) -> Result<Taken, EngineError> {
    let path = spec.path.clone().unwrap_or_else(|| spec.name.clone()).into();
    let mut follower = Follower::new(InputFile { spec: spec.clone(), path, form: Form::Lines });
    let identity = Identity(0, 0);
    let mut taken =
        follower.poll_lines(io::Cursor::new(lines), identity, session, &mut |_| {}).await?;
    taken.add(follower.keep_unfinished(session).await?);
    Ok(taken)
}

/// Returns a path as the log notes it.
pub(crate) fn noted(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

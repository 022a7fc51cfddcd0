//! What a path that somebody named holds: which sessions, of which agent, in which form.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use threadfold_core::SessionId;
use threadfold_fold::{
    Agent, Detection, HEAD_BYTES, Head, SessionNamer, Shape, SourceRole, SourceSpec, content_name,
    detect, is_document, is_enough, may_be_document,
};

use crate::agents;
use crate::error::EngineError;
use crate::files::{Form, InputFile};
use crate::found::{FoundSession, Naming};

/// What somebody said about a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct InputOptions<'a> {
    /// What it is; recognized by its content if this is absent.
    pub format: Option<Detection>,
    /// The session that is meant, where it holds several.
    pub session: Option<&'a str>,
    /// Take what nobody recognizes as well, whatever it is.
    pub any: bool,
}

/// Why a path cannot be read as sessions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// Give a file: a pipe or a device may never end.
    #[error("`{}` is not a regular file", path.display())]
    NotRegular {
        /// What was given.
        path: PathBuf,
    },
    /// Try again when a line of it is whole, or say what it is.
    #[error("`{}` has no record yet that shows what it is", path.display())]
    NothingYet {
        /// What was given.
        path: PathBuf,
    },
    /// Say what it is, or take it as it is.
    #[error("`{}` is in no format that an agent or Threadfold writes", path.display())]
    Unrecognized {
        /// What was given.
        path: PathBuf,
    },
    /// Give a file of that format.
    #[error("`{}` is not in format `{format}`: {reason}", path.display())]
    Mismatch {
        /// What was given.
        path: PathBuf,
        /// What it was said to be.
        format: &'static str,
        /// What it is instead.
        reason: &'static str,
    },
    /// Look at what there is.
    #[error("there is no session in `{}`", path.display())]
    NoSession {
        /// What was given.
        path: PathBuf,
        /// How many files were left aside because nobody recognizes them.
        unrecognized: usize,
    },
    /// Name one of those that are there.
    #[error("session `{session}` is not in `{}`", path.display())]
    Missing {
        /// What was given.
        path: PathBuf,
        /// What was asked for.
        session: String,
    },
    /// Say which one is meant.
    #[error("there are {count} sessions in `{}`", path.display())]
    Several {
        /// What was given.
        path: PathBuf,
        /// How many there are.
        count: usize,
        /// One of them.
        example: String,
    },
    /// Leave the session out.
    #[error("`{}` holds one session, and a session was named", path.display())]
    OneSession {
        /// What was given.
        path: PathBuf,
    },
    /// Give the address of a server.
    #[error("`{address}` is not the address of a server of a known agent")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// See [`EngineError`].
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Opens a path that holds one session or several.
///
/// A folder that is no container of one agent is refused here; see
/// [`Discovery::of_folder`](crate::Discovery::of_folder).
pub fn open_path(path: &Path, options: &InputOptions<'_>) -> Result<Vec<FoundSession>, InputError> {
    let input = match path.is_dir() {
        true => recognize_folder(path, options)?,
        false => recognize_file(path, options)?,
    };
    let opened = agents::of(input.agent).open(path, input, options);
    match opened {
        // What an agent's module cannot read is still kept, if everything is to be taken.
        Err(_) if options.any && options.format.is_none() && path.is_file() => {
            let input = Detection::unknown();
            agents::of(input.agent).open(path, input, options)
        }
        opened => opened,
    }
}

/// Opens a path that holds one session, or of which one is named.
pub fn open_one(path: &Path, options: &InputOptions<'_>) -> Result<FoundSession, InputError> {
    let mut found = open_path(path, options)?;
    match (found.len(), found.pop()) {
        (1, Some(only)) => Ok(only),
        (_, None) => Err(InputError::NoSession { path: path.to_owned(), unrecognized: 0 }),
        (count, Some(last)) => {
            Err(InputError::Several { path: path.to_owned(), count, example: last.id.to_string() })
        }
    }
}

/// Says whether a folder holds the sessions of one agent as one unit.
pub fn is_container(folder: &Path) -> bool {
    agents::all().any(|row| row.recognize_folder(folder).is_some())
}

fn recognize_folder(path: &Path, options: &InputOptions<'_>) -> Result<Detection, InputError> {
    let found = agents::all().find_map(|row| row.recognize_folder(path));
    let mismatch = |format: Detection| InputError::Mismatch {
        path: path.to_owned(),
        format: format.format.name,
        reason: "it is a folder",
    };
    match (found, options.format) {
        (Some(found), None) => Ok(found),
        (Some(found), Some(said)) if found == said => Ok(found),
        (_, Some(said)) => Err(mismatch(said)),
        (None, None) => Err(InputError::NoSession { path: path.to_owned(), unrecognized: 0 }),
    }
}

fn recognize_file(path: &Path, options: &InputOptions<'_>) -> Result<Detection, InputError> {
    if path.metadata().is_ok_and(|it| !it.is_file()) {
        return Err(InputError::NotRegular { path: path.to_owned() });
    }
    let head = FileHead::read(path)?;
    let said = match options.format {
        Some(said) => said,
        None => return head.recognize(path, options.any),
    };
    let mismatch = |reason| {
        Err(InputError::Mismatch { path: path.to_owned(), format: said.format.name, reason })
    };
    match said.shape() {
        Shape::Folder => mismatch("it is a file"),
        Shape::Database | Shape::Opaque => Ok(said),
        _ if head.is_database() => mismatch("it is a SQLite database"),
        _ => Ok(said),
    }
}

/// The first bytes of a file.
pub(crate) struct FileHead {
    bytes: Vec<u8>,
    is_whole: bool,
}

impl FileHead {
    pub(crate) fn read(path: &Path) -> Result<Self, EngineError> {
        let read = File::open(path).and_then(|mut opened| read_head(&mut opened));
        let unreadable = |source| EngineError::File { path: path.to_owned(), source };
        let (bytes, is_whole) = read.map_err(unreadable)?;
        Ok(Self { bytes, is_whole })
    }

    pub(crate) fn head(&self) -> Head<'_> {
        Head { bytes: &self.bytes, is_whole: self.is_whole }
    }

    fn is_database(&self) -> bool {
        self.bytes.starts_with(b"SQLite format 3\0")
    }

    /// Recognizes a file. One that nobody recognizes is kept as it is, if its name says that it
    /// holds records.
    fn recognize(&self, path: &Path, any: bool) -> Result<Detection, InputError> {
        let path = || path.to_owned();
        match detect(&self.bytes) {
            Some(found) => Ok(found),
            None if any => Ok(Detection::unknown()),
            None if self.head().is_before_first_record() => {
                Err(InputError::NothingYet { path: path() })
            }
            None if self.head().is_text() => Ok(Detection::unknown()),
            None => Err(InputError::Unrecognized { path: path() }),
        }
    }
}

/// Detects the format of a file or a folder; nothing if nobody recognizes it.
pub fn detect_input(path: &Path) -> Result<Option<Detection>, EngineError> {
    if path.is_dir() {
        return Ok(agents::all().find_map(|row| row.recognize_folder(path)));
    }
    Ok(detect(&FileHead::read(path)?.bytes))
}

/// Says whether a file ends before its first record does: nothing shows yet what it will be.
pub fn has_nothing_yet(path: &Path) -> bool {
    path.is_file() && FileHead::read(path).is_ok_and(|it| it.head().is_before_first_record())
}

/// Reads until it can be recognized; says whether that is all there is.
pub(crate) fn read_head(reader: &mut dyn Read) -> io::Result<(Vec<u8>, bool)> {
    let mut head = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let count = match reader.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        head.extend_from_slice(&chunk[..count]);
        if count == 0 || head.len() >= HEAD_BYTES || is_enough(&head) {
            return Ok((head, count == 0));
        }
    }
}

/// Says whether a file is named as agents name what they store.
pub(crate) fn is_named_as_records(path: &Path) -> bool {
    path.extension().is_some_and(|it| ["jsonl", "json", "ndjson"].iter().any(|known| it == *known))
}

/// Returns the one file of a session, cut as its content asks for.
pub(crate) fn single_file(path: &Path, input: Detection) -> Result<InputFile, EngineError> {
    let form = match FileHead::read(path)?.may_be_document(input) && is_document_file(path, input)?
    {
        true => Form::Document,
        false => Form::Lines,
    };
    Ok(InputFile { spec: spec_of(path, input), path: path.to_owned(), form })
}

impl FileHead {
    fn may_be_document(&self, input: Detection) -> bool {
        may_be_document(input, &self.bytes)
    }
}

fn is_document_file(path: &Path, input: Detection) -> Result<bool, EngineError> {
    let unreadable = |source| EngineError::File { path: path.to_owned(), source };
    Ok(is_document(input, &fs::read(path).map_err(unreadable)?))
}

/// Returns the source that a file of this format is.
fn spec_of(path: &Path, input: Detection) -> SourceSpec {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    source_spec(input, name).at(place.to_string_lossy())
}

/// Returns the source that an input of this format is, under a name.
pub(crate) fn source_spec(input: Detection, name: impl Into<String>) -> SourceSpec {
    let role = match input.shape() {
        Shape::Stream => SourceRole::Stream,
        _ => SourceRole::Main,
    };
    match input.agent {
        Some(agent) => SourceSpec::new(agent, role, name),
        None => SourceSpec::of_events(name),
    }
}

/// Returns the id of the session that a file holds, and where the id comes from.
pub(crate) fn name_file(
    path: &Path,
    input: Detection,
    form: Form,
) -> Result<(SessionId, Naming), EngineError> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_transcript = input.shape() == Shape::Transcript;
    if is_transcript && input.agent.is_some_and(|agent| agent.is_session_name(&stem)) {
        return Ok((SessionId::from(&*stem), Naming::Agent));
    }
    let unreadable = |source| EngineError::File { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(unreadable)?;
    let named = name_reader(&mut file, input, form).map_err(unreadable)?;
    Ok(named)
}

/// Returns the id of the session in some bytes, and where the id comes from.
fn name_reader(
    reader: &mut dyn Read,
    input: Detection,
    form: Form,
) -> io::Result<(SessionId, Naming)> {
    let mut namer = SessionNamer::new(input);
    let mut first = Vec::new();
    if form == Form::Document {
        reader.read_to_end(&mut first)?;
        namer.push_document(input.agent.unwrap_or_else(Agent::unknown), &first);
    } else {
        let mut chunk = vec![0; 256 << 10];
        let mut needs_more = true;
        while needs_more {
            let count = match reader.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if count == 0 {
                break;
            }
            extend_first_record(&mut first, &chunk[..count]);
            needs_more = namer.push(&chunk[..count]);
        }
    }
    let told = namer.finish().map(|id| (id, Naming::Agent));
    Ok(told.unwrap_or_else(|| (content_name(input, &first), Naming::Content)))
}

/// Adds bytes to the first record, as far as it goes.
pub(crate) fn extend_first_record(first: &mut Vec<u8>, chunk: &[u8]) {
    let rest = match first.trim_ascii().is_empty() {
        true => {
            first.clear();
            chunk.trim_ascii_start()
        }
        false if first.ends_with(b"\n") => return,
        false => chunk,
    };
    let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
    first.extend_from_slice(&rest[..end]);
}

//! Opens a path that the user named: detects its sessions, agent and format.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use threadfold_core::SessionId;
use threadfold_fold::{
    Agent, Detection, HEAD_BYTES, InputHead, SessionNamer, Shape, SourceRole, SourceSpec,
    content_name, detect, is_document, is_enough, may_be_document,
};

use crate::agents;
use crate::discover::Discovery;
use crate::error::EngineError;
use crate::files::{Form, InputFile};
use crate::found_session::{FoundSession, IdOrigin};
use crate::packed::PlainReader;

/// What the user specified about a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct InputOptions<'a> {
    /// Its format; detected by content if absent.
    pub format: Option<Detection>,
    /// The session to read, if it contains several.
    pub session: Option<&'a str>,
    /// Accept unrecognized formats as well.
    pub any: bool,
}

/// Why a path cannot be read as sessions.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// Give a file: a pipe or a device may never end.
    #[error("`{}` is not a regular file", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// Retry when its first line is complete, or specify the format.
    #[error("`{}` has no complete record yet to detect its format from", path.display())]
    NothingYet {
        /// The path.
        path: PathBuf,
    },
    /// Specify the format, or accept the file as it is.
    #[error("`{}` is not in a format of a known agent or of Threadfold", path.display())]
    Unrecognized {
        /// The path.
        path: PathBuf,
    },
    /// Give a file of that format.
    #[error("`{}` is not in format `{format}`: {reason}", path.display())]
    Mismatch {
        /// The path.
        path: PathBuf,
        /// The format that was specified.
        format: &'static str,
        /// What it actually is.
        reason: &'static str,
    },
    /// List the sessions that exist.
    #[error("there is no session in `{}`", path.display())]
    NoSession {
        /// The path.
        path: PathBuf,
        /// How many files were skipped because their format is unrecognized.
        unrecognized: usize,
    },
    /// Name an existing session.
    #[error("session `{session}` is not in `{}`", path.display())]
    Missing {
        /// The path.
        path: PathBuf,
        /// The session that was requested.
        session: String,
    },
    /// Specify one of them.
    #[error("there are {count} sessions in `{}`", path.display())]
    Several {
        /// The path.
        path: PathBuf,
        /// How many there are.
        count: usize,
        /// An example id.
        example: String,
    },
    /// Give the path of one of them.
    #[error("there are {} sessions in `{}`: {}", names.len(), path.display(), listed(names))]
    SeveralFiles {
        /// The folder.
        path: PathBuf,
        /// Their ids, or their paths if those are not unique.
        names: Vec<String>,
    },
    /// Omit the session.
    #[error("`{}` contains only one session, but a session was specified", path.display())]
    OneSession {
        /// The path.
        path: PathBuf,
    },
    /// Give the address of a server.
    #[error("`{address}` is not the address of a known agent's server")]
    Address {
        /// The address.
        address: String,
        /// The reason.
        reason: String,
    },
    /// See [`EngineError`].
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Opens a path that contains one or more sessions.
///
/// A folder that is not one agent's container is refused here; see
/// [`Discovery::of_folder`](crate::Discovery::of_folder).
pub fn open_path(path: &Path, options: &InputOptions<'_>) -> Result<Vec<FoundSession>, InputError> {
    let input = match path.is_dir() {
        true => recognize_folder(path, options)?,
        false => recognize_file(path, options)?,
    };
    let opened = agents::of(input.agent).open(path, input, options);
    match opened {
        // With `any`, a file that its agent's module cannot read is still stored as it is.
        Err(_) if options.any && options.format.is_none() && path.is_file() => {
            let input = Detection::unknown();
            agents::of(input.agent).open(path, input, options)
        }
        opened => opened,
    }
}

/// Opens a path that contains one session, or of which one is specified. The path may be a folder,
/// as [`Discovery::of_folder`](crate::Discovery::of_folder) reads it.
pub fn open_one(path: &Path, options: &InputOptions<'_>) -> Result<FoundSession, InputError> {
    if path.is_dir() && options.format.is_none() && !is_container(path) {
        return only_session_of(path, options);
    }
    let mut found = open_path(path, options)?;
    match (found.len(), found.pop()) {
        (1, Some(only)) => Ok(only),
        (_, None) => Err(InputError::NoSession { path: path.to_owned(), unrecognized: 0 }),
        (count, Some(last)) => {
            Err(InputError::Several { path: path.to_owned(), count, example: last.id.to_string() })
        }
    }
}

fn only_session_of(folder: &Path, options: &InputOptions<'_>) -> Result<FoundSession, InputError> {
    let path = || folder.to_owned();
    let Discovery { mut sessions, mut refused, unrecognized, .. } =
        Discovery::of_folder(folder, &InputOptions { session: None, ..*options });
    if let Some(wanted) = options.session {
        sessions.retain(|it| it.id.as_str() == wanted);
        if sessions.is_empty() {
            return Err(InputError::Missing { path: path(), session: wanted.to_owned() });
        }
    }
    match sessions.pop() {
        Some(only) if sessions.is_empty() => Ok(only),
        Some(last) => {
            sessions.push(last);
            Err(InputError::SeveralFiles { path: path(), names: names_of(&sessions) })
        }
        // Why its only file was refused is more than that there is no session.
        None => match (refused.pop(), refused.is_empty()) {
            (Some((_, error)), true) => Err(error),
            _ => Err(InputError::NoSession { path: path(), unrecognized: unrecognized.len() }),
        },
    }
}

/// Returns the ids of sessions; their paths, if ids made of content are equal.
fn names_of(sessions: &[FoundSession]) -> Vec<String> {
    let ids: BTreeSet<&str> = sessions.iter().map(|it| it.id.as_str()).collect();
    let name = |it: &FoundSession| match ids.len() == sessions.len() {
        true => it.id.to_string(),
        false => it.place.display().to_string(),
    };
    sessions.iter().map(name).collect()
}

/// How many names an error lists.
const MAX_LISTED: usize = 8;

fn listed(names: &[String]) -> String {
    let first: Vec<_> = names.iter().take(MAX_LISTED).map(|it| format!("`{it}`")).collect();
    let more = names.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    first.join(", ") + &more
}

/// Returns whether a folder is one agent's container of sessions.
pub fn is_container(folder: &Path) -> bool {
    agents::all().any(|row| row.recognize_folder(folder).is_some())
}

/// Detects the format of a file.
pub(crate) fn recognize(path: &Path) -> Result<Detection, InputError> {
    recognize_file(path, &InputOptions::default())
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
        (Some(found), Some(requested)) if found == requested => Ok(found),
        (_, Some(requested)) => Err(mismatch(requested)),
        (None, None) => Err(InputError::NoSession { path: path.to_owned(), unrecognized: 0 }),
    }
}

fn recognize_file(path: &Path, options: &InputOptions<'_>) -> Result<Detection, InputError> {
    if path.metadata().is_ok_and(|it| !it.is_file()) {
        return Err(InputError::NotRegular { path: path.to_owned() });
    }
    let head = FileHead::read(path)?;
    let requested = match options.format {
        Some(requested) => requested,
        None => return head.recognize(path, options.any),
    };
    let mismatch = |reason| {
        Err(InputError::Mismatch { path: path.to_owned(), format: requested.format.name, reason })
    };
    match requested.shape() {
        Shape::Folder => mismatch("it is a file"),
        _ if head.is_packed && !may_be_packed(requested) => mismatch("it is compressed"),
        Shape::Database | Shape::Opaque => Ok(requested),
        _ if head.is_database() => mismatch("it is a SQLite database"),
        _ => Ok(requested),
    }
}

/// The first bytes of a file.
pub(crate) struct FileHead {
    /// Decompressed, if the file is compressed.
    bytes: Vec<u8>,
    is_complete: bool,
    is_packed: bool,
}

impl FileHead {
    pub(crate) fn read(path: &Path) -> Result<Self, EngineError> {
        let unreadable = |source| EngineError::File { path: path.to_owned(), source };
        let mut plain = PlainReader::new(File::open(path).map_err(unreadable)?);
        let read = read_head(&mut plain);
        let is_packed = plain.state().is_packed();
        match read {
            // Nothing of it can be decompressed.
            Err(_) if is_packed => Ok(Self { bytes: Vec::new(), is_complete: true, is_packed }),
            read => {
                let (bytes, is_complete) = read.map_err(unreadable)?;
                Ok(Self { bytes, is_complete, is_packed })
            }
        }
    }

    /// Detects the format. A compressed file is accepted where its agent compresses such files.
    fn detect(&self) -> Option<Detection> {
        detect(&self.bytes).filter(|it| !self.is_packed || may_be_packed(*it))
    }

    pub(crate) fn head(&self) -> InputHead<'_> {
        InputHead { bytes: &self.bytes, is_complete: self.is_complete }
    }

    fn is_database(&self) -> bool {
        self.bytes.starts_with(b"SQLite format 3\0")
    }

    /// Detects a file's format. An unrecognized file is accepted line by line if it is text.
    fn recognize(&self, path: &Path, any: bool) -> Result<Detection, InputError> {
        let path = || path.to_owned();
        match self.detect() {
            Some(found) => Ok(found),
            // Nothing is not a session, whatever the user asks for.
            None if !self.is_packed && self.head().is_before_first_record() => {
                Err(InputError::NothingYet { path: path() })
            }
            None if any => Ok(Detection::unknown()),
            None if self.is_packed => Err(InputError::Unrecognized { path: path() }),
            None if self.head().is_text() => Ok(Detection::unknown()),
            None => Err(InputError::Unrecognized { path: path() }),
        }
    }
}

/// Detects the format of a file or a folder; `None` if it is unrecognized.
pub fn detect_input(path: &Path) -> Result<Option<Detection>, EngineError> {
    if path.is_dir() {
        return Ok(agents::all().find_map(|row| row.recognize_folder(path)));
    }
    Ok(FileHead::read(path)?.detect())
}

/// Returns whether an agent may compress its files of this format.
pub(crate) fn may_be_packed(input: Detection) -> bool {
    agents::of(input.agent).packs(input)
}

/// Returns whether a file is compressed.
pub(crate) fn is_packed_file(path: &Path) -> Result<bool, EngineError> {
    Ok(FileHead::read(path)?.is_packed)
}

/// Returns whether a file ends before its first record is complete, so that its format is unknown.
pub fn has_nothing_yet(path: &Path) -> bool {
    let is_before = |it: FileHead| !it.is_packed && it.head().is_before_first_record();
    path.is_file() && FileHead::read(path).is_ok_and(is_before)
}

/// Reads until the format can be detected; returns whether the end was reached.
pub(crate) fn read_head(reader: &mut dyn Read) -> io::Result<(Vec<u8>, bool)> {
    let mut head = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let count = match reader.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        let is_first = head.is_empty();
        head.extend_from_slice(&chunk[..count]);
        // Only a line end can complete a record. To look at a long line again for every chunk of it
        // would cost the square of its length.
        let may_be_enough = is_first || chunk[..count].contains(&b'\n');
        let is_over = count == 0 || head.len() >= HEAD_BYTES;
        if is_over || (may_be_enough && is_enough(&head)) {
            return Ok((head, count == 0));
        }
    }
}

/// Returns whether a file has an extension that agents use.
pub(crate) fn is_named_as_records(path: &Path) -> bool {
    path.extension().is_some_and(|it| ["jsonl", "json", "ndjson"].iter().any(|known| it == *known))
}

/// Returns the only file of a session, split as its content requires.
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

/// Returns the source for a file of this format.
fn spec_of(path: &Path, input: Detection) -> SourceSpec {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    source_spec(input, name).at(place.to_string_lossy())
}

/// Returns the source for an input of this format, under a name.
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

/// Returns the id of the session in a file, and where the id comes from.
pub(crate) fn name_file(
    path: &Path,
    input: Detection,
    form: Form,
) -> Result<(SessionId, IdOrigin), EngineError> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_transcript = input.shape() == Shape::Transcript;
    if is_transcript && input.agent.is_some_and(|agent| agent.is_session_name(&stem)) {
        return Ok((SessionId::from(&*stem), IdOrigin::Agent));
    }
    let unreadable = |source| EngineError::File { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(unreadable)?;
    let named = name_reader(&mut file, input, form).map_err(unreadable)?;
    Ok(named)
}

/// Returns the id of the session in a compressed file of lines, and where the id comes from.
pub(crate) fn name_packed(
    path: &Path,
    input: Detection,
) -> Result<(SessionId, IdOrigin), EngineError> {
    let unreadable = |source| EngineError::File { path: path.to_owned(), source };
    let mut plain = PlainReader::new(File::open(path).map_err(unreadable)?);
    name_reader(&mut plain, input, Form::Lines).map_err(unreadable)
}

/// Returns the id of the session in some bytes, and where the id comes from.
fn name_reader(
    reader: &mut dyn Read,
    input: Detection,
    form: Form,
) -> io::Result<(SessionId, IdOrigin)> {
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
    let own_id = namer.finish().map(IdOrigin::of);
    Ok(own_id.unwrap_or_else(|| (content_name(input, &first), IdOrigin::Content)))
}

/// Appends bytes to the first record, up to its end.
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

//! Where a session comes from: what an agent streams, what it keeps, or events of ours.

mod detect;
mod feeding;
mod files;
mod opencode_db;
mod opencode_shelf;
mod opencode_storage;

use std::fs;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::anyhow;
use clap::ValueEnum;
use threadfold_convert::{Agent, Feed, FeedKind, Unpacked, unpack};
use threadfold_core::SessionId;

use crate::error::CommandError;
use detect::{detect, holds_records, is_before_first, is_sqlite, packing, read_head, recognize};
use feeding::Feeding;
use opencode_shelf::EachRecord;

pub(crate) use feeding::{Each, converter_of};
pub(crate) use files::subagents_of;
pub(crate) use opencode_db::Database;
pub(crate) use opencode_shelf::{SessionRow, Shelf, ShelfFile};
pub(crate) use opencode_storage::Storage;

/// What the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// What Claude Code or the Agent SDK streams (stream-json)
    ClaudeStream,
    /// What Claude Code keeps of a session (JSONL)
    ClaudeTranscript,
    /// What OpenCode's bus says (`/event`, `/global/event`), as server-sent events or as JSON
    OpencodeEvents,
    /// What `opencode export` prints, or messages of OpenCode's API
    OpencodeExport,
    /// OpenCode's database (SQLite); it is only read, also while OpenCode runs
    OpencodeDb,
    /// The folder `storage` of files that OpenCode kept up to 1.1
    OpencodeStorage,
    /// Threadfold's own events, one a line
    Events,
    /// Anything else: every line is kept, and shown as it is
    Other,
}

impl Format {
    /// Returns whose form it is; nobody's if the events are ours.
    pub(crate) fn agent(self) -> Option<Agent> {
        match self {
            Self::ClaudeStream | Self::ClaudeTranscript => Some(Agent::Claude),
            Self::OpencodeEvents
            | Self::OpencodeExport
            | Self::OpencodeDb
            | Self::OpencodeStorage => Some(Agent::Opencode),
            Self::Events => None,
            Self::Other => Some(Agent::Other),
        }
    }

    fn feed_kind(self) -> FeedKind {
        match self {
            Self::ClaudeStream | Self::OpencodeEvents => FeedKind::Stream,
            _ => FeedKind::Main,
        }
    }
}

/// An opened input whose beginning was looked at.
pub(crate) struct Opened {
    pub(crate) name: String,
    pub(crate) path: Option<PathBuf>,
    pub(crate) reader: Box<dyn Read + Send>,
    pub(crate) format: Format,
    /// The session that is wanted, where the input may hold several.
    pub(crate) session: Option<String>,
    /// It opens as a session in one piece does.
    pub(crate) packed: bool,
    /// Neither its beginning nor anybody else tells what it is.
    pub(crate) is_guessed: bool,
    /// What holds the session with others, where that is open already.
    shelf: Option<Rc<dyn Shelf>>,
}

/// Opens a file, or standard input for `-` or nothing, and finds out what it is.
pub(crate) fn open(file: Option<&Path>, said: Option<Format>) -> Result<Opened, CommandError> {
    let path = file.filter(|path| *path != Path::new("-")).map(Path::to_owned);
    if let Some(folder) = path.as_deref().filter(|path| path.is_dir()) {
        return open_folder(folder, said);
    }
    let (name, mut reader): (String, Box<dyn Read + Send>) = match &path {
        Some(path) => {
            let name = format!("`{}`", path.display());
            let opened = fs::File::open(path).map_err(|error| unreadable(&name, error))?;
            (name, Box::new(opened))
        }
        None if file.is_none() && io::IsTerminal::is_terminal(&io::stdin()) => {
            return Err(CommandError::new(
                anyhow!("no file was given, and standard input is a terminal"),
                "give a file, pipe one in, or say `-` to type lines",
            ));
        }
        None => ("standard input".to_owned(), Box::new(io::stdin())),
    };
    let head = read_head(reader.as_mut()).map_err(|error| unreadable(&name, error))?;
    let packed = packing(&head).is_some();
    let is_guessed = said.is_none() && recognize(&head).is_none() && holds_records(&head);
    let format = said.unwrap_or_else(|| detect(&head));
    if format == Format::OpencodeStorage {
        return Err(CommandError::new(
            anyhow!("{name} is no folder, and `--from` says that it is one"),
            "give the folder `storage`",
        ));
    }
    if is_sqlite(&head) && !matches!(format, Format::OpencodeDb | Format::Other) {
        return Err(CommandError::new(
            anyhow!("{name} is a SQLite database, and `--from` says that it is something else"),
            "`--from opencode-db` reads OpenCode's database",
        ));
    }
    let reader = Box::new(Cursor::new(head).chain(reader));
    Ok(Opened { name, path, reader, format, session: None, packed, is_guessed, shelf: None })
}

/// Finds out what a file is; nothing if it does not tell.
pub(crate) fn recognize_file(path: &Path) -> Result<Option<Format>, CommandError> {
    Ok(recognize(&head_of(path)?))
}

/// Says whether a file holds records, and those of no agent that is known.
pub(crate) fn is_of_another(path: &Path) -> bool {
    head_of(path).is_ok_and(|head| recognize(&head).is_none() && holds_records(&head))
}

/// Says whether a file ends before its first record does: nothing tells yet what it will be.
pub(crate) fn has_nothing_yet(path: &Path) -> bool {
    path.is_file() && head_of(path).is_ok_and(|head| is_before_first(&head))
}

fn head_of(path: &Path) -> Result<Vec<u8>, CommandError> {
    let read = fs::File::open(path).and_then(|mut opened| read_head(&mut opened));
    read.map_err(|error| unreadable(&format!("`{}`", path.display()), error))
}

/// Opens a folder that holds sessions of OpenCode's.
fn open_folder(folder: &Path, said: Option<Format>) -> Result<Opened, CommandError> {
    let cause = match said {
        None | Some(Format::OpencodeStorage) if Storage::is_one(folder) => None,
        None => Some(anyhow!("it is a folder, and not one that OpenCode keeps sessions in")),
        Some(_) => Some(anyhow!("it is a folder")),
    };
    if let Some(cause) = cause {
        return Err(CommandError::new(
            cause.context(format!("`{}` cannot be read", folder.display())),
            "give a file, or the folder `storage` of OpenCode up to 1.1",
        ));
    }
    Ok(Opened::on_shelf(Rc::new(Storage::open(folder)), folder))
}

impl Opened {
    /// Returns something that stands on a shelf, in `place`.
    pub(crate) fn on_shelf(shelf: Rc<dyn Shelf>, place: &Path) -> Self {
        Self {
            name: format!("`{}`", place.display()),
            path: Some(place.to_owned()),
            reader: Box::new(io::empty()),
            format: shelf.format(),
            session: None,
            packed: false,
            is_guessed: false,
            shelf: Some(shelf),
        }
    }

    /// Names the session that is wanted. Files of Claude Code hold one, and have no say in it.
    pub(crate) fn of_session(mut self, session: Option<&str>) -> Result<Self, CommandError> {
        if session.is_some() && self.format.agent() != Some(Agent::Opencode) {
            return Err(CommandError::new(
                anyhow!(
                    "{} is not OpenCode's, and `--session` is for what may hold several",
                    self.name
                ),
                "leave `--session` out",
            ));
        }
        self.session = session.map(str::to_owned);
        Ok(self)
    }

    /// Returns the first session that it tells of.
    pub(crate) fn first_session(self) -> Result<Option<SessionId>, CommandError> {
        let mut found = None;
        let told = self.convert(&mut |_, event| {
            found = event.context.session_id.clone();
            // An answer that is found ends the search.
            if found.is_some() { Err(CommandError::No) } else { Ok(()) }
        });
        match told {
            Err(CommandError::No) | Ok(()) => Ok(found),
            Err(error) => Err(error),
        }
    }

    /// Converts all of it, and hands on each event with the line it came from.
    pub(crate) fn convert<'a>(self, each: &'a mut Each<'a>) -> Result<(), CommandError> {
        convert_together(vec![self], each)
    }

    fn feed(mut self, feeding: &mut Feeding<'_>) -> Result<(), CommandError> {
        match self.format {
            Format::OpencodeDb | Format::OpencodeStorage => self.feed_shelf(feeding),
            Format::OpencodeExport | Format::Other => {
                let bytes = self.read_all()?;
                let agent = self.format.agent().unwrap_or(Agent::Other);
                let feed = Feed::new(agent, FeedKind::Main, &self.place());
                if !is_one_document(&bytes) {
                    return feeding.all(FeedKind::Main, &self.place(), &mut Cursor::new(bytes));
                }
                feeding.record(&feed, 1, &bytes)?;
                feeding.finish(&feed)
            }
            _ => self.feed_lines(feeding),
        }
    }

    fn feed_shelf(&self, feeding: &mut Feeding<'_>) -> Result<(), CommandError> {
        let feed = Feed::new(Agent::Opencode, FeedKind::Main, &self.place());
        let mut number = 0;
        self.each_record(&mut |record| {
            number += 1;
            feeding.record(&feed, number, record)
        })?;
        feeding.finish(&feed)
    }

    fn each_record(&self, each: &mut EachRecord<'_>) -> Result<(), CommandError> {
        let shelf = match (&self.shelf, &self.path) {
            (Some(shelf), _) => shelf.clone(),
            (None, Some(path)) => Rc::new(Database::open(path)?),
            (None, None) => {
                return Err(CommandError::new(
                    anyhow!("a database cannot be read from standard input"),
                    "give its path",
                ));
            }
        };
        let session = match &self.session {
            Some(session) => session.clone(),
            None => shelf.only_session()?,
        };
        shelf.read(&session, each)
    }

    fn feed_lines(&mut self, feeding: &mut Feeding<'_>) -> Result<(), CommandError> {
        let kind = self.format.feed_kind();
        if self.packed {
            let bytes = self.read_all()?;
            match unpack(&bytes) {
                Some(Unpacked::Lines(lines)) => {
                    return feeding.all(kind, &self.name, &mut Cursor::new(lines));
                }
                Some(Unpacked::Files(files)) => return feeding.files(files),
                None => self.reader = Box::new(Cursor::new(bytes)),
            }
        }
        let found = match (&self.path, self.format) {
            (Some(path), Format::ClaudeTranscript) => subagents_of(path)?,
            _ => Vec::new(),
        };
        for (kind, path) in
            found.iter().filter(|(kind, _)| matches!(kind, FeedKind::SubagentMeta(_)))
        {
            feeding.note(kind.clone(), path)?;
        }
        feeding.all(kind, &self.place(), self.reader.as_mut())?;
        for (kind, path) in found.iter().filter(|(kind, _)| matches!(kind, FeedKind::Subagent(_))) {
            let name = format!("`{}`", path.display());
            let mut file = fs::File::open(path).map_err(|error| unreadable(&name, error))?;
            feeding.all(kind.clone(), &path.to_string_lossy(), &mut file)?;
        }
        Ok(())
    }

    /// Returns the files that it is, with their content: what stands on a shelf as lines.
    pub(crate) fn into_files(mut self) -> Result<Vec<(String, Vec<u8>)>, CommandError> {
        if matches!(self.format, Format::OpencodeDb | Format::OpencodeStorage) {
            let mut lines = Vec::new();
            self.each_record(&mut |record| {
                // A record may be written over several lines; JSON has no line ends inside strings.
                let one_line = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
                lines.extend(record.iter().map(one_line));
                lines.push(b'\n');
                Ok(())
            })?;
            return Ok(vec![(self.place(), lines)]);
        }
        let mut bytes = self.read_all()?;
        if let Some(Unpacked::Lines(lines)) =
            unpack(&bytes).filter(|_| self.packed && self.format == Format::OpencodeEvents)
        {
            bytes = lines;
        }
        let mut files = vec![(self.place(), bytes)];
        if let (Some(path), Format::ClaudeTranscript) = (&self.path, self.format) {
            for (_, path) in subagents_of(path)? {
                let name = format!("`{}`", path.display());
                let bytes = fs::read(&path).map_err(|error| unreadable(&name, error))?;
                files.push((path.to_string_lossy().into_owned(), bytes));
            }
        }
        Ok(files)
    }

    fn read_all(&mut self) -> Result<Vec<u8>, CommandError> {
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes).map_err(|error| unreadable(&self.name, error))?;
        Ok(bytes)
    }

    /// Returns what its records are said to come from.
    fn place(&self) -> String {
        self.path.as_ref().map_or("-".into(), |path| path.to_string_lossy().into_owned())
    }
}

/// Converts the sources of one session, one after another, and hands on each event with the line
/// it came from.
pub(crate) fn convert_together<'a>(
    sources: Vec<Opened>,
    each: &'a mut Each<'a>,
) -> Result<(), CommandError> {
    let Some(first) = sources.first() else { return Ok(()) };
    let agent = first.format.agent().unwrap_or(Agent::Claude);
    let name = first.name.clone();
    let session = sources.iter().find_map(|it| it.session.clone());
    let mut feeding = Feeding::new(agent, session, each);
    for source in sources {
        source.feed(&mut feeding)?;
    }
    feeding.end(&name)
}

/// Says whether a file is one document, however many lines it has.
fn is_one_document(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    serde_json::from_slice::<&serde_json::value::RawValue>(bytes).is_ok()
}

fn unreadable(name: &str, error: io::Error) -> CommandError {
    CommandError::new(
        anyhow::Error::new(error).context(format!("{name} cannot be read")),
        "give a stream, a transcript or a file of events, or `-` for standard input",
    )
}

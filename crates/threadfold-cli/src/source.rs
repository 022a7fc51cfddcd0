//! Where a session comes from: a stream, a transcript with its subagents' files, or events.

use std::fs;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::ValueEnum;
use serde::Deserialize;
use threadfold_convert::claude::layout::{belongs_to, sessions};
use threadfold_convert::lines::{LineBuffer, LineOrLoss, lines};
use threadfold_convert::{
    Agent, Converter, Feed, FeedKind, Record, TooLong, Unpacked, converter, unpack,
};
use threadfold_core::SessionEvent;

use crate::error::CommandError;

/// What the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// What Claude Code or the Agent SDK streams (stream-json)
    ClaudeStream,
    /// What Claude Code keeps of a session (JSONL)
    ClaudeTranscript,
    /// Threadfold's own events, one a line
    Events,
}

/// An opened input whose beginning was looked at.
pub(crate) struct Opened {
    pub(crate) name: String,
    pub(crate) path: Option<PathBuf>,
    pub(crate) reader: Box<dyn Read>,
    pub(crate) format: Format,
    /// The whole session stands in one piece.
    packed: bool,
}

/// How much of an input is looked at to find out what it is.
const HEAD: usize = 1 << 20;

/// Opens a file, or standard input for `-` or nothing, and finds out what it is.
pub(crate) fn open(file: Option<&Path>, said: Option<Format>) -> Result<Opened, CommandError> {
    let path = file.filter(|path| *path != Path::new("-")).map(Path::to_owned);
    let (name, mut reader): (String, Box<dyn Read>) = match &path {
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
    let format = said.unwrap_or_else(|| detect(&head));
    let reader = Box::new(Cursor::new(head).chain(reader));
    Ok(Opened { name, path, reader, format, packed })
}

/// Reads until a whole line is there that says something.
fn read_head(reader: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let count = match reader.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        head.extend_from_slice(&chunk[..count]);
        let told =
            head.iter().filter(|byte| **byte == b'\n').count() > 0 && lines(&head).next().is_some();
        if count == 0 || told || head.len() >= HEAD {
            return Ok(head);
        }
    }
}

/// What tells formats apart.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Marks {
    #[serde(rename = "type")]
    kind: Option<serde_json::Value>,
    payload: Option<serde::de::IgnoredAny>,
    context: Option<serde::de::IgnoredAny>,
    #[serde(rename = "sessionId")]
    file_session: Option<serde::de::IgnoredAny>,
    session_id: Option<serde::de::IgnoredAny>,
}

/// Finds out what the lines are.
fn detect(head: &[u8]) -> Format {
    for line in lines(head).take(20) {
        let Ok(marks) = serde_json::from_slice::<Marks>(line.bytes) else { continue };
        let kind = marks.kind.as_ref().and_then(serde_json::Value::as_str).unwrap_or("");
        if marks.payload.is_some() || marks.context.is_some() || kind.contains(':') {
            return Format::Events;
        }
        if matches!(kind, "stream_event" | "result" | "control_response" | "control_request") {
            return Format::ClaudeStream;
        }
        if marks.file_session.is_some() {
            return Format::ClaudeTranscript;
        }
        if marks.session_id.is_some() {
            return Format::ClaudeStream;
        }
        if ["user", "assistant", "summary", "file-history-snapshot"].contains(&kind) {
            return Format::ClaudeTranscript;
        }
    }
    match packing(head) {
        Some('[') => Format::ClaudeStream,
        Some(_) => Format::ClaudeTranscript,
        None => Format::Events,
    }
}

/// Returns how the input opens if it may be a session in one piece: a list of records, or an
/// object that holds all transcripts.
fn packing(head: &[u8]) -> Option<char> {
    let text = String::from_utf8_lossy(&head[..head.len().min(4096)]);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let (first, wanted) = match text.chars().next()? {
        '[' => ('[', "{"),
        '{' => ('{', "\"main\""),
        _ => return None,
    };
    text[1..].trim_start().starts_with(wanted).then_some(first)
}

impl Opened {
    /// Converts all of it, and hands on each event with the line it came from.
    pub(crate) fn convert(
        mut self,
        each: &mut dyn FnMut(u64, &SessionEvent) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let mut feeding = Feeding { converter: converter(Agent::Claude), each, failed: None };
        let kind = match self.format {
            Format::ClaudeStream => FeedKind::Stream,
            _ => FeedKind::Main,
        };
        if self.packed {
            let mut bytes = Vec::new();
            self.reader.read_to_end(&mut bytes).map_err(|error| unreadable(&self.name, error))?;
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
        let name = self.path.as_ref().map_or("-".into(), |path| path.to_string_lossy());
        feeding.all(kind, &name, self.reader.as_mut())?;
        for (kind, path) in found.iter().filter(|(kind, _)| matches!(kind, FeedKind::Subagent(_))) {
            let name = format!("`{}`", path.display());
            let mut file = fs::File::open(path).map_err(|error| unreadable(&name, error))?;
            feeding.all(kind.clone(), &path.to_string_lossy(), &mut file)?;
        }
        Ok(())
    }
}

/// Bytes on their way through a converter.
struct Feeding<'a> {
    converter: Box<dyn Converter>,
    each: &'a mut dyn FnMut(u64, &SessionEvent) -> Result<(), CommandError>,
    failed: Option<CommandError>,
}

impl Feeding<'_> {
    fn all(
        &mut self,
        kind: FeedKind,
        name: &str,
        reader: &mut dyn Read,
    ) -> Result<(), CommandError> {
        let feed = Feed::new(Agent::Claude, kind, name);
        let mut buffer = LineBuffer::default();
        let mut chunk = vec![0; 256 * 1024];
        let mut events = Vec::new();
        loop {
            let count = match reader.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(|error| unreadable(name, error))?,
            };
            if count == 0 {
                break;
            }
            buffer.push(&chunk[..count], |line| self.line(&feed, line, &mut events));
            self.failed.take().map_or(Ok(()), Err)?;
        }
        buffer.finish(|line| self.line(&feed, line, &mut events));
        self.failed.take().map_or(Ok(()), Err)?;
        self.converter.finish(&feed, &mut events);
        self.hand_on(0, &mut events);
        self.failed.take().map_or(Ok(()), Err)
    }

    fn line(&mut self, feed: &Feed, line: LineOrLoss<'_>, events: &mut Vec<SessionEvent>) {
        if self.failed.is_some() {
            return;
        }
        let number = match line {
            LineOrLoss::Line(line) => {
                let record = Record { feed, line: line.number, bytes: line.bytes };
                self.converter.push(&record, events);
                line.number
            }
            LineOrLoss::TooLong { number, length, head, .. } => {
                self.converter.too_long(&TooLong { feed, line: number, length, head }, events);
                number
            }
        };
        self.hand_on(number, events);
    }

    fn hand_on(&mut self, line: u64, events: &mut Vec<SessionEvent>) {
        for event in events.drain(..) {
            if self.failed.is_none() {
                self.failed = (self.each)(line, &event).err();
            }
        }
    }

    fn note(&mut self, kind: FeedKind, path: &Path) -> Result<(), CommandError> {
        let name = format!("`{}`", path.display());
        let bytes = fs::read(path).map_err(|error| unreadable(&name, error))?;
        let feed = Feed::new(Agent::Claude, kind, &path.to_string_lossy());
        let mut events = Vec::new();
        self.converter.push(&Record { feed: &feed, line: 1, bytes: &bytes }, &mut events);
        self.hand_on(1, &mut events);
        self.failed.take().map_or(Ok(()), Err)
    }

    fn files(&mut self, files: Vec<(String, Vec<u8>)>) -> Result<(), CommandError> {
        for (name, bytes) in files {
            let agent = name.strip_prefix("agent-").and_then(|rest| rest.strip_suffix(".jsonl"));
            let kind = agent.map_or(FeedKind::Main, |agent| FeedKind::Subagent(agent.into()));
            self.all(kind, &name, &mut Cursor::new(bytes))?;
        }
        Ok(())
    }
}

/// Finds the files of a session's subagents, beside the main file and below its folder.
pub(crate) fn subagents_of(main: &Path) -> Result<Vec<(FeedKind, PathBuf)>, CommandError> {
    let folder = match main.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let Some(stem) = main.file_stem() else { return Ok(Vec::new()) };
    let mut paths = vec![main.to_path_buf()];
    list(&folder, Depth::Here, &mut paths);
    list(&folder.join(stem).join("subagents"), Depth::All, &mut paths);
    let names: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let main_name = main.to_string_lossy();
    let session = sessions(&names).into_iter().find(|it| *it.main == *main_name.replace('\\', "/"));
    let mut found = Vec::new();
    for file in session
        .into_iter()
        .flat_map(|it| it.subagents.into_iter().map(move |file| (it.session.clone(), file)))
    {
        let (session, file) = file;
        let path = PathBuf::from(&file.path);
        let mut first = vec![0; 64 * 1024];
        let count = fs::File::open(&path)
            .and_then(|mut opened| opened.read(&mut first))
            .map_err(|error| unreadable(&format!("`{}`", path.display()), error))?;
        let beside = path.parent() == Some(folder.as_path());
        let first_line = lines(&first[..count]).next().map(|line| line.bytes.to_vec());
        if beside && first_line.is_some_and(|line| !belongs_to(&line, &session)) {
            continue;
        }
        if let Some(meta) = file.meta {
            found.push((FeedKind::SubagentMeta(file.agent.clone()), PathBuf::from(meta)));
        }
        found.push((FeedKind::Subagent(file.agent), path));
    }
    Ok(found)
}

/// How far down files are looked for.
#[derive(Clone, Copy)]
enum Depth {
    Here,
    All,
}

fn list(folder: &Path, depth: Depth, paths: &mut Vec<PathBuf>) {
    // A folder that is not there holds no subagents.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        match (depth, path.is_dir()) {
            (Depth::All, true) => list(&path, depth, paths),
            (_, false)
                if path
                    .file_name()
                    .is_some_and(|it| it.to_string_lossy().starts_with("agent-")) =>
            {
                paths.push(path);
            }
            _ => {}
        }
    }
}

fn unreadable(name: &str, error: io::Error) -> CommandError {
    CommandError::new(
        anyhow::Error::new(error).context(format!("{name} cannot be read")),
        "give a stream, a transcript or a file of events, or `-` for standard input",
    )
}

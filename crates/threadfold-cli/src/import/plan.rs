//! What is to be imported: which sessions a name, a file or a folder stands for, and the files of
//! each.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::anyhow;
use serde::Deserialize;
use serde::de::IgnoredAny;
use threadfold_convert::lines::lines;
use threadfold_convert::{Agent, unpack};
use threadfold_engine::{EngineError, Form, InputFile, SourceSpec, SpecKind, claude_files};

use super::folder::orphans_below;
use crate::error::CommandError;
use crate::sessions::{FoundSession, Given, Kept, Sessions, claude_session, find_given};
use crate::source::{Database, Format, Shelf, Storage, has_nothing_yet, open, recognize_file};

/// A session that is to be imported.
pub(crate) struct Planned {
    /// The name that it has in the store.
    pub(crate) id: String,
    /// The agent calls it so; if not, its file does.
    pub(crate) is_told: bool,
    pub(crate) agent: Option<Agent>,
    /// Where it lies.
    pub(crate) place: PathBuf,
    pub(crate) content: Content,
    /// The session that made it, for an export of a child.
    parent: Option<String>,
}

/// Where its records come from.
pub(crate) enum Content {
    Files(Vec<InputFile>),
    /// A place that holds others as well.
    Shelf(Rc<dyn Shelf>),
}

/// Something that is to be imported, or why it cannot be.
pub(crate) struct Task {
    /// What it is called in messages.
    pub(crate) name: String,
    pub(crate) planned: Result<Planned, CommandError>,
}

/// Finds out what is meant.
#[derive(Clone, Copy, Default)]
pub(crate) struct Planner<'a> {
    pub(crate) from: Option<Format>,
    pub(crate) session: Option<&'a str>,
    /// Takes what nobody knows, too, whatever it is.
    pub(crate) any: bool,
}

impl Planned {
    /// Returns how many bytes lie there, about.
    pub(crate) fn size(&self) -> u64 {
        let length = |path: &Path| path.metadata().map_or(0, |it| it.len());
        match &self.content {
            Content::Files(files) => files.iter().map(|it| length(&it.path)).sum(),
            Content::Shelf(shelf) => match shelf.files(&self.id) {
                Ok(Some(files)) => files.iter().map(|it| length(&it.path)).sum(),
                _ => 0,
            },
        }
    }
}

impl Task {
    /// Plans a session that was found in an agent's folder.
    pub(crate) fn of_found(found: &FoundSession) -> Self {
        let (id, place) = (found.id.clone(), found.main.clone());
        let is_told = found.is_told;
        let agent = Some(found.agent());
        let name = match found.kept {
            Kept::File { .. } => format!("`{}`", place.display()),
            Kept::Shelf { .. } => format!("session `{id}` of `{}`", place.display()),
        };
        let copies = || found.copies.iter().map(|it| claude_files(it));
        let content = match &found.kept {
            Kept::File { may_have_subagents: true } => with_copies(claude_files(&place), copies()),
            // To look beside it takes long in a folder of thousands.
            Kept::File { .. } => {
                let main = vec![input(agent, SpecKind::Main, &place, Form::Lines)];
                with_copies(Ok(main), copies())
            }
            Kept::Shelf { shelf, .. } => Ok(Content::Shelf(shelf.clone())),
        };
        let planned = content
            .map(|content| Planned { id, is_told, agent, place, content, parent: None })
            .map_err(CommandError::from);
        Self { name, planned }
    }
}

impl Task {
    /// Plans a session of Claude Code whose main file is not there, of what else it has.
    pub(super) fn without_main(main: &Path) -> Self {
        let place = main.with_extension("");
        let id = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let files = claude_files(main).map(|mut files| {
            files.retain(|it| it.path != *main);
            Content::Files(files)
        });
        let name = format!("`{}`", place.display());
        let agent = Some(Agent::Claude);
        let planned = files
            .map(|content| Planned { id, is_told: true, agent, place, content, parent: None })
            .map_err(CommandError::from);
        Self { name, planned }
    }
}

/// Puts the files of a session and of its copies in other places together.
fn with_copies(
    own: Result<Vec<InputFile>, EngineError>,
    copies: impl Iterator<Item = Result<Vec<InputFile>, EngineError>>,
) -> Result<Content, EngineError> {
    let all: Result<Vec<_>, _> = std::iter::once(own).chain(copies).collect();
    Ok(Content::Files(all?.concat()))
}

impl Planner<'_> {
    /// Plans all that is meant by what a person gave; by nothing, all sessions of all agents.
    pub(crate) fn plan(&self, given: &[String]) -> Result<Vec<Task>, CommandError> {
        if given.is_empty() {
            let sessions = Sessions::of_all_agents();
            sessions.say_unreadable();
            let mut tasks: Vec<Task> = sessions.found.iter().map(Task::of_found).collect();
            // The first place is that of Claude Code.
            let orphans = sessions.places.first().map(|it| orphans_below(it, &tasks));
            tasks.extend(orphans.unwrap_or_default());
            return Ok(tasks);
        }
        let mut tasks = Vec::new();
        for given in given {
            match self.plan_one(given) {
                Ok(planned) => tasks.extend(planned),
                Err(error) => tasks.push(Task { name: format!("`{given}`"), planned: Err(error) }),
            }
        }
        adopt(&mut tasks);
        Ok(tasks)
    }

    fn plan_one(&self, given: &str) -> Result<Vec<Task>, CommandError> {
        let is_file = self.from.is_some() || self.session.is_some();
        match if is_file { Given::path(given) } else { find_given(given)? } {
            Given::Session(found) => Ok(vec![Task::of_found(&found)]),
            Given::Folder(folder) if self.from.is_none() => self.plan_folder(&folder),
            Given::Folder(path) | Given::File(path) => self.plan_file(&path),
        }
    }

    /// Plans a file, or notes why it cannot be taken.
    pub(super) fn tasks_of(&self, path: &Path) -> Vec<Task> {
        self.plan_file(path).unwrap_or_else(|error| {
            vec![Task { name: format!("`{}`", path.display()), planned: Err(error) }]
        })
    }

    fn plan_file(&self, path: &Path) -> Result<Vec<Task>, CommandError> {
        if path == Path::new("-") {
            return Err(CommandError::new(
                anyhow!("standard input cannot be imported"),
                "write it to a file, and give that",
            ));
        }
        if path.metadata().is_ok_and(|it| !it.is_file() && !it.is_dir()) {
            return Err(CommandError::new(
                anyhow!("`{}` is not a regular file", path.display()),
                "`threadfold watch -` takes a stream from standard input",
            ));
        }
        let format = match self.from {
            None if path.is_file() => Some(self.format_of(path)?),
            said => said,
        };
        let tasks = self.plan_as(path, format);
        let is_taken = |tasks: &Vec<Task>| tasks.iter().any(|task| task.planned.is_ok());
        if self.any && self.from.is_none() && !tasks.as_ref().is_ok_and(is_taken) {
            return self.plan_as(path, Some(Format::Other));
        }
        tasks
    }

    /// Returns what a file is. One that does not tell is kept as it is, if that may be meant.
    fn format_of(&self, path: &Path) -> Result<Format, CommandError> {
        match recognize_file(path)? {
            Some(format) => Ok(format),
            None if !self.any && is_named_as_records(path) && has_nothing_yet(path) => {
                Err(CommandError::new(
                    anyhow!("`{}` has nothing in it yet that tells whose it is", path.display()),
                    "import it again when a line of it is whole, or say with `--from` what it is",
                ))
            }
            None if self.any || is_named_as_records(path) => Ok(Format::Other),
            None => Err(CommandError::new(
                anyhow!("`{}` is nothing that an agent or Threadfold writes", path.display()),
                "`--from` says what it is, and `--any` keeps it as it is",
            )),
        }
    }

    fn plan_as(&self, path: &Path, format: Option<Format>) -> Result<Vec<Task>, CommandError> {
        let opened = open(Some(path), format)?;
        match opened.format {
            Format::OpencodeDb => {
                let database = Rc::new(Database::open(path)?);
                let roots = database.root_sessions()?.into_iter().map(|row| row.id).collect();
                Ok(self.shelf_tasks(path, database, roots))
            }
            Format::OpencodeStorage => {
                let storage = Rc::new(Storage::open(path));
                let roots = storage.root_sessions().into_iter().map(|(row, _)| row.id).collect();
                Ok(self.shelf_tasks(path, storage, roots))
            }
            format => {
                let planned = self.plan_one_file(path, format, opened.packed);
                Ok(vec![Task { name: format!("`{}`", path.display()), planned }])
            }
        }
    }

    fn shelf_tasks(&self, path: &Path, shelf: Rc<dyn Shelf>, roots: Vec<String>) -> Vec<Task> {
        let ids = self.session.map_or(roots, |session| vec![session.to_owned()]);
        let task = |id: String| Task {
            name: format!("session `{id}` of `{}`", path.display()),
            planned: Ok(Planned {
                id,
                is_told: true,
                agent: Some(Agent::Opencode),
                place: path.to_owned(),
                content: Content::Shelf(shelf.clone()),
                parent: None,
            }),
        };
        ids.into_iter().map(task).collect()
    }

    fn plan_one_file(
        &self,
        path: &Path,
        format: Format,
        may_be_packed: bool,
    ) -> Result<Planned, CommandError> {
        let agent = format.agent();
        let one = |kind, form| vec![input(agent, kind, path, form)];
        let packed_form = || match may_be_packed && is_packed(path, agent) {
            true => Form::Document,
            false => Form::Lines,
        };
        let files = match format {
            Format::ClaudeTranscript => match packed_form() {
                Form::Lines => claude_files(path)?,
                Form::Document => one(SpecKind::Main, Form::Document),
            },
            Format::ClaudeStream | Format::OpencodeEvents => one(SpecKind::Stream, packed_form()),
            Format::OpencodeExport if is_one_value(path) => one(SpecKind::Main, Form::Document),
            Format::OpencodeExport => one(SpecKind::Main, Form::Lines),
            Format::Other if is_one_document(path) => one(SpecKind::Main, Form::Document),
            Format::Other => one(SpecKind::Main, Form::Lines),
            _ => one(SpecKind::Events, Form::Lines),
        };
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let told = match format {
            Format::ClaudeTranscript if files[0].form == Form::Lines => claude_session(path),
            Format::Other => None,
            Format::Events => first_of_events(path)?,
            _ => match self.session {
                Some(session) => Some(session.to_owned()),
                None => open(Some(path), Some(format))?.first_session()?.map(|it| it.to_string()),
            },
        };
        let is_told = told.is_some();
        let id = told.unwrap_or(stem);
        let parent = match format {
            Format::OpencodeExport => parent_of(path).filter(|parent| *parent != id),
            _ => None,
        };
        let place = path.to_owned();
        Ok(Planned { id, is_told, agent, place, content: Content::Files(files), parent })
    }
}

/// Returns what is said of a file that no known agent wrote.
pub(crate) fn kept_as_it_is(path: &Path) -> String {
    format!("`{}` is no known agent's session; kept as it is", path.display())
}

/// Says whether a file is named as agents name what they keep.
fn is_named_as_records(path: &Path) -> bool {
    path.extension().is_some_and(|it| ["jsonl", "json", "ndjson"].iter().any(|known| it == *known))
}

/// Gives exports of children to the session that made them, if that is imported as well.
fn adopt(tasks: &mut [Task]) {
    let known: Vec<(String, Option<String>)> = tasks
        .iter()
        .filter_map(|task| task.planned.as_ref().ok())
        .map(|it| (it.id.clone(), it.parent.clone()))
        .collect();
    let parent_of = |id: &str| known.iter().find(|(known, _)| known == id)?.1.clone();
    for planned in tasks.iter_mut().filter_map(|task| task.planned.as_mut().ok()) {
        let mut root = planned.id.clone();
        // A circle of parents is no longer than there are sessions.
        for _ in 0..known.len() {
            match parent_of(&root).filter(|parent| known.iter().any(|(id, _)| id == parent)) {
                Some(parent) => root = parent,
                None => break,
            }
        }
        if root != planned.id {
            if let Content::Files(files) = &mut planned.content {
                files.iter_mut().for_each(|file| file.spec.name = format!("{}.json", planned.id));
            }
            planned.id = root;
        }
    }
    // A parent is heard before its children.
    tasks.sort_by_key(|task| {
        let planned = task.planned.as_ref().ok();
        planned.is_some_and(|it| it.parent.as_ref().is_some_and(|parent| *parent == it.id))
    });
}

fn input(agent: Option<Agent>, kind: SpecKind, path: &Path, form: Form) -> InputFile {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let agent = agent.map(|agent| agent.name().to_owned());
    let spec = SourceSpec { agent, kind, agent_id: None, name: name.into(), path: None, part: 1 };
    let spec = spec.at(place.to_string_lossy());
    InputFile { spec, path: path.to_owned(), form }
}

/// Says whether a file is a session of Claude Code in one piece.
pub(super) fn is_in_one_piece(path: &Path) -> bool {
    is_packed(path, Some(Agent::Claude))
}

/// Says whether a file that opens so is a session in one piece.
fn is_packed(path: &Path, agent: Option<Agent>) -> bool {
    match agent {
        Some(Agent::Claude) => fs::read(path).is_ok_and(|bytes| unpack(&bytes).is_some()),
        _ => is_one_value(path),
    }
}

/// The largest file that is one record.
const LARGEST_DOCUMENT: u64 = 64 << 20;

/// Says whether a file is one JSON value of several lines, and so no list of records.
fn is_one_document(path: &Path) -> bool {
    let has_room = path.metadata().is_ok_and(|it| it.len() <= LARGEST_DOCUMENT);
    let has_lines = || {
        fs::read(path).is_ok_and(|bytes| {
            let first = lines(&bytes).next();
            first.is_some_and(|it| serde_json::from_slice::<IgnoredAny>(it.bytes).is_err())
        })
    };
    has_room && is_one_value(path) && has_lines()
}

/// Says whether a file is one JSON value, however many lines it has.
fn is_one_value(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    serde_json::from_reader::<_, IgnoredAny>(without_mark(BufReader::new(file))).is_ok()
}

/// Passes over a byte order mark.
fn without_mark(mut reader: impl Read) -> impl Read {
    let mut first = Vec::new();
    // What cannot be read now cannot be read later, and is told then.
    reader.by_ref().take(3).read_to_end(&mut first).ok();
    let rest = first.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&first).to_vec();
    std::io::Cursor::new(rest).chain(reader)
}

/// Returns the session that the first event of a file names.
fn first_of_events(path: &Path) -> Result<Option<String>, CommandError> {
    let opened = open(Some(path), Some(Format::Events))?;
    let mut input = crate::input::Input::new(opened.name, opened.reader);
    while let Some(line) = input.next_line()? {
        let text = String::from_utf8_lossy(line);
        let event = threadfold_core::SessionEvent::from_json(&text).ok();
        if let Some(session) = event.and_then(|event| event.context.session_id) {
            return Ok(Some(session.to_string()));
        }
    }
    Ok(None)
}

/// Returns the session that made the one of an export.
fn parent_of(path: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Export {
        info: Session,
    }
    #[derive(Deserialize)]
    struct Session {
        #[serde(rename = "parentID")]
        parent: Option<String>,
    }
    let file = BufReader::new(File::open(path).ok()?);
    let export: Export = serde_json::from_reader(without_mark(file)).ok()?;
    export.info.parent
}

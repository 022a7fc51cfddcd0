//! The content of a Codex session: the files of its thread and of its subagents, which may appear
//! late.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use threadfold_convert::codex::AGENT;
use threadfold_convert::codex::layout::{RolloutRole, session_files};
use threadfold_fold::{SourceRole, SourceSpec};

use super::compressed::PlainCopies;
use super::heads::{self, Rollout};
use crate::error::EngineError;
use crate::files::{
    Form, GrowingSetFollower, InputFile, check_readable, folder_of, noted, stamp_of,
};
use crate::found_session::{Follow, SessionContent, Stamp};

/// The files of a session.
#[derive(Clone, Debug)]
pub(super) struct CodexContent {
    main: PathBuf,
    thread: String,
    /// The rollouts that are known, by path. One is read once: its first record never changes.
    known: Arc<Mutex<BTreeMap<PathBuf, Option<Rollout>>>>,
    copies: Arc<Mutex<PlainCopies>>,
}

impl CodexContent {
    pub(super) fn new(main: &Path, thread: &str, rollouts: &[Rollout]) -> Self {
        let known = rollouts.iter().map(|it| (it.path.clone(), Some(it.clone()))).collect();
        let (main, thread) = (main.to_owned(), thread.to_owned());
        Self { main, thread, known: Arc::new(Mutex::new(known)), copies: Arc::default() }
    }

    /// Returns the rollouts that are known, and those that appeared since.
    fn rollouts(&self) -> Vec<Rollout> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for path in self.siblings() {
            known.entry(path.clone()).or_insert_with(|| heads::read(&path));
        }
        heads::sorted(known.values().flatten().cloned().collect())
    }

    /// Returns the files that may belong to the session: those of the main file's day and of later
    /// days, because a thread is older than its subagents.
    fn siblings(&self) -> Vec<PathBuf> {
        let folder = folder_of(&self.main);
        let days = later_days(&folder).unwrap_or_else(|| vec![folder]);
        let mut paths = Vec::new();
        for day in days {
            let entries = fs::read_dir(day).into_iter().flatten().flatten();
            paths.extend(entries.map(|it| it.path()).filter(|it| heads::is_named(it)));
        }
        paths.sort();
        paths
    }
}

/// Returns a day's folder and those of later days; nothing if the folder is not `YYYY/MM/DD`.
fn later_days(folder: &Path) -> Option<Vec<PathBuf>> {
    let is_number = |name: Option<&OsStr>| {
        name.and_then(OsStr::to_str).is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let month = folder.parent()?;
    let year = month.parent()?;
    let root = year.parent()?;
    let is_day = [folder, month, year].iter().all(|it| is_number(it.file_name()));
    if !is_day {
        return None;
    }
    let mut days = vec![root.to_owned()];
    for level in [year, month, folder] {
        let depth = level.components().count();
        let mut next = Vec::new();
        for parent in days {
            let entries = fs::read_dir(parent).into_iter().flatten().flatten();
            let is_later = |path: &PathBuf| {
                let own: PathBuf = folder.components().take(depth).collect();
                is_number(path.file_name()) && *path >= own
            };
            next.extend(entries.map(|it| it.path()).filter(is_later));
        }
        days = next;
    }
    Some(days)
}

impl SessionContent for CodexContent {
    fn check(&self) -> Result<(), EngineError> {
        self.files()?.iter().try_for_each(|it| check_readable(&it.path))
    }

    fn files(&self) -> Result<Vec<InputFile>, EngineError> {
        let rollouts = self.rollouts();
        let named = heads::named(&rollouts);
        let mut files: Vec<InputFile> = Vec::new();
        for (index, role) in session_files(&named, &self.thread) {
            let mut file = input_file(&rollouts[index].path, &role);
            if heads::is_compressed(&file.path) {
                let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
                file.path = copies.path(&file.path)?;
            }
            // A file that is being moved to the archive may be in two places at once.
            if files.iter().all(|it| it.spec.name != file.spec.name) {
                files.push(file);
            }
        }
        Ok(files)
    }

    fn stamp(&self) -> Stamp {
        match self.files() {
            Ok(files) => stamp_of(files.iter().map(|it| it.path.as_path())),
            Err(_) => stamp_of([self.main.as_path()]),
        }
    }

    fn folders(&self) -> Vec<PathBuf> {
        let folder = folder_of(&self.main);
        let Some(days) = later_days(&folder) else { return vec![folder] };
        // The folders above a day get a new entry when the next day, month or year begins.
        let with_parents = |day: PathBuf| day.ancestors().take(4).map(Path::to_owned).collect();
        days.into_iter().flat_map::<Vec<PathBuf>, _>(with_parents).collect()
    }

    fn follower(&self) -> Box<dyn Follow> {
        // A rollout is moved to the archive under its name.
        let is_same = |one: &InputFile, other: &InputFile| one.spec.name == other.spec.name;
        Box::new(GrowingSetFollower::new(Arc::new(self.clone()), is_same))
    }
}

fn input_file(path: &Path, role: &RolloutRole) -> InputFile {
    let name = heads::plain_name(path);
    let place = path.with_file_name(&name);
    let place = std::path::absolute(&place).unwrap_or(place);
    let spec = |role| SourceSpec::new(AGENT, role, name.clone()).at(noted(&place));
    let spec = match role {
        RolloutRole::Main | RolloutRole::Base => spec(SourceRole::Main),
        RolloutRole::Subagent(thread) => {
            spec(SourceRole::Subagent).of_subagent(thread.as_str().into())
        }
    };
    InputFile { spec, path: path.to_owned(), form: Form::Lines }
}

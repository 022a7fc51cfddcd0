//! What a folder holds that can be imported, and what is left aside.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use threadfold_convert::Agent;

use super::plan::{Content, Planned, Planner, Task};
use crate::error::{CommandError, say};
use crate::sessions::{Kept, Sessions, find_opencode};
use crate::source::{Format, is_of_another, recognize_file};
use crate::view::count;

impl Planner<'_> {
    /// Plans all that lies in a folder: sessions of Claude Code and OpenCode, and files of any
    /// kind that is known; if anything is to be taken, all other files below it as well.
    pub(super) fn plan_folder(&self, folder: &Path) -> Result<Vec<Task>, CommandError> {
        let mut tasks = known_tasks(folder);
        let mut aside = files_below(folder);
        leave_out(&mut aside, &tasks);
        if self.any {
            let planner = Planner { any: true, ..Planner::default() };
            while let Some(path) = aside.pop_first() {
                let found = planner.tasks_of(&path.0);
                leave_out(&mut aside, &found);
                tasks.extend(found);
            }
            name_apart(folder, &mut tasks);
        }
        if tasks.is_empty() {
            let hint = match aside.is_empty() {
                true => "`threadfold list` shows the sessions on this machine",
                false => "`--any` takes every file, whatever it is",
            };
            return Err(CommandError::new(
                anyhow!("there is no session in `{}`", folder.display()),
                hint,
            ));
        }
        if !aside.is_empty() {
            let files = count(aside.len(), "file", "files");
            say(format_args!(
                "left {files} of `{}` aside that no known agent wrote as a session: `--any` takes \
                 every file",
                folder.display()
            ));
        }
        Ok(tasks)
    }
}

fn known_tasks(folder: &Path) -> Vec<Task> {
    let mut sessions = Sessions::below(folder);
    if sessions.found.is_empty() {
        sessions = Sessions::below(&folder.join("projects"));
    }
    find_opencode(folder, &mut sessions);
    sessions.say_unreadable();
    let planner = Planner::default();
    let mut tasks = Vec::new();
    for found in &sessions.found {
        let is_file = matches!(found.kept, Kept::File { .. }) && found.main.is_file();
        if is_file && is_of_another(&found.main) {
            continue;
        }
        // A file that does not tell what it is has the name of a transcript.
        let other = is_file.then(|| recognize_file(&found.main).ok().flatten()).flatten();
        match other.filter(|it| *it != Format::ClaudeTranscript) {
            Some(_) => tasks.extend(planner.tasks_of(&found.main)),
            None => tasks.push(Task::of_found(found)),
        }
    }
    let mut exports: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "json") && path.is_file())
        .collect();
    exports.sort();
    for path in exports {
        if matches!(recognize_file(&path), Ok(Some(Format::OpencodeExport))) {
            tasks.extend(planner.tasks_of(&path));
        }
    }
    tasks
}

/// A path, with those less deep before others: what belongs to a file lies below it.
#[derive(PartialEq, Eq)]
struct ByDepth(PathBuf);

impl ByDepth {
    fn key(&self) -> (usize, &Path) {
        (self.0.components().count(), &self.0)
    }
}

impl Ord for ByDepth {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for ByDepth {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the regular files below a folder. Links are not followed.
fn files_below(folder: &Path) -> BTreeSet<ByDepth> {
    let mut files = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    files.insert(ByDepth(entry.path()));
                }
                _ => {}
            }
        }
    }
    files
}

/// Takes out what is part of something that is planned.
fn leave_out(aside: &mut BTreeSet<ByDepth>, tasks: &[Task]) {
    for planned in tasks.iter().filter_map(|task| task.planned.as_ref().ok()) {
        match &planned.content {
            Content::Files(files) => files.iter().for_each(|it| {
                aside.remove(&ByDepth(it.path.clone()));
            }),
            Content::Shelf(_) => aside.retain(|it| !is_of_shelf(&it.0, planned)),
        }
    }
}

/// Says whether a file is of the folder or the database that a session lies in.
fn is_of_shelf(path: &Path, planned: &Planned) -> bool {
    let place = &planned.place;
    let beside = ["-wal", "-shm"].map(|ending| {
        let mut name = place.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    });
    path.starts_with(place) || beside.iter().any(|it| it == path)
}

/// Names what nobody knows after its whole path, where another has the name of its file.
fn name_apart(folder: &Path, tasks: &mut [Task]) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let is_other = |planned: &Planned| planned.agent == Some(Agent::Other);
    let planned = tasks.iter().filter_map(|task| task.planned.as_ref().ok());
    taken.extend(planned.filter(|it| !is_other(it)).map(|it| it.id.clone()));
    for planned in tasks.iter_mut().filter_map(|task| task.planned.as_mut().ok()) {
        if is_other(planned) && !taken.insert(planned.id.clone()) {
            let below = planned.place.strip_prefix(folder).unwrap_or(&planned.place);
            let parts: Vec<_> = below.iter().map(|it| it.to_string_lossy()).collect();
            planned.id = parts.join("-");
            taken.insert(planned.id.clone());
        }
    }
}

//! What a folder holds that can be imported, and what is left aside.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use threadfold_convert::Agent;
use threadfold_convert::claude::layout::is_session_name;

use super::plan::{Content, Planned, Planner, Task, is_in_one_piece};
use crate::error::{CommandError, say};
use crate::progress::Progress;
use crate::sessions::{Kept, Sessions};
use crate::source::{Format, is_of_another, recognize_file};
use crate::view::count;

impl Planner<'_> {
    /// Plans all that lies in a folder, however deep: sessions of Claude Code and OpenCode, and
    /// files of any kind that is known; if anything is to be taken, all other files as well.
    pub(super) fn plan_folder(&self, folder: &Path) -> Result<Vec<Task>, CommandError> {
        let mut tasks = known_tasks(folder);
        let mut aside = files_below(folder);
        leave_out(&mut aside, &tasks);
        let orphans = orphans(&mut aside);
        tasks.extend(orphans);
        tasks.extend(other_forms(&mut aside));
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
    let sessions = Sessions::deep_below(folder);
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
            Some(_) => {
                let all = std::iter::once(&found.main).chain(&found.copies);
                tasks.extend(all.flat_map(|it| planner.tasks_of(it)));
            }
            None => tasks.push(Task::of_found(found)),
        }
    }
    tasks
}

/// Plans what belongs to sessions of Claude Code whose main files are not there, of all files
/// below the folders of projects.
pub(super) fn orphans_below(folder: &Path, tasks: &[Task]) -> Vec<Task> {
    let mut aside = files_below(folder);
    leave_out(&mut aside, tasks);
    orphans(&mut aside)
}

/// Plans what belongs to sessions of Claude Code whose main files are not there: folders of
/// sessions, and files of subagents that stand alone.
fn orphans(aside: &mut BTreeSet<ByDepth>) -> Vec<Task> {
    let is_session =
        |it: &&Path| is_session_name(&it.file_name().unwrap_or_default().to_string_lossy());
    let mains: BTreeSet<PathBuf> = aside
        .iter()
        .filter_map(|it| it.0.ancestors().skip(1).find(is_session))
        .map(|folder| folder.with_extension("jsonl"))
        .filter(|main| !main.exists())
        .collect();
    let mut tasks: Vec<Task> = mains.iter().map(|main| Task::without_main(main)).collect();
    leave_out(aside, &tasks);
    let is_subagent = |it: &&ByDepth| {
        let name = it.0.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("agent-") && name.ends_with(".jsonl")
    };
    let alone: Vec<PathBuf> = aside.iter().filter(is_subagent).map(|it| it.0.clone()).collect();
    for path in alone.iter().filter(|it| recognize_file(it).is_ok_and(|it| it.is_some())) {
        tasks.extend(Planner::default().tasks_of(path));
    }
    leave_out(aside, &tasks);
    tasks
}

/// Plans files of other forms than lines that tell which session they hold.
fn other_forms(aside: &mut BTreeSet<ByDepth>) -> Vec<Task> {
    let is_form = |it: &&Path| it.extension().is_some_and(|it| it == "json" || it == "sse");
    let paths: Vec<PathBuf> =
        aside.iter().map(|it| it.0.as_path()).filter(is_form).map(Path::to_owned).collect();
    let is_known = |path: &&PathBuf| match recognize_file(path) {
        Ok(Some(Format::OpencodeExport | Format::OpencodeEvents)) => true,
        Ok(Some(Format::ClaudeTranscript | Format::ClaudeStream)) => is_in_one_piece(path),
        _ => false,
    };
    let planner = Planner::default();
    let is_told = |task: &Task| task.planned.as_ref().is_ok_and(|it| it.is_told);
    let tasks = paths.iter().filter(is_known).flat_map(|path| planner.tasks_of(path));
    let tasks: Vec<Task> = tasks.filter(is_told).collect();
    leave_out(aside, &tasks);
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
    let mut progress = Progress::of_files();
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            progress.step();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    files.insert(ByDepth(entry.path()));
                }
                _ => {}
            }
        }
    }
    progress.erase();
    files
}

/// Takes out what is part of something that is planned.
fn leave_out(aside: &mut BTreeSet<ByDepth>, tasks: &[Task]) {
    for planned in tasks.iter().filter_map(|task| task.planned.as_ref().ok()) {
        match &planned.content {
            Content::Files(files) => files.iter().for_each(|it| {
                aside.remove(&ByDepth(it.path.clone()));
            }),
            Content::Shelf(shelf) => match shelf.files(&planned.id) {
                Ok(Some(files)) => files.into_iter().for_each(|it| {
                    aside.remove(&ByDepth(it.path));
                }),
                _ => aside.retain(|it| !is_of_shelf(&it.0, planned)),
            },
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

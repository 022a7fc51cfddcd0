//! What Claude Code's projects hold that this version does not read. Only names are looked at.

use std::path::Path;

use threadfold_convert::claude::AGENT;
use threadfold_convert::claude::layout::is_session_name;

use super::SUBAGENT;
use crate::discover::{list, name_of};
use crate::unread::{UnreadContent, UnreadFiles, files_below, is_incidental, may_hold_sessions};

/// The list of a project's sessions, which repeats what they have.
const INDEX: &str = "sessions-index.json";
/// The folder of the notes that the model writes for later sessions of the project.
const NOTES: &str = "memory";
/// The name of the folder of all projects in Claude Code's home.
const PROJECTS: &str = "projects";
/// Folders beside it that hold running processes, their variables and their messages.
const KNOWN: [&str; 3] = ["sessions", "session-env", "session-inbox"];

const MEANING: &str =
    "a version of Claude Code that is newer than this program may keep sessions there";

/// Returns what the folder of all projects holds that is not read, and what may hold sessions beside
/// it.
pub(super) fn unread(projects: &Path) -> Vec<UnreadContent> {
    let mut files = UnreadFiles::new(AGENT, MEANING);
    for path in list(projects).unwrap_or_default() {
        match path.is_dir() {
            true if name_of(&path) == NOTES || name_of(&path).starts_with('.') => {}
            true => project(projects, &path, &mut files),
            false if is_known_file(&name_of(&path)) => {}
            false => files.add(projects, &path),
        }
    }
    if name_of(projects) == PROJECTS {
        let home = projects.parent().map(list).and_then(Result::ok).unwrap_or_default();
        home.iter().for_each(|path| beside(path, &mut files));
    }
    files.finish()
}

/// Counts the files of a folder beside that of all projects, if its name says that it may hold
/// sessions.
fn beside(path: &Path, files: &mut UnreadFiles) {
    let name = name_of(path);
    if may_hold_sessions(&name) && !KNOWN.contains(&name.as_str()) && path.is_dir() {
        let below = files_below(path, &|_| false);
        below.iter().filter(|it| !is_incidental(&name_of(it))).for_each(|it| files.add(path, it));
    }
}

fn project(projects: &Path, project: &Path, files: &mut UnreadFiles) {
    let entries = list(project).unwrap_or_default();
    for path in &entries {
        let name = name_of(path);
        match path.is_dir() {
            // Everything below a session's folder belongs to the session.
            true if is_session_name(&name) || name == NOTES || name.starts_with('.') => {}
            true if entries.binary_search(&path.with_extension("jsonl")).is_ok() => {}
            true => {
                // A subagent's file is found anywhere.
                let is_unread = |it: &Path| {
                    let name = name_of(it);
                    !is_incidental(&name) && !name.starts_with(SUBAGENT)
                };
                let below = files_below(path, &|folder| is_session_name(&name_of(folder)));
                below.iter().filter(|it| is_unread(it)).for_each(|it| files.add(path, it));
            }
            false if is_known_file(&name) => {}
            false => files.add(projects, path),
        }
    }
}

fn is_known_file(name: &str) -> bool {
    name.ends_with(".jsonl") || name == INDEX || is_incidental(name) || name.starts_with(SUBAGENT)
}

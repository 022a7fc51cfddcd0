//! What Claude Code's projects hold that this version does not read. Only names are looked at.

use std::path::Path;

use threadfold_convert::claude::AGENT;
use threadfold_convert::claude::layout::is_session_name;

use super::SUBAGENT;
use crate::discover::{list, name_of};
use crate::unread::{UnreadContent, UnreadFiles, files_below, is_incidental};

/// The list of a project's sessions, which repeats what they have.
const INDEX: &str = "sessions-index.json";
/// The folder of the notes that the model writes for later sessions of the project.
const NOTES: &str = "memory";

const MEANING: &str =
    "a version of Claude Code that is newer than this program may keep sessions there";

/// Returns what the folder of all projects holds that is not read.
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
    files.finish()
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

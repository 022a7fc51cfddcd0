//! What Codex's home holds that this version does not read. Of rollouts the first records are looked
//! at, of others the names.

use std::path::Path;

use threadfold_convert::codex::AGENT;

use super::heads;
use super::places::FOLDERS;
use crate::discover::{list, name_of};
use crate::unread::{UnreadContent, UnreadFiles, files_below, is_incidental, may_hold_sessions};

/// Databases beside the sessions that repeat what those have, and their latest known version.
const DATABASES: [(&str, u32); 2] = [("state", 5), ("thread_history", 1)];
/// Names with words of sessions that are known to hold none.
const KNOWN: [&str; 1] = ["session_index.jsonl"];

const MEANING: &str = "a version of Codex that is newer than this program may keep sessions there";

/// Returns what a home holds that is not read. Settings, logs, caches and secrets are not counted.
pub(super) fn unread(home: &Path) -> Vec<UnreadContent> {
    let mut files = UnreadFiles::new(AGENT, MEANING);
    let entries = list(home).unwrap_or_default();
    let databases = list(&home.join("sqlite")).unwrap_or_default();
    for path in entries.iter().chain(&databases) {
        let name = name_of(path);
        if is_incidental(&name) || KNOWN.contains(&name.as_str()) {
            continue;
        }
        let folder = path.parent().unwrap_or(home);
        match path.is_dir() {
            true if FOLDERS.contains(&name.as_str()) => {
                let unknown = files_below(path, &|_| false)
                    .into_iter()
                    .filter(|it| !is_incidental(&name_of(it)) && !is_read(it));
                unknown.for_each(|it| files.add(path, &it));
            }
            true if may_hold_sessions(&name) => {
                files_below(path, &|_| false).iter().for_each(|it| files.add(path, it));
            }
            false if is_unknown_file(&name) => files.count(folder, format!("`{name}`"), path),
            _ => {}
        }
    }
    files.finish()
}

/// Returns whether a file is a rollout: its name is not enough, because its records may be unknown.
fn is_read(path: &Path) -> bool {
    heads::is_named(path) && heads::read(path).is_some()
}

fn is_unknown_file(name: &str) -> bool {
    let database = name.strip_suffix(".sqlite").or_else(|| name.strip_suffix(".db"));
    let known = database.and_then(|it| it.rsplit_once('_')).and_then(|(base, version)| {
        let (_, latest) = DATABASES.iter().find(|(known, _)| *known == base)?;
        Some(version.parse::<u32>().is_ok_and(|version| version <= *latest))
    });
    match known {
        Some(is_known) => !is_known,
        None => (database.is_some() || name.ends_with(".jsonl")) && may_hold_sessions(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_and_files_that_codex_keeps_beside_its_sessions_are_known() {
        for name in ["state_4.sqlite", "state_5.sqlite", "thread_history_1.sqlite", "logs_2.sqlite"]
        {
            assert!(!is_unknown_file(name), "{name}");
        }
        for name in ["history.jsonl", "auth.json", "config.toml", "version.json", "models.json"] {
            assert!(!is_unknown_file(name), "{name}");
        }
        for name in ["state_9.sqlite", "thread_history_2.sqlite", "threads.db", "sessions.jsonl"] {
            assert!(is_unknown_file(name), "{name}");
        }
    }
}

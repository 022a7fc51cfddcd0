//! Finds agents' folders on this machine.

use std::env;
use std::path::PathBuf;

use threadfold_engine::{
    Discovery, Machine, UnreadContent, place_variables, restore_folders, unread_on,
};

use crate::error::print_note;

/// Finds the sessions of all agents on this machine, and reports unreadable paths.
///
/// What was found and is not read is for the caller to report.
pub(crate) fn discover() -> Discovery {
    let found = Discovery::of_machine(&machine());
    report_unreadable(&found);
    found
}

/// Returns what agents' places on this machine hold that this version does not read.
pub(crate) fn unread_on_machine() -> Vec<UnreadContent> {
    unread_on(&machine())
}

/// Returns the folders of agents on this machine below which a restore may write.
pub(crate) fn restorable_folders() -> Vec<PathBuf> {
    restore_folders(&machine())
}

/// Returns the home folder and the environment that locate agents' folders.
pub(crate) fn machine() -> Machine<'static> {
    let home = env::home_dir().unwrap_or_default();
    Machine { home, variable: &|name| env::var_os(name) }
}

/// Reports unreadable paths.
pub(crate) fn report_unreadable(found: &Discovery) {
    for (path, why) in &found.unreadable {
        print_note(format_args!("skipped `{}`: {why}", path.display()));
    }
}

/// Returns folders as a list in a sentence.
pub(crate) fn listed_places(folders: &[PathBuf]) -> String {
    alternatives(folders.iter().map(|it| format!("`{}`", it.display())).collect())
}

/// Returns names as `a, b or c`.
fn alternatives(mut names: Vec<String>) -> String {
    match (names.pop(), names.is_empty()) {
        (None, _) => String::new(),
        (Some(last), true) => last,
        (Some(last), false) => format!("{} or {last}", names.join(", ")),
    }
}

/// Returns the environment variables of agents' folders as a list in a sentence.
pub(crate) fn listed_variables() -> String {
    alternatives(place_variables().into_iter().map(|it| format!("`{it}`")).collect())
}

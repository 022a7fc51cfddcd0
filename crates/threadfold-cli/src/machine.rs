//! What agents' places follow from on this machine.

use std::env;
use std::path::PathBuf;

use threadfold_engine::{Discovery, Machine, place_variables};

use crate::error::say;

/// Finds the sessions of all agents on this machine, and reports what cannot be read.
pub(crate) fn discover() -> Discovery {
    let found = Discovery::of_machine(&machine());
    report_unreadable(&found);
    found
}

/// Finds the same, with what is left of sessions that lost their main file.
pub(crate) fn discover_with_orphans() -> Discovery {
    let mut found = Discovery::of_machine(&machine());
    found.add_orphans(&machine());
    report_unreadable(&found);
    found
}

fn machine() -> Machine<'static> {
    let home = env::home_dir().unwrap_or_default();
    Machine { home, variable: &|name| env::var_os(name) }
}

/// Reports what could not be read.
pub(crate) fn report_unreadable(found: &Discovery) {
    for (path, why) in &found.unreadable {
        say(format_args!("skipped `{}`: {why}", path.display()));
    }
}

/// Returns folders as they stand in a sentence.
pub(crate) fn listed_places(folders: &[PathBuf]) -> String {
    let names: Vec<_> = folders.iter().map(|it| format!("`{}`", it.display())).collect();
    names.join(" or ")
}

/// Returns the variables that move agents' places, as they stand in a sentence.
pub(crate) fn listed_variables() -> String {
    let names: Vec<_> = place_variables().into_iter().map(|it| format!("`{it}`")).collect();
    names.join(" and ")
}

//! The folder of files that OpenCode kept before it had a database.

use std::fs;
use std::path::{Path, PathBuf};

use threadfold_convert::{Agent, Feed, FeedKind};

use super::feeding::{Each, Feeding};
use super::unreadable;
use crate::error::CommandError;

/// Converts the session whose files, its own first, are `storage/session/<project>/<id>.json`.
pub(crate) fn convert_storage<'a>(
    family: &[PathBuf],
    each: &'a mut Each<'a>,
) -> Result<(), CommandError> {
    let stem = |path: &PathBuf| path.file_stem().map(|it| it.to_string_lossy().into_owned());
    let Some(first) = family.first() else { return Ok(()) };
    let storage = first.ancestors().nth(3).unwrap_or(first);
    // What tells of sessions comes before what tells of messages, and that before their parts.
    let below = |kind: &str, owners: &[PathBuf]| -> Vec<PathBuf> {
        let folders = owners.iter().filter_map(stem).map(|it| storage.join(kind).join(it));
        folders.flat_map(|folder| listed(&folder)).collect()
    };
    let messages = below("message", family);
    let parts = below("part", &messages);

    let feed = Feed::new(Agent::Opencode, FeedKind::Main, &storage.to_string_lossy());
    let mut feeding = Feeding::new(Agent::Opencode, stem(first), each);
    for (number, path) in (1..).zip(family.iter().chain(&messages).chain(&parts).chain(family)) {
        let name = format!("`{}`", path.display());
        let bytes = fs::read(path).map_err(|error| unreadable(&name, error))?;
        feeding.record(&feed, number, &bytes)?;
    }
    feeding.finish(&feed)?;
    feeding.end(&format!("`{}`", storage.display()))
}

/// Returns what is in a folder, by name; a folder that is not there holds nothing.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
    paths.sort();
    paths
}

//! Where Codex stores its sessions on a machine.

use std::path::PathBuf;

use crate::agents::Machine;

/// The environment variables that override these folders.
pub(super) const VARIABLES: &[&str] = &[HOME];

const HOME: &str = "CODEX_HOME";

/// The folders inside Codex's home that hold sessions: those by day, and those that were archived.
pub(super) const FOLDERS: [&str; 2] = ["sessions", "archived_sessions"];

/// Returns Codex's home: a session's files may be in both of its folders, once some are archived.
pub(super) fn places(machine: &Machine<'_>) -> Vec<PathBuf> {
    vec![machine.folder(HOME).unwrap_or_else(|| machine.home.join(".codex"))]
}

/// Returns the folders that hold session files and nothing else.
pub(super) fn restore_folders(machine: &Machine<'_>) -> Vec<PathBuf> {
    let folders = |home: PathBuf| FOLDERS.map(|name| home.join(name));
    places(machine).into_iter().flat_map(folders).collect()
}

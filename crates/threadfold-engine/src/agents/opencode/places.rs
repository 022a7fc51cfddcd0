//! Where OpenCode stores its sessions on a machine.

use std::path::PathBuf;

use crate::agents::Machine;

/// The environment variables that override these folders.
pub(super) const VARIABLES: &[&str] = &[DATA, DATABASE];

const DATA: &str = "XDG_DATA_HOME";
/// The path of the database, from version 2 on.
const DATABASE: &str = "OPENCODE_DB";

pub(super) fn places(machine: &Machine<'_>) -> Vec<PathBuf> {
    let home = || machine.home.join(".local").join("share");
    let folder = machine.folder(DATA).unwrap_or_else(home).join("opencode");
    // A relative path is one in that folder, and was listed there.
    let database = machine.folder(DATABASE).filter(|it| it.is_absolute());
    let elsewhere = database.filter(|it| it.parent() != Some(&folder));
    std::iter::once(folder).chain(elsewhere).collect()
}

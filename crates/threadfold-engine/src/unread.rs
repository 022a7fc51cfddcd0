//! What agents' places hold that this version does not read.
//!
//! An agent that is updated may keep its sessions in a table or a layout that this version does not
//! know. That is reported, so that an empty list does not mean that there is nothing.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use threadfold_fold::Agent;

use crate::agents::{self, Machine};

/// Something in an agent's place that this version does not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadContent {
    /// The agent.
    pub agent: Agent,
    /// The file or folder that holds it.
    pub place: PathBuf,
    /// What it is, such as a table.
    pub what: String,
    /// How many rows or files.
    pub count: u64,
    /// What is counted.
    pub unit: Unit,
    /// Since when there are some.
    pub since: Option<SystemTime>,
    /// What it means for the user.
    pub meaning: &'static str,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Rows of a table.
    Row,
    /// Files.
    File,
}

/// Returns what a file or folder holds that this version does not read.
///
/// A place that is no known agent's holds nothing of the kind.
pub fn unread_content(place: &Path) -> Vec<UnreadContent> {
    agents::all().flat_map(|row| row.unread(place)).collect()
}

/// Returns what the places of all agents on a machine hold that this version does not read.
pub fn unread_on(machine: &Machine<'_>) -> Vec<UnreadContent> {
    let of_row = |row: &'static dyn agents::AgentAccess| {
        let places = row.places(machine);
        places.into_iter().flat_map(|place| row.unread(&place)).collect::<Vec<_>>()
    };
    agents::all().flat_map(of_row).collect()
}

//! Where Claude Code stores its sessions on a machine.

use std::path::PathBuf;

use crate::agents::Machine;

/// The environment variables that override these folders.
pub(super) const VARIABLES: &[&str] = &[CONFIG];

const CONFIG: &str = "CLAUDE_CONFIG_DIR";

pub(super) fn places(machine: &Machine<'_>) -> Vec<PathBuf> {
    let configured = machine.folder(CONFIG);
    vec![configured.unwrap_or_else(|| machine.home.join(".claude")).join("projects")]
}

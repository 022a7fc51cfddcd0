//! What a session of Claude Code is called.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use threadfold_convert::claude::layout::{is_session_name, told_session};

/// As much of a file is looked through for its session.
const LOOKED_THROUGH: u64 = 16 << 20;

/// Returns the session that a file of Claude Code's tells of: by its name, if that is one that
/// Claude Code gives, or else by its lines. Nothing if it does not tell.
pub(crate) fn claude_session(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_string_lossy();
    if is_session_name(&stem) {
        return Some(stem.into_owned());
    }
    // The lines of a subagent's file name the session that made it.
    if stem.starts_with("agent-") {
        return None;
    }
    // A pipe would be waited for.
    if !path.metadata().is_ok_and(|it| it.is_file()) {
        return None;
    }
    let mut lines = BufReader::new(File::open(path).ok()?.take(LOOKED_THROUGH));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        if let Some(told) = told_session(&line) {
            return Some(told);
        }
        line.clear();
    }
    None
}

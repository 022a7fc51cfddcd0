//! Which files of Claude Code belong to a session besides its main one.

use std::path::{Path, PathBuf};

use threadfold_convert::FeedKind;
use threadfold_engine::{InputFile, SpecKind, claude_files};

use crate::error::CommandError;

/// Finds the files of a session's subagents, beside the main file and below its folder.
pub(crate) fn subagents_of(main: &Path) -> Result<Vec<(FeedKind, PathBuf)>, CommandError> {
    let of_subagent = |file: InputFile| {
        let agent = file.spec.agent_id?;
        let kind = match file.spec.kind {
            SpecKind::SubagentMeta => FeedKind::SubagentMeta(agent),
            _ => FeedKind::Subagent(agent),
        };
        Some((kind, file.path))
    };
    Ok(claude_files(main)?.into_iter().filter_map(of_subagent).collect())
}

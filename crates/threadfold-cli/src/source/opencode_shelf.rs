//! Where OpenCode keeps many sessions side by side: its database, or the older folder of files.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use super::Format;
use crate::error::CommandError;

pub(crate) use threadfold_engine::DbSession as SessionRow;

/// What is done with a record.
pub(crate) type EachRecord<'a> = dyn FnMut(&[u8]) -> Result<(), CommandError> + 'a;

/// A place that holds many sessions.
pub(crate) trait Shelf {
    /// Returns what it is.
    fn format(&self) -> Format;

    /// Returns the session that is meant where none was named.
    fn only_session(&self) -> Result<String, CommandError>;

    /// Hands on all that is kept of a session and its children.
    fn read(&self, session: &str, each: &mut EachRecord<'_>) -> Result<(), CommandError>;

    /// Returns the files of a session and its children, in the order to read them; nothing if
    /// they have none of their own. A file may come again at the end.
    fn files(&self, session: &str) -> Result<Option<Vec<ShelfFile>>, CommandError>;
}

/// A file that holds a piece of a session.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ShelfFile {
    /// Its name within the place.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// It is kept with the session, and tells nothing of it.
    pub(crate) is_attached: bool,
}

/// Returns the one session of those found in `place`.
pub(super) fn only(place: &Path, mut found: Vec<SessionRow>) -> Result<String, CommandError> {
    let place = place.display();
    match (found.len(), found.pop()) {
        (1, Some(only)) => Ok(only.id),
        (_, None) => Err(CommandError::new(
            anyhow!("there is no session in `{place}`"),
            "`threadfold list` shows the sessions on this machine",
        )),
        (count, Some(last)) => Err(CommandError::new(
            anyhow!("there are {count} sessions in `{place}`"),
            format!("`--session {}` takes one of them; `threadfold list` shows more", last.id),
        )),
    }
}

/// Says that a session is not in `place`.
pub(super) fn missing(place: &Path, session: &str) -> CommandError {
    CommandError::new(
        anyhow!("session `{session}` is not in `{}`", place.display()),
        "`threadfold list` shows the sessions on this machine",
    )
}

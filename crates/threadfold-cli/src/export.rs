//! Exports sessions from the store: as original files, or in another format.

mod output;

use anyhow::anyhow;
use threadfold_export::has_files;
use threadfold_store::SessionEntry;

use crate::error::CommandError;
use crate::store::OpenStore;

pub(crate) use output::Output;

/// Fails for a session without files: a run of Threadfold's own loop.
pub(crate) fn need_files(store: &OpenStore, entry: &SessionEntry) -> Result<(), CommandError> {
    if store.wait(has_files(&*store.shared(), &entry.session))? {
        return Ok(());
    }
    let hint = "`threadfold export` writes it with `--format events`, which can be imported \
                again, `markdown` or `json`";
    Err(CommandError::new(anyhow!("the session has no original files"), hint))
}

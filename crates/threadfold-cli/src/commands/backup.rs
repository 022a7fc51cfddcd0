//! `threadfold backup`: a copy of the store, also while it is in use.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use crate::error::CommandError;
use crate::printable::printable;
use crate::store::StoreArgs;
use crate::view::size;

/// Copy the store to a file, as it is at one moment
///
/// Others may write to it meanwhile. The copy is a store of its own: `--store` uses it.
#[derive(Args)]
pub(crate) struct BackupArgs {
    /// Write to this file
    file: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &BackupArgs) -> Result<(), CommandError> {
    let store = args.store.open_to_read()?;
    let place = args.file.display();
    let own = store.location().file();
    let is_itself = || Some(args.file.canonicalize().ok()? == own?.canonicalize().ok()?);
    if is_itself() == Some(true) {
        return Err(CommandError::new(
            anyhow!("`{place}` is the store itself"),
            "give another file",
        ));
    }
    if args.file.metadata().is_ok_and(|it| !it.is_file()) {
        return Err(CommandError::new(anyhow!("`{place}` is no file"), "give another file"));
    }
    if args.file.exists() && !args.force {
        return Err(CommandError::new(
            anyhow!("`{place}` is there already"),
            "`--force` replaces it",
        ));
    }
    store.wait(store.shared().backup(&args.file))?;
    let bytes = args.file.metadata().map_or(0, |it| it.len());
    let bytes = size(usize::try_from(bytes).unwrap_or(usize::MAX));
    writeln!(io::stdout(), "wrote  {}  {bytes}", printable(&place.to_string()))?;
    Ok(())
}

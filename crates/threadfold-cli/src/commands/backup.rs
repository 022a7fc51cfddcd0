//! `threadfold backup`: copies the store, even while it is in use.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use threadfold_engine::{copy_session, holder};

use crate::error::CommandError;
use crate::printable::printable;
use crate::store::{OpenStore, StoreArgs, StoreLocation};
use crate::unfinished::unfinished_path;
use crate::view::size;

/// Copy the store to a file, as a consistent snapshot
///
/// Other processes may keep writing. Use the copy with `--store`.
#[derive(Args)]
pub(crate) struct BackupArgs {
    /// Write to this file
    file: PathBuf,
    /// Overwrite an existing file
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
            "use another file",
        ));
    }
    if args.file.metadata().is_ok_and(|it| !it.is_file()) {
        return Err(CommandError::new(anyhow!("`{place}` is not a file"), "use another file"));
    }
    if args.file.exists() && !args.force {
        return Err(CommandError::new(
            anyhow!("`{place}` already exists"),
            "`--force` replaces it",
        ));
    }
    let unfinished = store.unfinished_files();
    let unfinished_file = unfinished_path(&args.file, None);
    unfinished.add(&unfinished_file);
    if own.is_some() {
        store.wait(store.shared().backup(&args.file))?;
    } else {
        copy_to_file(&store, &unfinished_file, &args.file)?;
    }
    drop(unfinished);
    let bytes = args.file.metadata().map_or(0, |it| it.len());
    let bytes = size(usize::try_from(bytes).unwrap_or(usize::MAX));
    writeln!(io::stdout(), "wrote  {}  {bytes}", printable(&place.to_string()))?;
    Ok(())
}

/// Copies the sessions of a database into a file, which gets its name when it is complete.
fn copy_to_file(store: &OpenStore, unfinished: &Path, file: &Path) -> Result<(), CommandError> {
    let target = OpenStore::named_to_write(StoreLocation::File(unfinished.to_owned()))?;
    for entry in store.sessions()? {
        let (source, shared) = (store.shared(), target.shared());
        let holder = holder("threadfold backup");
        let copy = copy_session(&source, &shared, &entry.session, &holder, |_| {});
        target.wait(copy)?;
    }
    // Closing it moves everything into the one file.
    drop(target);
    Ok(fs::rename(unfinished, file)?)
}

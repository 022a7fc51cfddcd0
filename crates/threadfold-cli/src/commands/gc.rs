//! `threadfold gc`: room in the store that nothing uses.

use std::io::{self, Write};

use clap::Args;
use threadfold_fold::Timestamp;
use threadfold_store::Store;

use crate::error::CommandError;
use crate::store::StoreArgs;
use crate::view::{count, size};

/// What is younger may be in use by somebody who is not done yet.
const GRACE: i64 = 60 * 60 * 1000;

/// Free the room of what no session uses any more
///
/// The file does not become smaller: what comes next uses the room. `backup` writes a file without
/// it.
#[derive(Args)]
pub(crate) struct GcArgs {
    /// Free also what was stored within the last hour; nobody else may be writing
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &GcArgs) -> Result<(), CommandError> {
    let store = args.store.open()?;
    let before = match args.now {
        true => Timestamp(threadfold_store::now().0.saturating_add(1)),
        false => Timestamp(threadfold_store::now().0 - GRACE),
    };
    let collected = store.wait(store.file().collect_garbage(before))?;
    let number = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
    let pieces = count(number(collected.blobs), "piece", "pieces");
    writeln!(io::stdout(), "freed {pieces}, {}", size(number(collected.bytes)))?;
    Ok(())
}

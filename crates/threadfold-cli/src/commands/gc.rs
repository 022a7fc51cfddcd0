//! `threadfold gc`: frees unused space in the store.

use std::io::{self, Write};
use std::time::Duration;

use crate::error::CommandError;
use crate::store::StoreArgs;
use crate::view::{count, size};
use clap::Args;

/// Younger data may belong to a snapshot that another process is still writing.
const GRACE: Duration = Duration::from_secs(60 * 60);

/// Free space used by data that no session references
///
/// The store's file does not shrink; new data reuses the space. `backup` writes a compact copy.
/// Data from the last hour is kept.
#[derive(Args)]
pub(crate) struct GcArgs {
    /// Free data from the last hour, too; no other process may be writing
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &GcArgs) -> Result<(), CommandError> {
    let store = args.store.open()?;
    let age = if args.now { Duration::ZERO } else { GRACE };
    let report = store.wait(store.shared().collect_garbage(age))?;
    let number = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
    let pieces = count(number(report.blobs), "piece", "pieces");
    writeln!(io::stdout(), "freed {pieces}, {}", size(number(report.bytes)))?;
    Ok(())
}

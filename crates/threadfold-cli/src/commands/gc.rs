//! `threadfold gc`: room in the store that nothing uses.

use std::io::{self, Write};
use std::time::Duration;

use crate::error::CommandError;
use crate::store::StoreArgs;
use crate::view::{count, size};
use clap::Args;

/// Younger data may belong to a snapshot that another process is still writing.
const GRACE: Duration = Duration::from_secs(60 * 60);

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
    let age = if args.now { Duration::ZERO } else { GRACE };
    let report = store.wait(store.shared().collect_garbage(age))?;
    let number = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
    let pieces = count(number(report.blobs), "piece", "pieces");
    writeln!(io::stdout(), "freed {pieces}, {}", size(number(report.bytes)))?;
    Ok(())
}

//! `threadfold rm`: removes sessions from the store.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::anyhow;
use clap::Args;
use threadfold_engine::{RemovedSessions, is_gone};
use threadfold_store::{SessionEntry, Store, StoreError};

use crate::error::{CommandError, listed, print_note};
use crate::printable::printable;
use crate::store::StoreArgs;
use crate::view::count;

/// Remove sessions from the store, with all their records
///
/// The agent's own files are not changed, and `threadfold serve` does not import the session from
/// them again; `threadfold import ID` does. The store's file does not shrink; `gc` frees data that no
/// other session shares.
#[derive(Args)]
pub(crate) struct RmArgs {
    /// Sessions to remove: ids or prefixes
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<String>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &RmArgs) -> Result<(), CommandError> {
    let store = args.store.open()?;
    let entries = store.find_all(&args.sessions)?;
    if !args.yes && !asked(&entries)? {
        print_note("nothing was removed");
        return Err(CommandError::No);
    }
    let removed = store.location().file().map(RemovedSessions::open).transpose()?;
    for entry in &entries {
        if let Some(removed) = &removed {
            removed.add(&entry.session)?;
        }
        store.wait(remove(&*store.shared(), entry))?;
        writeln!(io::stdout(), "removed  {}", printable(entry.session.as_str()))?;
    }
    Ok(())
}

/// Removes a session, also one whose writer was killed before it could release its lease.
async fn remove(store: &dyn Store, entry: &SessionEntry) -> Result<(), StoreError> {
    match store.remove(&entry.session).await {
        Err(StoreError::Held { holder, epoch, .. }) if is_gone(&holder) => {
            store.release(&entry.session, epoch).await?;
            store.remove(&entry.session).await
        }
        removed => removed,
    }
}

/// Asks for confirmation, if stdin is a terminal.
fn asked(entries: &[SessionEntry]) -> Result<bool, CommandError> {
    let names = listed(entries.iter().map(|it| it.session.to_string()));
    let what = count(entries.len(), "session", "sessions");
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CommandError::new(
            anyhow!("{what} would be removed permanently, and stdin is not a terminal: {names}"),
            "use `--yes` to skip the confirmation",
        ));
    }
    write!(io::stderr(), "permanently remove {what}: {}? [y/N] ", printable(&names))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

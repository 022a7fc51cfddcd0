//! `threadfold rm`: sessions out of the store, for good.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::anyhow;
use clap::Args;
use threadfold_engine::is_gone;
use threadfold_store::{SessionEntry, Store, StoreError};

use crate::error::{CommandError, listed, say};
use crate::printable::printable;
use crate::store::StoreArgs;
use crate::view::count;

/// Remove sessions from the store, with all their records
///
/// What the agent keeps is not touched. The room in the file is used again; `gc` frees what no
/// other session shares.
#[derive(Args)]
pub(crate) struct RmArgs {
    /// Sessions to remove: ids or the beginnings of some
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &RmArgs) -> Result<(), CommandError> {
    let store = args.store.open()?;
    let entries = store.find_all(&args.sessions)?;
    if !args.yes && !asked(&entries)? {
        say("nothing was removed");
        return Err(CommandError::No);
    }
    for entry in &entries {
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

/// Asks a person, if there is one.
fn asked(entries: &[SessionEntry]) -> Result<bool, CommandError> {
    let names = listed(entries.iter().map(|it| it.session.to_string()));
    let what = count(entries.len(), "session", "sessions");
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CommandError::new(
            anyhow!("{what} would be removed for good, and nobody can be asked: {names}"),
            "`--yes` removes without asking",
        ));
    }
    write!(io::stderr(), "remove {what} for good: {}? [y/N] ", printable(&names))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

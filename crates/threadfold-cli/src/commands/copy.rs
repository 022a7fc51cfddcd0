//! `threadfold copy`: copies sessions from one store to another.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use anyhow::anyhow;
use clap::Args;
use threadfold_engine::{copy_session, holder};
use threadfold_store::SessionEntry;

use crate::error::CommandError;
use crate::printable::one_line;
use crate::store::{OpenStore, StoreLocation};
use crate::view::{count, number};

/// Copy sessions from one store to another
///
/// A store is a file, or `postgres://USER@HOST/DATABASE`. Every record is compared afterwards. A
/// copy that was interrupted continues where it ended; a session that has grown since gets what is
/// new. Snapshots are not copied; they are rebuilt when needed.
#[derive(Args)]
pub(crate) struct CopyArgs {
    /// Copy these sessions, by id or a prefix of it; all of them if none is given
    sessions: Vec<String>,
    /// Copy from this store
    #[arg(long, value_name = "STORE")]
    from: OsString,
    /// Copy to this store; it is created if it does not exist
    #[arg(long, value_name = "STORE")]
    to: OsString,
}

pub(crate) fn run(args: &CopyArgs) -> Result<(), CommandError> {
    let (from, to) = (StoreLocation::parse(&args.from)?, StoreLocation::parse(&args.to)?);
    if from == to {
        return Err(CommandError::new(anyhow!("`{from}` is both stores"), "name two stores"));
    }
    let from = OpenStore::named_to_read(from)?;
    let to = OpenStore::named_to_write(to)?;
    copy_all(&from, &to, from.find_all(&args.sessions)?)
}

/// Copies sessions, and prints a line for each.
fn copy_all(
    from: &OpenStore,
    to: &OpenStore,
    sessions: Vec<SessionEntry>,
) -> Result<(), CommandError> {
    let (source, target, holder) = (from.shared(), to.shared(), holder("threadfold copy"));
    let total = sessions.len();
    let shows_progress = io::stderr().is_terminal();
    for (place, entry) in sessions.into_iter().enumerate() {
        let (session, mut copied) = (&entry.session, 0);
        let progress = |added| {
            copied += added;
            if shows_progress {
                // A failure to draw progress is ignored.
                let (place, records) = (place + 1, number(copied));
                write!(io::stderr(), "\r{place} of {total} sessions, {records} records").ok();
            }
        };
        let report = to.wait(copy_session(&source, &target, session, &holder, progress))?;
        if shows_progress {
            write!(io::stderr(), "\r{}\r", " ".repeat(60)).ok();
        }
        let records =
            |it: u64| count(usize::try_from(it).unwrap_or(usize::MAX), "record", "records");
        let name = one_line(session.as_str());
        match (report.added, report.known) {
            (0, _) => writeln!(io::stdout(), "{name}  unchanged")?,
            (added, 0) => writeln!(io::stdout(), "{name}  copied: {}", records(added))?,
            (added, _) => writeln!(io::stdout(), "{name}  added: {}", records(added))?,
        }
    }
    Ok(())
}

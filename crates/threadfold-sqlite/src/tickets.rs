//! Tickets, each a row until it is used.

use std::time::Duration;

use rusqlite::OptionalExtension;
use threadfold_store::{TicketHash, TicketUse};

use crate::failure::Failure;
use crate::writer::Ledger;

pub(crate) fn add(
    ledger: &mut Ledger<'_>,
    ticket: &TicketHash,
    lifetime: Duration,
    most: u64,
) -> Result<bool, Failure> {
    let (connection, now) = (ledger.connection, ledger.now);
    connection.prepare_cached("DELETE FROM tickets WHERE expires <= ?1")?.execute([now.0])?;
    let insert = "INSERT INTO tickets (hash, expires) SELECT ?1, ?2
                  WHERE (SELECT count(*) FROM tickets) < ?3";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let values = (ticket.as_bytes(), now.after(lifetime).0, most);
    Ok(connection.prepare_cached(insert)?.execute(values)? > 0)
}

pub(crate) fn use_up(ledger: &mut Ledger<'_>, ticket: &TicketHash) -> Result<TicketUse, Failure> {
    let delete = "DELETE FROM tickets WHERE hash = ?1 RETURNING expires";
    let mut statement = ledger.connection.prepare_cached(delete)?;
    let expires: Option<i64> =
        statement.query_row([ticket.as_bytes()], |row| row.get(0)).optional()?;
    Ok(match expires {
        Some(expires) if expires > ledger.now.0 => TicketUse::Accepted,
        Some(_) => TicketUse::Expired,
        None => TicketUse::Unknown,
    })
}

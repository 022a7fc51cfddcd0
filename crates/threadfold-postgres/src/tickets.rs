//! Tickets, each a row until it is used: deleting the row decides who was first, on any machine.

use std::time::Duration;

use threadfold_store::{TicketHash, TicketUse};

use crate::failure::Failure;
use crate::leases::milliseconds;
use crate::store::Database;

pub(crate) async fn add(
    database: &Database,
    ticket: &TicketHash,
    lifetime: Duration,
    most: u64,
) -> Result<bool, Failure> {
    let client = database.client().await?;
    // Rows that another process deletes at this moment are left to it.
    let insert = client
        .prepare_cached(
            "WITH expired AS (
                 DELETE FROM threadfold.tickets WHERE hash IN (
                     SELECT hash FROM threadfold.tickets WHERE expires <= threadfold.now_or($2)
                     LIMIT 1000 FOR UPDATE SKIP LOCKED)
             )
             INSERT INTO threadfold.tickets (hash, expires)
             SELECT $1, threadfold.now_or($2) + $3
             WHERE (SELECT count(*) FROM threadfold.tickets
                    WHERE expires > threadfold.now_or($2)) < $4",
        )
        .await?;
    let (hash, now) = (ticket.as_bytes().as_slice(), database.now());
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    Ok(client.execute(&insert, &[&hash, &now, &milliseconds(lifetime), &most]).await? > 0)
}

pub(crate) async fn use_up(database: &Database, ticket: &TicketHash) -> Result<TicketUse, Failure> {
    let client = database.client().await?;
    let delete = client
        .prepare_cached(
            "DELETE FROM threadfold.tickets WHERE hash = $1
             RETURNING expires > threadfold.now_or($2)",
        )
        .await?;
    let (hash, now) = (ticket.as_bytes().as_slice(), database.now());
    Ok(match client.query_opt(&delete, &[&hash, &now]).await? {
        Some(row) if row.try_get(0)? => TicketUse::Accepted,
        Some(_) => TicketUse::Expired,
        None => TicketUse::Unknown,
    })
}

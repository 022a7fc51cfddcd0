//! Who may write.

use std::time::Duration;

use rusqlite::{Connection, params};
use threadfold_core::SessionId;

use crate::append::check_epoch;
use crate::cache::parse_holder;
use crate::failure::Failure;
use crate::writer::Ledger;
use threadfold_store::StoreError;
use threadfold_store::Timestamp;
use threadfold_store::{Epoch, Holder, Lease};

/// Somebody who wants to write.
pub(crate) struct Claim {
    pub(crate) holder: Holder,
    pub(crate) now: Timestamp,
    pub(crate) lasting: Duration,
    pub(crate) instead_of: Option<Epoch>,
}

pub(crate) fn acquire(
    ledger: &mut Ledger<'_>,
    session: &SessionId,
    claim: Claim,
) -> Result<Lease, Failure> {
    let epoch = ledger.cache.session(ledger.connection, session)?.epoch;
    check_free(ledger.connection, session, claim.now, claim.instead_of)?;
    let lease = Lease {
        epoch: Epoch(epoch.0 + 1),
        holder: claim.holder,
        until: claim.now.after(claim.lasting),
    };
    write(ledger, session, &lease)?;
    Ok(lease)
}

pub(crate) fn renew(
    ledger: &mut Ledger<'_>,
    session: &SessionId,
    epoch: Epoch,
    until: Timestamp,
) -> Result<Lease, Failure> {
    let known = ledger.cache.session(ledger.connection, session)?;
    check_epoch(session, known, epoch)?;
    let lease = Lease { epoch, holder: known.holder.clone().unwrap_or_default(), until };
    write(ledger, session, &lease)?;
    Ok(lease)
}

pub(crate) fn release(
    ledger: &mut Ledger<'_>,
    session: &SessionId,
    epoch: Epoch,
) -> Result<(), Failure> {
    let known = ledger.cache.session(ledger.connection, session)?;
    if known.epoch == epoch {
        known.holder = None;
        ledger
            .connection
            .prepare_cached("UPDATE sessions SET holder = NULL, lease_until = NULL WHERE id = ?1")?
            .execute([known.id])?;
    }
    Ok(())
}

fn write(ledger: &mut Ledger<'_>, session: &SessionId, lease: &Lease) -> Result<(), Failure> {
    let known = ledger.cache.session(ledger.connection, session)?;
    known.epoch = lease.epoch;
    known.holder = Some(lease.holder.clone());
    let holder = serde_json::json!(lease.holder).to_string();
    ledger
        .connection
        .prepare_cached(
            "UPDATE sessions SET epoch = ?2, holder = ?3, lease_until = ?4 WHERE id = ?1",
        )?
        .execute(params![known.id, lease.epoch.0, holder, lease.until.0])?;
    Ok(())
}

/// Refuses while somebody writes, unless that lease is the one that may be passed over.
pub(crate) fn check_free(
    connection: &Connection,
    session: &SessionId,
    now: Timestamp,
    instead_of: Option<Epoch>,
) -> Result<(), Failure> {
    let (epoch, holder, until): (u64, Option<String>, Option<i64>) = connection
        .prepare_cached("SELECT epoch, holder, lease_until FROM sessions WHERE name = ?1")?
        .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let epoch = Epoch(epoch);
    match (holder, until) {
        (Some(holder), Some(until)) if until > now.0 && Some(epoch) != instead_of => {
            let holder = Box::new(parse_holder(&holder)?);
            let session = session.clone();
            Err(StoreError::Held { session, holder, epoch, until: Timestamp(until) }.into())
        }
        _ => Ok(()),
    }
}

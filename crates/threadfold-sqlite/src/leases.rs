//! Leases, in columns of the session's row.

use std::time::Duration;

use rusqlite::{Connection, params};
use threadfold_core::SessionId;
use threadfold_fold::Timestamp;
use threadfold_store::{Epoch, Holder, Lease, StoreError};

use crate::append::check_epoch;
use crate::cache::parse_holder;
use crate::failure::Failure;
use crate::writer::Ledger;

/// A request for a lease.
pub(crate) struct Claim {
    pub(crate) holder: Holder,
    pub(crate) duration: Duration,
    /// The lease that may be taken before it expires.
    pub(crate) except: Option<Epoch>,
}

pub(crate) fn acquire(
    ledger: &mut Ledger<'_>,
    session: &SessionId,
    claim: Claim,
) -> Result<Lease, Failure> {
    let epoch = ledger.cache.session(ledger.connection, session)?.epoch;
    check_free(ledger.connection, session, ledger.now, claim.except)?;
    let epoch = Epoch(epoch.0 + 1);
    let lease = Lease { epoch, holder: claim.holder, remaining: claim.duration };
    write(ledger, session, &lease)?;
    Ok(lease)
}

pub(crate) fn renew(
    ledger: &mut Ledger<'_>,
    session: &SessionId,
    epoch: Epoch,
    duration: Duration,
) -> Result<Lease, Failure> {
    let cached = ledger.cache.session(ledger.connection, session)?;
    check_epoch(session, cached, epoch)?;
    let holder = cached.holder.clone().unwrap_or_default();
    let lease = Lease { epoch, holder, remaining: duration };
    write(ledger, session, &lease)?;
    Ok(lease)
}

pub(crate) fn release(
    ledger: &mut Ledger<'_>,
    session: &SessionId,
    epoch: Epoch,
) -> Result<(), Failure> {
    let cached = ledger.cache.session(ledger.connection, session)?;
    if cached.epoch == epoch {
        cached.holder = None;
        ledger
            .connection
            .prepare_cached("UPDATE sessions SET holder = NULL, lease_until = NULL WHERE id = ?1")?
            .execute([cached.id])?;
    }
    Ok(())
}

fn write(ledger: &mut Ledger<'_>, session: &SessionId, lease: &Lease) -> Result<(), Failure> {
    let until = ledger.now.after(lease.remaining);
    let cached = ledger.cache.session(ledger.connection, session)?;
    cached.epoch = lease.epoch;
    cached.holder = Some(lease.holder.clone());
    let holder = serde_json::json!(lease.holder).to_string();
    ledger
        .connection
        .prepare_cached(
            "UPDATE sessions SET epoch = ?2, holder = ?3, lease_until = ?4 WHERE id = ?1",
        )?
        .execute(params![cached.id, lease.epoch.0, holder, until.0])?;
    Ok(())
}

/// Returns a lease as the columns of a session have it; `None` if it was released.
pub(crate) fn parse(
    epoch: Epoch,
    holder: Option<String>,
    until: Option<i64>,
    now: Timestamp,
) -> Result<Option<Lease>, Failure> {
    let (Some(holder), Some(until)) = (holder, until) else { return Ok(None) };
    let remaining = Timestamp(until).since(now);
    Ok(Some(Lease { epoch, holder: parse_holder(&holder)?, remaining }))
}

/// Refuses while a lease lasts, unless it is the one of epoch `except`.
pub(crate) fn check_free(
    connection: &Connection,
    session: &SessionId,
    now: Timestamp,
    except: Option<Epoch>,
) -> Result<(), Failure> {
    let (epoch, holder, until) = connection
        .prepare_cached("SELECT epoch, holder, lease_until FROM sessions WHERE name = ?1")?
        .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    match parse(Epoch(epoch), holder, until, now)? {
        Some(lease) if !lease.is_expired() && Some(lease.epoch) != except => {
            let Lease { epoch, holder, remaining } = lease;
            let (session, holder) = (session.clone(), Box::new(holder));
            Err(StoreError::Held { session, holder, epoch, remaining }.into())
        }
        _ => Ok(()),
    }
}

//! Leases, in columns of the session's row, timed by the database.

use std::time::Duration;

use deadpool_postgres::Object;
use threadfold_core::SessionId;
use threadfold_fold::Timestamp;
use threadfold_store::{Epoch, Holder, Lease, StoreError};

use crate::failure::Failure;
use crate::schema::LATEST_VERSION;
use crate::sessions::{check_version, epoch, not_found};
use crate::store::Database;

/// How often a lease is asked for that becomes free as it is refused.
const MOST_TRIES: usize = 5;

/// A request for a lease.
pub(crate) struct Claim<'a> {
    pub(crate) holder: &'a Holder,
    pub(crate) duration: Duration,
    /// The lease that may be taken before it expires.
    pub(crate) except: Option<Epoch>,
}

pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 2)
}

pub(crate) async fn acquire(
    database: &Database,
    session: &SessionId,
    claim: Claim<'_>,
) -> Result<Lease, Failure> {
    let Claim { holder, duration, except } = claim;
    let client = database.client().await?;
    let update = client
        .prepare_cached(
            "UPDATE threadfold.sessions
             SET epoch = epoch + 1, holder = $2, lease_until = threadfold.now_or($3) + $4
             WHERE name = $1
               AND (holder IS NULL OR lease_until <= threadfold.now_or($3) OR epoch = $5)
               AND (SELECT version FROM threadfold.store) = $6
             RETURNING epoch",
        )
        .await?;
    let json = serde_json::json!(holder).to_string();
    let except_number = except.map(|it| it.0.cast_signed());
    let (name, now) = (session.as_str().as_bytes(), database.now());
    let lasting = milliseconds(duration);
    for _ in 0..MOST_TRIES {
        let given = client
            .query_opt(&update, &[&name, &json, &now, &lasting, &except_number, &LATEST_VERSION])
            .await?;
        if let Some(row) = given {
            let epoch = epoch(&row, 0)?;
            return Ok(Lease { epoch, holder: holder.clone(), remaining: duration });
        }
        check_version(&**client, &database.place).await?;
        let lease = read(&client, database.now(), session).await?.1;
        // If it is free by now, it has ended or was released between the two statements.
        check_free(session, lease, except)?;
    }
    let source = "other processes acquired and released the lease every time".into();
    Err(StoreError::Unreachable { place: database.place.clone(), source }.into())
}

pub(crate) async fn renew(
    database: &Database,
    session: &SessionId,
    ours: Epoch,
    duration: Duration,
) -> Result<Lease, Failure> {
    let client = database.client().await?;
    let update = client
        .prepare_cached(
            "UPDATE threadfold.sessions
             SET holder = coalesce(holder, $3), lease_until = threadfold.now_or($4) + $5
             WHERE name = $1 AND epoch = $2 AND (SELECT version FROM threadfold.store) = $6
             RETURNING holder",
        )
        .await?;
    let nobody = serde_json::json!(Holder::default()).to_string();
    let (name, number) = (session.as_str().as_bytes(), ours.0.cast_signed());
    let (now, lasting) = (database.now(), milliseconds(duration));
    let renewed = client
        .query_opt(&update, &[&name, &number, &nobody, &now, &lasting, &LATEST_VERSION])
        .await?;
    if let Some(row) = renewed {
        let holder = parse_holder(row.try_get(0)?)?;
        return Ok(Lease { epoch: ours, holder, remaining: duration });
    }
    check_version(&**client, &database.place).await?;
    let (current, lease) = read(&client, database.now(), session).await?;
    Err(fenced(session, ours, current, lease).into())
}

pub(crate) async fn release(
    database: &Database,
    session: &SessionId,
    epoch: Epoch,
) -> Result<(), Failure> {
    let client = database.client().await?;
    let update = client
        .prepare_cached(
            "UPDATE threadfold.sessions SET holder = NULL, lease_until = NULL
             WHERE name = $1 AND epoch = $2",
        )
        .await?;
    let name = session.as_str().as_bytes();
    if client.execute(&update, &[&name, &epoch.0.cast_signed()]).await? == 0 {
        read(&client, database.now(), session).await?;
    }
    Ok(())
}

pub(crate) fn fenced(
    session: &SessionId,
    ours: Epoch,
    current: Epoch,
    lease: Option<Lease>,
) -> StoreError {
    let holder = Box::new(lease.map(|it| it.holder).unwrap_or_default());
    StoreError::Fenced { session: session.clone(), ours, current, holder }
}

/// Returns the latest epoch of a session, and its lease.
///
/// Over the connection of its caller: if each of many callers had one and waited for another, all of
/// them would wait for ever.
async fn read(
    client: &Object,
    now: Option<i64>,
    session: &SessionId,
) -> Result<(Epoch, Option<Lease>), Failure> {
    let select = client
        .prepare_cached(
            "SELECT epoch, holder, lease_until, threadfold.now_or($2)
             FROM threadfold.sessions WHERE name = $1",
        )
        .await?;
    let name = session.as_str().as_bytes();
    let row = client.query_opt(&select, &[&name, &now]).await?;
    let row = row.ok_or_else(|| not_found(session))?;
    let epoch = epoch(&row, 0)?;
    let now = Timestamp(row.try_get(3)?);
    Ok((epoch, parse(epoch, row.try_get(1)?, row.try_get(2)?, now)?))
}

/// Returns a lease as the columns of a session have it; `None` if it was released.
pub(crate) fn parse(
    epoch: Epoch,
    holder: Option<&str>,
    until: Option<i64>,
    now: Timestamp,
) -> Result<Option<Lease>, Failure> {
    let (Some(holder), Some(until)) = (holder, until) else { return Ok(None) };
    let remaining = Timestamp(until).since(now);
    Ok(Some(Lease { epoch, holder: parse_holder(holder)?, remaining }))
}

fn parse_holder(json: &str) -> Result<Holder, Failure> {
    serde_json::from_str(json)
        .map_err(|_| Failure::Corrupt("the holder of a lease is not JSON".to_owned()))
}

/// Refuses while a lease lasts, unless it is the one of epoch `except`.
pub(crate) fn check_free(
    session: &SessionId,
    lease: Option<Lease>,
    except: Option<Epoch>,
) -> Result<(), Failure> {
    match lease {
        Some(lease) if !lease.is_expired() && Some(lease.epoch) != except => {
            let Lease { epoch, holder, remaining } = lease;
            let (session, holder) = (session.clone(), Box::new(holder));
            Err(StoreError::Held { session, holder, epoch, remaining }.into())
        }
        _ => Ok(()),
    }
}

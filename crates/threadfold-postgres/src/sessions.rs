//! Creates, lists and removes sessions.

use deadpool_postgres::Object;
use threadfold_core::SessionId;
use threadfold_fold::{LogId, Timestamp};
use threadfold_store::{Epoch, ListQuery, LogHead, SessionEntry, SessionPage, StoreError, Summary};
use tokio_postgres::{GenericClient, Row};

use crate::failure::Failure;
use crate::leases;
use crate::schema::{LATEST_VERSION, newer};
use crate::store::Database;

pub(crate) fn not_found(session: &SessionId) -> Failure {
    StoreError::NotFound { session: session.clone() }.into()
}

pub(crate) async fn create(
    database: &Database,
    session: &SessionId,
    log: &LogId,
) -> Result<LogHead, Failure> {
    let client = database.client().await?;
    // The row of the store is locked, so that a removal of the same name is either over, or begins
    // after this: otherwise the new session could get an epoch of the removed one.
    let insert = client
        .prepare_cached(
            "INSERT INTO threadfold.sessions (name, log, created, epoch)
             SELECT $1, $2, threadfold.now_or($3), removed_epoch
             FROM (SELECT removed_epoch FROM threadfold.store WHERE version = $4 FOR SHARE) AS it
             ON CONFLICT (name) DO NOTHING RETURNING epoch",
        )
        .await?;
    let (name, now) = (session.as_str().as_bytes(), database.now());
    let created = client.query_opt(&insert, &[&name, &log.as_str(), &now, &LATEST_VERSION]).await?;
    if let Some(row) = created {
        database.wakes.changed(session);
        return Ok(LogHead { log: log.clone(), seq: 0, epoch: epoch(&row, 0)? });
    }
    check_version(&**client, &database.place).await?;
    head_with(&client, session).await?.ok_or_else(|| not_found(session))
}

/// Refuses to write to tables of a newer version.
pub(crate) async fn check_version(client: &impl GenericClient, place: &str) -> Result<(), Failure> {
    let found = client.query_one("SELECT version FROM threadfold.store", &[]).await?;
    match found.try_get(0)? {
        LATEST_VERSION => Ok(()),
        found => Err(newer(place, found).into()),
    }
}

/// Returns a count or a sequence number, which is never negative.
pub(crate) fn number(row: &Row, column: usize) -> Result<u64, Failure> {
    Ok(row.try_get::<_, i64>(column)?.cast_unsigned())
}

pub(crate) fn epoch(row: &Row, column: usize) -> Result<Epoch, Failure> {
    Ok(Epoch(number(row, column)?))
}

pub(crate) async fn head(
    database: &Database,
    session: &SessionId,
) -> Result<Option<LogHead>, Failure> {
    head_with(&database.client().await?, session).await
}

/// Over the connection of its caller, who would else have one and wait for another.
async fn head_with(client: &Object, session: &SessionId) -> Result<Option<LogHead>, Failure> {
    let select = client
        .prepare_cached("SELECT log, head, epoch FROM threadfold.sessions WHERE name = $1")
        .await?;
    let found = client.query_opt(&select, &[&session.as_str().as_bytes()]).await?;
    found
        .map(|row| {
            let log = LogId::from(row.try_get::<_, String>(0)?);
            Ok(LogHead { log, seq: number(&row, 1)?, epoch: epoch(&row, 2)? })
        })
        .transpose()
}

/// Returns the row id of a session; refused if there is no such session.
pub(crate) async fn session_id(
    client: &impl GenericClient,
    session: &SessionId,
) -> Result<i64, Failure> {
    let select = "SELECT id FROM threadfold.sessions WHERE name = $1";
    let found = client.query_opt(select, &[&session.as_str().as_bytes()]).await?;
    Ok(found.ok_or_else(|| not_found(session))?.try_get(0)?)
}

const ENTRY: &str = "SELECT name, log, created, epoch, head, latest, holder, lease_until,
                            summary_generation, summary_seq, summary, threadfold.now_or($1)
                     FROM threadfold.sessions";

pub(crate) async fn entry(
    database: &Database,
    session: &SessionId,
) -> Result<Option<SessionEntry>, Failure> {
    let client = database.client().await?;
    let select = client.prepare_cached(&format!("{ENTRY} WHERE name = $2")).await?;
    let name = session.as_str().as_bytes();
    let found = client.query_opt(&select, &[&database.now(), &name]).await?;
    found.as_ref().map(read_entry).transpose()
}

pub(crate) async fn list(database: &Database, query: &ListQuery) -> Result<SessionPage, Failure> {
    let prefix = query.prefix.as_bytes();
    // Whichever is later; every id with the prefix is at or after the prefix itself.
    let (condition, start) = match &query.after {
        Some(after) if after.as_str() >= query.prefix.as_str() => (">", after.as_str()),
        _ => (">=", query.prefix.as_str()),
    };
    let limit = query.limit.max(1);
    let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let client = database.client().await?;
    let sql = format!("{ENTRY} WHERE name {condition} $2 ORDER BY name LIMIT $3");
    let select = client.prepare_cached(&sql).await?;
    let rows = client.query(&select, &[&database.now(), &start.as_bytes(), &one_more]).await?;
    let mut entries = Vec::new();
    for row in &rows {
        if !row.try_get::<_, &[u8]>(0)?.starts_with(prefix) {
            break;
        }
        entries.push(read_entry(row)?);
    }
    Ok(SessionPage::cut(entries, limit))
}

fn read_entry(row: &Row) -> Result<SessionEntry, Failure> {
    let name = std::str::from_utf8(row.try_get(0)?)
        .map_err(|_| Failure::Corrupt("the id of a session is not UTF-8".to_owned()))?;
    let (created, latest): (i64, Option<i64>) = (row.try_get(2)?, row.try_get(5)?);
    let (epoch, now) = (epoch(row, 3)?, Timestamp(row.try_get(11)?));
    let summary = match (
        row.try_get::<_, Option<i64>>(8)?.and_then(|it| u32::try_from(it).ok()),
        row.try_get::<_, Option<i64>>(9)?,
        row.try_get(10)?,
    ) {
        (Some(generation), Some(seq), Some(json)) => {
            Some(Summary { generation, seq: seq.cast_unsigned(), json })
        }
        _ => None,
    };
    let log = LogId::from(row.try_get::<_, String>(1)?);
    Ok(SessionEntry {
        session: SessionId::from(name),
        head: LogHead { log, seq: number(row, 4)?, epoch },
        created: Timestamp(created),
        updated: Timestamp(latest.unwrap_or(created)),
        lease: leases::parse(epoch, row.try_get(6)?, row.try_get(7)?, now)?,
        summary,
    })
}

pub(crate) async fn put_summary(
    database: &Database,
    session: &SessionId,
    log: &LogId,
    summary: &Summary,
) -> Result<(), Failure> {
    let client = database.client().await?;
    // Inverting the first bit orders the numbers as if they had no sign.
    let update = client
        .prepare_cached(
            "UPDATE threadfold.sessions
             SET summary_generation = $3, summary_seq = $4, summary = $5
             WHERE name = $1 AND log = $2
               AND (summary IS NULL
                    OR (summary_generation, summary_seq # (-9223372036854775808))
                       <= ($3, $4 # (-9223372036854775808)))",
        )
        .await?;
    let (generation, seq) = (i64::from(summary.generation), summary.seq.cast_signed());
    let name = session.as_str().as_bytes();
    let updated =
        client.execute(&update, &[&name, &log.as_str(), &generation, &seq, &summary.json]).await?;
    if updated == 0 {
        // A late summary is ignored; one of a session that does not exist is refused.
        session_id(&**client, session).await?;
    }
    Ok(())
}

pub(crate) async fn remove(database: &Database, session: &SessionId) -> Result<(), Failure> {
    let mut client = database.client().await?;
    let transaction = client.transaction().await?;
    let select = "SELECT id, epoch, holder, lease_until, threadfold.now_or($2)
                  FROM threadfold.sessions WHERE name = $1 FOR UPDATE";
    let name = session.as_str().as_bytes();
    let row = transaction.query_opt(select, &[&name, &database.now()]).await?;
    let row = row.ok_or_else(|| not_found(session))?;
    let now = Timestamp(row.try_get(4)?);
    let lease = leases::parse(epoch(&row, 1)?, row.try_get(2)?, row.try_get(3)?, now)?;
    leases::check_free(session, lease, None)?;
    let (id, last): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let note = "UPDATE threadfold.store SET removed_epoch = greatest(removed_epoch, $1::bigint + 1)
                WHERE version = $2";
    if transaction.execute(note, &[&last, &LATEST_VERSION]).await? == 0 {
        check_version(&*transaction, &database.place).await?;
    }
    transaction.execute("DELETE FROM threadfold.sessions WHERE id = $1", &[&id]).await?;
    transaction.commit().await?;
    database.wakes.changed(session);
    Ok(())
}

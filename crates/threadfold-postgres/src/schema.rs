//! The tables, and migrations from older versions.

use threadfold_store::StoreError;
use tokio_postgres::Transaction;
use tokio_postgres::error::SqlState;

use crate::failure::Failure;

/// The migration to each version from the one before.
const MIGRATIONS: &[&str] = &[include_str!("schema/1.sql"), include_str!("schema/2.sql")];

/// The newest version that this program supports.
pub(crate) const LATEST_VERSION: i32 = MIGRATIONS.len() as i32;

/// The number of the lock that a migration holds: `threadfo` as bytes.
const LOCK: i64 = 0x7468_7265_6164_666f;

/// Returns the version of the tables; 0 if there are none.
pub(crate) async fn version(client: &tokio_postgres::Client) -> Result<i32, Failure> {
    match client.query_one("SELECT version FROM threadfold.store", &[]).await {
        Ok(row) => Ok(row.try_get(0)?),
        Err(error) => match error.code() {
            Some(&SqlState::UNDEFINED_TABLE | &SqlState::INVALID_SCHEMA_NAME) => Ok(0),
            _ => Err(error.into()),
        },
    }
}

/// Migrates the tables to the latest version, or creates them. Several processes may try at once.
pub(crate) async fn migrate(transaction: Transaction<'_>, place: &str) -> Result<(), Failure> {
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    let there = "SELECT to_regclass('threadfold.store') IS NOT NULL";
    let has_tables: bool = transaction.query_one(there, &[]).await?.try_get(0)?;
    let found: i32 = if has_tables {
        transaction.query_one("SELECT version FROM threadfold.store", &[]).await?.try_get(0)?
    } else {
        transaction.batch_execute("CREATE SCHEMA IF NOT EXISTS threadfold").await?;
        0
    };
    let missing = usize::try_from(found).ok().and_then(|found| MIGRATIONS.get(found..));
    let Some(missing) = missing else { return Err(newer(place, found).into()) };
    for migration in missing {
        transaction.batch_execute(migration).await?;
    }
    if !missing.is_empty() {
        let set = "UPDATE threadfold.store SET version = $1";
        transaction.execute(set, &[&LATEST_VERSION]).await?;
    }
    transaction.commit().await?;
    Ok(())
}

pub(crate) fn newer(place: &str, found: i32) -> StoreError {
    StoreError::Newer {
        place: place.to_owned(),
        found: u32::try_from(found).unwrap_or_default(),
        known: LATEST_VERSION.unsigned_abs(),
    }
}

//! Measures the store.

use threadfold_store::StoreSize;

use crate::failure::Failure;
use crate::sessions::number;
use crate::store::Database;

pub(crate) async fn measure(database: &Database) -> Result<StoreSize, Failure> {
    let client = database.client().await?;
    // PostgreSQL reuses free room without telling how much there is.
    let select = "SELECT count(*), coalesce(sum(head), 0)::bigint,
                         (SELECT count(*) FROM threadfold.blobs),
                         (SELECT coalesce(sum(length), 0)::bigint FROM threadfold.blobs),
                         (SELECT coalesce(sum(length(data)), 0)::bigint FROM threadfold.blobs),
                         (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
                          FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                          WHERE n.nspname = 'threadfold' AND c.relkind = 'r')
                  FROM threadfold.sessions";
    let row = client.query_one(select, &[]).await?;
    Ok(StoreSize {
        sessions: number(&row, 0)?,
        records: number(&row, 1)?,
        blobs: number(&row, 2)?,
        blob_bytes: number(&row, 3)?,
        stored_blob_bytes: number(&row, 4)?,
        file_bytes: number(&row, 5)?,
        free_bytes: 0,
    })
}

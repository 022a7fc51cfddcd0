//! How much room logs take, however they were written.

use std::error::Error;
use std::sync::Arc;

use rusqlite::Connection;
use threadfold_sqlite::SqliteStore;
use threadfold_store::Store;
use threadfold_testkit::store_suite::{Writer, line, run};

type Result = std::result::Result<(), Box<dyn Error>>;

/// Returns the number of rows in the tails, and how many bytes all records take.
fn stored(path: &std::path::Path) -> std::result::Result<(u64, u64), Box<dyn Error>> {
    let connection = Connection::open(path)?;
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u64>(0));
    let rows = number("SELECT count(*) FROM tail")?;
    let tail = number("SELECT coalesce(sum(length(data)), 0) FROM tail")?;
    let blobs = number("SELECT coalesce(sum(length(data)), 0) FROM blobs")?;
    Ok((rows, tail + blobs))
}

fn size(writer: &Writer) -> u64 {
    writer.written.iter().map(|it| it.bytes.len() as u64).sum()
}

#[test]
fn a_long_append_is_in_groups_at_once_and_so_is_what_precedes_it() -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    run(async {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("it opens"));
        let mut writer = Writer::begin(&store, "session").await;
        writer.append(vec![line(&writer.session, 0)]).await.expect("it is in order");
        let many = (1..8_000).map(|number| line(&writer.session, number)).collect();
        writer.append(many).await.expect("it is in order");
        assert!(size(&writer) > 400_000, "{} bytes are not long", size(&writer));
        let (rows, bytes) = stored(&path).expect("it can be read");
        assert_eq!(rows, 0, "rows are in the tail");
        assert!(bytes < size(&writer) / 3, "{bytes} bytes for {}", size(&writer));
        writer.append(vec![line(&writer.session, 8_000)]).await.expect("it is in order");
        writer.check().await;
    });
    Ok(())
}

#[test]
fn a_shorter_append_is_compressed_in_the_tail() -> Result {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.db");
    run(async {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("it opens"));
        let mut writer = Writer::begin(&store, "session").await;
        let some = (0..300).map(|number| line(&writer.session, number)).collect();
        writer.append(some).await.expect("it is in order");
        let (rows, bytes) = stored(&path).expect("it can be read");
        assert_eq!(rows, 1);
        assert!(bytes < size(&writer) / 3, "{bytes} bytes for {}", size(&writer));
        writer.check().await;
    });
    Ok(())
}

//! The disk space of forks.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use threadfold_fold::{Record, RecordKind, Timestamp};
use threadfold_sqlite::SqliteStore;
use threadfold_store::Maintenance;
use threadfold_testkit::big_session::write_transcript;

use crate::appends::{Log, claim};
use crate::{Outcome, new_store};

const FORKS: usize = 20;
const ORIGINAL: &str = "0b1d8a52-6c0f-4e0e-9f35-000000000000";

/// Measures one session of many lines, and its forks.
pub(crate) async fn measure(folder: &Path) -> Outcome<()> {
    let mut transcript = Vec::new();
    write_transcript(20_000_000, &mut transcript)?;
    let transcript = String::from_utf8(transcript)?;
    let id = session_id(&transcript)?;
    let store = Arc::new(new_store(folder, "room")?);
    import(&store, ORIGINAL, &transcript.replace(&id, ORIGINAL)).await?;
    let one = taken(&store).await?;
    for fork in 1..=FORKS {
        let name = format!("{fork:08x}-6c0f-4e0e-9f35-000000000000");
        let mut lines = transcript.replace(&id, &name);
        for extra in 0..5 {
            lines.push_str(&format!("{{\"sessionId\":\"{name}\",\"new\":{extra}}}\n"));
        }
        import(&store, &name, &lines).await?;
    }
    let all = taken(&store).await?;
    let raw = transcript.len() as f64;
    println!("\nroom on disk, MB\n");
    println!("{:<44} {:>12.2}", "a session's lines", raw / 1e6);
    println!("{:<44} {:>12.2}", "the store with it", one / 1e6);
    println!("{:<44} {:>12.2}", "the store with it and 20 forks", all / 1e6);
    println!("\nratios of this run");
    claim("store / lines, one session", one / raw, "less than 1");
    claim("what 20 forks add / one session's lines", (all - one) / raw, "less than 1");
    Ok(())
}

/// Returns the id that the lines carry.
fn session_id(transcript: &str) -> Outcome<String> {
    let (_, rest) = transcript.split_once("\"sessionId\":\"").ok_or("lines without a session")?;
    let (id, _) = rest.split_once('"').ok_or("lines without a session")?;
    Ok(id.to_owned())
}

async fn import(store: &Arc<SqliteStore>, name: &str, lines: &str) -> Outcome<()> {
    let mut log = Log::begin(store, name).await?;
    let mut position = 0;
    let mut records = Vec::new();
    for line in lines.split_inclusive('\n') {
        let (kind, received) = (RecordKind::Line, Timestamp(0));
        let bytes = Bytes::copy_from_slice(line.as_bytes());
        records.push(Record { kind, source: 1, position, received, bytes });
        position += line.len() as u64;
        if records.len() == 1000 {
            log.append(std::mem::take(&mut records)).await?;
        }
    }
    log.append(records).await
}

/// Returns the bytes in use.
async fn taken(store: &SqliteStore) -> Outcome<f64> {
    let copy = tempfile::tempdir()?;
    let path = copy.path().join("copy.db");
    store.backup(&path).await?;
    Ok(std::fs::metadata(path)?.len() as f64)
}

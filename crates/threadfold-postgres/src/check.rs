//! Checks the whole store: every blob against its hash, every log for gaps, every snapshot against
//! its manifest.

use std::collections::HashMap;

use deadpool_postgres::Object;
use threadfold_core::SessionId;
use threadfold_store::{BlobHash, Finding, Limit, ListQuery, Remedy, SessionEntry, Subject};

use crate::blobs;
use crate::failure::Failure;
use crate::records;
use crate::sessions;
use crate::snapshots::manifest;
use crate::store::Database;

/// How many blobs one query returns.
const BLOBS: i64 = 64;

pub(crate) async fn check(database: &Database) -> Result<Vec<Finding>, Failure> {
    let client = database.client().await?;
    let mut findings = Vec::new();
    check_blobs(&client, &mut findings).await?;
    let mut query = ListQuery::default();
    loop {
        let page = sessions::list(database, &query).await?;
        for entry in &page.entries {
            check_log(database, entry, &mut findings).await?;
            check_snapshots(&client, &entry.session, &mut findings).await?;
        }
        match page.next {
            None => return Ok(findings),
            next => query.after = next,
        }
    }
}

async fn check_blobs(client: &Object, findings: &mut Vec<Finding>) -> Result<(), Failure> {
    let select = "SELECT hash, data, length, id FROM threadfold.blobs WHERE id > $1
                  ORDER BY id LIMIT $2";
    let mut after: i64 = 0;
    loop {
        let rows = client.query(select, &[&after, &BLOBS]).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.try_get(3)?;
        for row in &rows {
            match blobs::open(row, 0) {
                Err(Failure::Corrupt(problem)) => {
                    let subject = Subject::Blob(row.try_get(3)?);
                    findings.push(Finding::new(subject, problem, Remedy::RestoreStore));
                }
                opened => drop(opened?),
            }
        }
    }
}

/// Reads a log from its first record to the end that its session's row has.
async fn check_log(
    database: &Database,
    entry: &SessionEntry,
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let (session, until) = (&entry.session, entry.head.seq);
    let mut after = 0;
    while after < until {
        let limit = Limit { until, ..Limit::default() };
        let problem = match records::read(database, session, after, limit).await {
            Ok(records) => match records.last() {
                Some(last) => {
                    after = last.seq;
                    continue;
                }
                None => format!("the log ends before record {until}"),
            },
            Err(Failure::Corrupt(problem)) => problem,
            // It was removed meanwhile.
            Err(Failure::Refused(_)) => return Ok(()),
            Err(other) => return Err(other),
        };
        let subject = Subject::Records { session: session.clone(), first: after + 1 };
        findings.push(Finding::new(subject, problem, Remedy::RestoreSession));
        return Ok(());
    }
    Ok(())
}

async fn check_snapshots(
    client: &Object,
    session: &SessionId,
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let select = "SELECT s.id, s.generation, s.seq, s.manifest, b.hash
                  FROM threadfold.snapshots AS s
                  JOIN threadfold.sessions AS it ON it.id = s.session
                  LEFT JOIN threadfold.snapshot_chunks AS c ON c.snapshot = s.id
                  LEFT JOIN threadfold.blobs AS b ON b.id = c.blob
                  WHERE it.name = $1 ORDER BY s.id, c.number";
    let mut found: HashMap<i64, (u32, u64, BlobHash, Vec<BlobHash>)> = HashMap::new();
    for row in &client.query(select, &[&session.as_str().as_bytes()]).await? {
        let generation = u32::try_from(row.try_get::<_, i64>(1)?).unwrap_or(u32::MAX);
        let (seq, expected) = (sessions::number(row, 2)?, blobs::hash(row, 3)?);
        let snapshot =
            found.entry(row.try_get(0)?).or_insert_with(|| (generation, seq, expected, Vec::new()));
        if row.try_get::<_, Option<&[u8]>>(4)?.is_some() {
            snapshot.3.push(blobs::hash(row, 4)?);
        }
    }
    for (generation, seq, expected, pieces) in found.into_values() {
        if manifest(&pieces) != expected {
            let subject = Subject::Snapshot { session: session.clone(), generation, seq };
            let problem = "the pieces of a snapshot do not match its manifest";
            findings.push(Finding::new(subject, problem, Remedy::Rebuild));
        }
    }
    Ok(())
}

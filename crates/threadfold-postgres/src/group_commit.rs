//! Writes the appends that wait at the same time together: one round trip and one sync of the disk
//! for all of them.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use threadfold_store::StoreError;
use threadfold_store::pack::PreparedAppend;
use tokio::sync::{mpsc, oneshot};

use crate::compact::Compactions;
use crate::failure::Failure;
use crate::schema::LATEST_VERSION;
use crate::store::Database;

/// How many appends one statement writes at most, and how many bytes.
const MOST_APPENDS: usize = 512;
const MOST_BYTES: usize = 4 << 20;

/// Hands appends to the task that writes them.
pub(crate) struct GroupCommit {
    queue: mpsc::Sender<PendingAppend>,
}

/// An append, and who waits for it.
struct PendingAppend {
    append: PreparedAppend,
    done: oneshot::Sender<Result<(PreparedAppend, bool), Failure>>,
}

impl GroupCommit {
    pub(crate) fn start(database: Arc<Database>) -> Self {
        let (queue, waiting) = mpsc::channel(MOST_APPENDS);
        // It ends when the store is dropped, after it has written what was handed over.
        tokio::spawn(write_all(database, waiting));
        Self { queue }
    }

    /// Writes an append. Returns it, and whether it was written: it is not if its session, its epoch
    /// or its place are others by now.
    pub(crate) async fn write(
        &self,
        append: PreparedAppend,
    ) -> Result<(PreparedAppend, bool), Failure> {
        let (done, outcome) = oneshot::channel();
        let closed = || {
            let source = "the task that writes appends has ended".into();
            StoreError::Unreachable { place: "the database".to_owned(), source }
        };
        let pending = PendingAppend { append, done };
        self.queue.send(pending).await.map_err(|_| closed())?;
        outcome.await.map_err(|_| closed())?
    }
}

async fn write_all(database: Arc<Database>, mut queue: mpsc::Receiver<PendingAppend>) {
    let compactions = Compactions::default();
    let mut waiting = VecDeque::new();
    loop {
        if waiting.is_empty() {
            match queue.recv().await {
                Some(first) => waiting.push_back(first),
                None => return,
            }
        }
        while waiting.len() < MOST_APPENDS
            && let Ok(next) = queue.try_recv()
        {
            waiting.push_back(next);
        }
        let group = take_group(&mut waiting);
        match write(&database, &group).await {
            Ok(written) => {
                for (pending, tail) in group.into_iter().zip(written) {
                    if let Some((rows, bytes)) = tail {
                        compactions.consider(&database, &pending.append.session, rows, bytes);
                    }
                    // Nobody waits any more: the append is written all the same.
                    pending.done.send(Ok((pending.append, tail.is_some()))).ok();
                }
            }
            // Locks were taken in another order elsewhere. One at a time, that cannot happen.
            Err(failure) if failure.is_rivalry() && group.len() > 1 => {
                for pending in group {
                    let alone = [pending];
                    let outcome = write(&database, &alone).await;
                    let [pending] = alone;
                    let outcome =
                        outcome.map(|written| written.first().is_some_and(Option::is_some));
                    pending.done.send(outcome.map(|it| (pending.append, it))).ok();
                }
            }
            Err(failure) => {
                for pending in group {
                    if let Some(failure) = failure.shared() {
                        pending.done.send(Err(failure)).ok();
                    }
                }
            }
        }
    }
}

/// Takes appends from the queue that one statement can write: at most one of each session, because
/// the second can only be checked after the first.
fn take_group(waiting: &mut VecDeque<PendingAppend>) -> Vec<PendingAppend> {
    let mut sessions = HashSet::new();
    let (mut group, mut later, mut bytes) = (Vec::new(), VecDeque::new(), 0);
    for pending in waiting.drain(..) {
        let is_room = group.is_empty() || bytes + pending.append.row().len() <= MOST_BYTES;
        if is_room && sessions.insert(pending.append.session.clone()) {
            bytes += pending.append.row().len();
            group.push(pending);
        } else {
            later.push_back(pending);
        }
    }
    *waiting = later;
    // In one order everywhere, so that no two statements wait for each other's rows.
    group.sort_by(|one, other| one.append.session.cmp(&other.append.session));
    group
}

/// Writes appends, and returns the number of rows and bytes of the tail after each that was written.
async fn write(
    database: &Database,
    group: &[PendingAppend],
) -> Result<Vec<Option<(u64, u64)>>, Failure> {
    let client = database.client().await?;
    // `numbered` keeps the order in which rows are locked, and says which of them were written.
    let statement = client
        .prepare_cached(
            "WITH numbered AS (
                 SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[],
                                      $5::bigint[], $6::bytea[]) WITH ORDINALITY
                     AS it (name, epoch, after, count, latest, data, number)
             ), advanced AS (
                 UPDATE threadfold.sessions AS s
                 SET head = s.head + it.count, latest = it.latest,
                     tail_rows = s.tail_rows + 1, tail_bytes = s.tail_bytes + length(it.data)
                 FROM numbered AS it
                 WHERE s.name = it.name AND s.epoch = it.epoch AND s.head = it.after
                   AND (SELECT version FROM threadfold.store) = $7
                 RETURNING s.id, it.after, it.count, it.latest, it.data, it.number,
                           s.tail_rows, s.tail_bytes
             ), added AS (
                 INSERT INTO threadfold.tail (session, first, count, latest, data)
                 SELECT id, after + 1, count, latest, data FROM advanced
             )
             SELECT number, tail_rows, tail_bytes FROM advanced",
        )
        .await?;
    let of = |value: fn(&PreparedAppend) -> i64| -> Vec<i64> {
        group.iter().map(|it| value(&it.append)).collect()
    };
    let names: Vec<&[u8]> = group.iter().map(|it| it.append.session.as_str().as_bytes()).collect();
    let rows: Vec<&[u8]> = group.iter().map(|it| it.append.row()).collect();
    let epochs = of(|it| it.epoch.0.cast_signed());
    let afters = of(|it| it.after.cast_signed());
    let counts = of(|it| it.count.cast_signed());
    let latest = of(|it| it.latest.0);
    let found = client
        .query(&statement, &[&names, &epochs, &afters, &counts, &latest, &rows, &LATEST_VERSION])
        .await?;
    let mut written = vec![None; group.len()];
    for row in found {
        let (number, rows, bytes): (i64, i64, i64) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let place = usize::try_from(number - 1).ok().and_then(|it| written.get_mut(it));
        if let Some(place) = place {
            *place = Some((rows.cast_unsigned(), bytes.cast_unsigned()));
        }
    }
    Ok(written)
}

//! Tests of retrying an append after its acknowledgement was lost.

use threadfold_store::{Append, BatchId, StoreError};

use super::Place;
use super::writer::{Writer, line, record};

/// However often it is retried.
pub async fn a_retry_is_acknowledged_and_not_repeated(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    writer.append(vec![record("a")]).await.expect("it is valid");
    let appended = writer.append(vec![record("b"), record("c")]).await.expect("it is valid");
    let (append, _) = writer.appends[1].clone();
    for _ in 0..3 {
        let again = writer.store.append(append.clone()).await.expect("it took effect");
        assert_eq!(again, appended);
    }
    writer.append(vec![record("d")]).await.expect("it is valid");
    let again = writer.store.append(append).await.expect("it took effect");
    assert_eq!(again, appended);
    writer.check().await;
}

/// Neither is the same batch id at another position.
pub async fn another_append_at_the_same_place_is_no_retry(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    writer.append(vec![record("a")]).await.expect("it is valid");
    writer.append(vec![record("b")]).await.expect("it is valid");
    let (first, _) = writer.appends[0].clone();
    let renamed = Append { batch: BatchId([8; 16]), ..first.clone() };
    let moved = Append { after: 1, ..first };
    for append in [renamed, moved] {
        let refused = writer.store.append(append).await;
        assert!(matches!(refused, Err(StoreError::Conflict { found: 2, .. })), "{refused:?}");
    }
    writer.check().await;
}

/// However the store has compacted it since.
pub async fn every_append_of_a_long_log_can_be_retried(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    write_all_sizes(&mut writer).await;
    retry_all(&writer).await;
}

/// The writer may reconnect after the store restarted.
pub async fn every_append_can_be_retried_after_reopening(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    write_all_sizes(&mut writer).await;
    let Writer { store, session, epoch, written, appends } = writer;
    drop(store);
    let writer = Writer { store: place.open(), session, epoch, written, appends };
    retry_all(&writer).await;
}

/// However the store batches them, also after reopening.
pub async fn appends_to_many_sessions_at_once_are_read_and_retried(place: &dyn Place) {
    let store = place.open();
    let mut writers = Vec::new();
    for number in 0..40 {
        writers.push(Writer::begin(&store, &format!("session {number:02}")).await);
    }
    // Three rounds: too few to compact, enough to compact, and a few again.
    for appends in [3, 60, 2] {
        let writing: Vec<_> = writers
            .drain(..)
            .map(|mut writer| {
                tokio::spawn(async move {
                    for _ in 0..appends {
                        let number = writer.written.len();
                        let append = vec![line(&writer.session, number), record("x")];
                        writer.append(append).await.expect("it is valid");
                    }
                    writer
                })
            })
            .collect();
        for writer in writing {
            writers.push(writer.await.expect("it does not panic"));
        }
        let list = store.list_all("").await.expect("sessions can be listed");
        for (entry, writer) in list.iter().zip(&writers) {
            assert_eq!(entry.head.seq, writer.written.len() as u64);
            assert_eq!(Some(entry.updated), writer.written.last().map(|last| last.received));
        }
        for writer in &writers {
            writer.check().await;
        }
    }
    // A single one continues where it was.
    writers[7].append(vec![record("alone")]).await.expect("it is valid");
    let last = writers[7].appends.len() - 1;
    let (append, appended) = writers[7].appends[last].clone();
    assert_eq!(store.append(append).await.expect("it took effect"), appended);
    retry_all(&writers[7]).await;
    let kept: Vec<_> = writers
        .into_iter()
        .map(|Writer { store: _, session, epoch, written, appends }| {
            (session, epoch, written, appends)
        })
        .collect();
    drop(store);
    let store = place.open();
    for (session, epoch, written, appends) in kept.into_iter().take(9) {
        let store = std::sync::Arc::clone(&store);
        retry_all(&Writer { store, session, epoch, written, appends }).await;
    }
}

/// The append took effect, so acknowledging it again is safe.
pub async fn a_retry_is_acknowledged_even_if_another_writer_is_active(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    let appended = writer.append(vec![record("a")]).await.expect("it is valid");
    Writer::continue_as(&writer.store, writer.session.clone(), "another").await;
    let (append, _) = writer.appends[0].clone();
    assert_eq!(writer.store.append(append).await.expect("it took effect"), appended);
    let refused = writer.append(vec![record("b")]).await;
    assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
    writer.written.truncate(1);
    writer.check().await;
}

async fn write_all_sizes(writer: &mut Writer) {
    writer.write_a_long_log().await;
    let large = (0..3000).map(|number| line(&writer.session, number)).collect();
    writer.append(large).await.expect("it is valid");
    writer.append(vec![record("small")]).await.expect("it is valid");
}

async fn retry_all(writer: &Writer) {
    for (append, appended) in &writer.appends {
        let again = writer.store.append(append.clone()).await.expect("it took effect");
        assert_eq!(again, *appended);
        let rival = Append { batch: BatchId([0xaa; 16]), ..append.clone() };
        let refused = writer.store.append(rival).await;
        assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
    }
    writer.check().await;
}

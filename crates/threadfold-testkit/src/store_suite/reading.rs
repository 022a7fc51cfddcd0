//! Tests of reading a log, also while it is written.

use std::sync::Arc;

use threadfold_fold::StoredRecord;
use threadfold_store::{Limit, StoreError};

use super::Place;
use super::writer::{Writer, line, read_all, record};

/// At least one record is returned, if there is one.
pub async fn limits_hold(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    let records = (0..10).map(|number| record(vec![number; 100])).collect();
    writer.append(records).await.expect("it is valid");
    let read = async |after, until, bytes| -> Vec<u64> {
        let limit = Limit { until, bytes };
        let found = writer.store.read(&writer.session, after, limit).await;
        found.expect("a log can be read").iter().map(|record| record.seq).collect()
    };
    assert_eq!(read(0, u64::MAX, 0).await, [1]);
    assert_eq!(read(3, u64::MAX, 1).await, [4]);
    assert_eq!(read(0, 2, 1_000_000).await, [1, 2]);
    assert_eq!(read(8, u64::MAX, 1_000_000).await, [9, 10]);
    assert_eq!(read(4, 4, 1_000_000).await, [0; 0]);
    assert_eq!(read(4, 0, 1_000_000).await, [0; 0]);
    let some = read(0, u64::MAX, 250).await.len();
    assert!((2..=4).contains(&some), "{some}");
}

/// Not even far after it.
pub async fn nothing_comes_after_the_end(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    for after in [0, 1, 1000, u64::MAX] {
        let read = writer.store.read(&writer.session, after, Limit::default()).await;
        assert_eq!(read.expect("a log can be read"), []);
    }
    writer.append(vec![record("a")]).await.expect("it is valid");
    for after in [1, 2, 1 << 36, u64::MAX] {
        let read = writer.store.read(&writer.session, after, Limit::default()).await;
        assert_eq!(read.expect("a log can be read"), []);
    }
}

/// However the store has compacted it.
pub async fn any_place_of_a_long_log_can_be_read(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    writer.write_a_long_log().await;
    for after in (0..writer.written.len()).step_by(7) {
        let limit = Limit { until: u64::MAX, bytes: 1 };
        let found = writer.store.read(&writer.session, after as u64, limit).await;
        assert_eq!(found.expect("a log can be read"), [writer.written[after].clone()]);
    }
}

/// A reader never sees part of an append, a gap, or a change of what it has read.
pub async fn readers_see_complete_appends_while_a_writer_writes(place: &dyn Place) {
    const APPENDS: usize = 150;
    let mut writer = Writer::begin(&place.open(), "session").await;
    let (store, session) = (Arc::clone(&writer.store), writer.session.clone());
    let reading = tokio::spawn(async move {
        let mut seen: Vec<StoredRecord> = Vec::new();
        while seen.len() < APPENDS * 10 {
            let after = seen.len() as u64;
            store.changed(&session, after).await.expect("it exists");
            let limit = Limit { until: u64::MAX, bytes: 1 << 30 };
            let more = store.read(&session, after, limit).await.expect("a log can be read");
            assert!(!more.is_empty());
            assert_eq!(more.len() % 10, 0, "a part of an append was seen");
            seen.extend(more);
        }
        (seen, read_all(&store, &session).await)
    });
    for number in 0..APPENDS {
        let records = (0..10).map(|it| line(&writer.session, number * 10 + it)).collect();
        writer.append(records).await.expect("it is valid");
    }
    let (seen, again) = reading.await.expect("a reader does not panic");
    assert!(seen == writer.written);
    assert!(again == writer.written);
}

/// For any number of waiters.
pub async fn a_change_wakes_its_waiters(place: &dyn Place) {
    let store = place.open();
    let mut writer = Writer::begin(&store, "session").await;
    let mut other = Writer::begin(&store, "other").await;
    for round in 0..20 {
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let (store, session) = (Arc::clone(&store), writer.session.clone());
                tokio::spawn(async move {
                    store.changed(&session, round).await.expect("it exists");
                    store.head(&session).await.expect("a head can be read").expect("it exists")
                })
            })
            .collect();
        other.append(vec![record("x")]).await.expect("it is valid");
        writer.append(vec![record("x")]).await.expect("it is valid");
        for woken in waiting {
            assert_eq!(woken.await.expect("it does not panic").seq, round + 1);
        }
    }
}

/// An earlier append counts as a change.
pub async fn waiting_for_an_existing_record_returns_at_once(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    writer.append(vec![record("a")]).await.expect("it is valid");
    writer.store.changed(&writer.session, 0).await.expect("it exists");
}

/// Otherwise it would wait forever.
pub async fn waiting_for_a_removed_session_is_an_error(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    let (store, session) = (Arc::clone(&writer.store), writer.session.clone());
    let waiting = tokio::spawn(async move { store.changed(&session, 0).await });
    tokio::task::yield_now().await;
    writer.store.release(&writer.session, writer.epoch).await.expect("it holds the lease");
    writer.store.remove(&writer.session).await.expect("it has no writer");
    let error = waiting.await.expect("it does not panic");
    assert!(matches!(error, Err(StoreError::NotFound { .. })), "{error:?}");
}

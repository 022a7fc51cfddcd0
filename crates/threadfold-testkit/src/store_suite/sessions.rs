//! Sessions as such.

use std::time::Duration;

use bytes::Bytes;
use threadfold_core::SessionId;
use threadfold_store::{
    Epoch, Head, Lease, Limit, LogId, SessionEntry, StoreError, StoredSnapshot, Summary, Timestamp,
};

use super::Place;
use super::writer::{LASTING, NOW, Writer, holder, line, record};

/// Its log keeps the name it began with.
pub async fn a_session_begins_once(place: &dyn Place) {
    let store = place.open();
    let session = SessionId::from("session");
    assert_eq!(store.head(&session).await.expect("a head can be read"), None);
    let head = store.create(&session, LogId::from("first"), NOW).await;
    let begun = Head { log: LogId::from("first"), seq: 0, epoch: Epoch(0) };
    assert_eq!(head.expect("a session can begin"), begun);
    let mut writer = Writer::continue_as(&store, session.clone(), "suite").await;
    writer.append(vec![record("a")]).await.expect("it is in order");
    let head = store.create(&session, LogId::from("second"), Timestamp(5)).await;
    let found = Head { log: LogId::from("first"), seq: 1, epoch: Epoch(1) };
    assert_eq!(head.expect("it is there"), found);
    assert_eq!(store.head(&session).await.expect("a head can be read"), Some(found));
}

/// Whatever is asked of it.
pub async fn what_is_not_there_is_not_found(place: &dyn Place) {
    let store = place.open();
    let present = Writer::begin(&store, "present").await;
    let mut append = present.next(vec![record("a")]);
    let session = SessionId::from("missing");
    append.session = session.clone();
    let snapshot = StoredSnapshot { generation: 1, seq: 1, bytes: Bytes::new() };
    let summary = Summary { generation: 1, seq: 1, json: String::new() };
    let log = LogId::from("log");
    let errors = [
        store.append(append).await.err(),
        store.read(&session, 0, Limit::default()).await.err(),
        store.changed(&session, 0).await.err(),
        store.acquire(&session, &holder("a"), NOW, LASTING, None).await.err(),
        store.renew(&session, Epoch(1), NOW, LASTING).await.err(),
        store.release(&session, Epoch(1)).await.err(),
        store.put_snapshot(&session, snapshot).await.err(),
        store.snapshot(&session, 1, 1).await.err(),
        store.snapshots(&session).await.err(),
        store.delete_derived(&session).await.err(),
        store.put_summary(&session, &log, summary).await.err(),
        store.put_blob(&session, Bytes::new()).await.err(),
        store.remove(&session, NOW).await.err(),
    ];
    for (index, error) in errors.into_iter().enumerate() {
        let is_told = matches!(
            &error,
            Some(StoreError::NotFound { session: told }) if *told == session
        );
        assert!(is_told, "number {index}: {error:?}");
    }
}

/// With all that is known of them.
pub async fn sessions_are_listed_in_order(place: &dyn Place) {
    let store = place.open();
    assert_eq!(store.list().await.expect("sessions can be listed"), []);
    for name in ["b", "a", "é", "", "A", "a/b", "a\0"] {
        let session = SessionId::from(name);
        store.create(&session, LogId::from("log"), NOW).await.expect("a session can begin");
    }
    let session = SessionId::from("a");
    let lease = store.acquire(&session, &holder("x"), NOW, Duration::ZERO, None).await;
    let lease: Lease = lease.expect("nobody has it");
    let mut writer = Writer::continue_as(&store, session.clone(), "suite").await;
    writer.append(vec![record("1"), line(&session, 17)]).await.expect("it is in order");

    let list = store.list().await.expect("sessions can be listed");
    let names: Vec<&str> = list.iter().map(|entry| entry.session.as_str()).collect();
    assert_eq!(names, ["", "A", "a", "a\0", "a/b", "b", "é"]);
    let until = Timestamp(NOW.0 + 10_000);
    assert_eq!(
        list[2],
        SessionEntry {
            session,
            head: Head { log: LogId::from("log"), seq: 2, epoch: Epoch(lease.epoch.0 + 1) },
            created: NOW,
            updated: Timestamp(NOW.0 + 17),
            lease: Some(Lease { epoch: writer.epoch, holder: holder("suite"), until }),
            summary: None,
        }
    );
    assert_eq!((list[0].updated, &list[0].lease), (NOW, &None));
}

/// And begins anew under the same name.
pub async fn a_removed_session_is_gone(place: &dyn Place) {
    let store = place.open();
    let mut writer = Writer::begin(&store, "session").await;
    let mut other = Writer::begin(&store, "other").await;
    writer.write_a_long_log().await;
    other.write_a_long_log().await;
    let snapshot = StoredSnapshot { generation: 1, seq: 1, bytes: Bytes::from("s") };
    store.put_snapshot(&writer.session, snapshot).await.expect("a snapshot can be kept");
    store.release(&writer.session, writer.epoch).await.expect("it has it");
    store.remove(&writer.session, NOW).await.expect("nobody writes to it");
    assert_eq!(store.head(&writer.session).await.expect("a head can be read"), None);
    let refused = writer.append(vec![record("zombie")]).await;
    assert!(matches!(refused, Err(StoreError::NotFound { .. })), "{refused:?}");

    let head = store.create(&writer.session, LogId::from("another"), NOW).await;
    let head = head.expect("a session can begin");
    assert_eq!((head.log.as_str(), head.seq), ("another", 0));
    assert_eq!(store.snapshots(&writer.session).await.expect("they can be listed"), []);
    let mut again = Writer::continue_as(&store, writer.session, "suite").await;
    again.append(vec![record("a")]).await.expect("it is in order");
    again.check().await;
    other.check().await;
}

/// Until its time is over.
pub async fn a_session_that_is_written_cannot_be_removed(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    writer.append(vec![record("a")]).await.expect("it is in order");
    let refused = writer.store.remove(&writer.session, NOW).await;
    assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
    writer.check().await;
    let later = Timestamp(NOW.0 + 10_000);
    writer.store.remove(&writer.session, later).await.expect("its time is over");
    assert_eq!(writer.store.list().await.expect("sessions can be listed"), []);
}

/// Sessions, logs, leases, and what was derived.
pub async fn everything_is_there_after_reopening(place: &dyn Place) {
    let store = place.open();
    let mut writer = Writer::begin(&store, "session").await;
    writer.write_a_long_log().await;
    let snapshot = StoredSnapshot { generation: 1, seq: 9, bytes: Bytes::from("state") };
    store.put_snapshot(&writer.session, snapshot.clone()).await.expect("it can be kept");
    let summary = Summary { generation: 1, seq: 9, json: "{}".to_owned() };
    let log = LogId::from("log");
    store.put_summary(&writer.session, &log, summary).await.expect("a summary can be kept");
    let hash = store.put_blob(&writer.session, Bytes::from("blob")).await.expect("it can be kept");
    let list = store.list().await.expect("sessions can be listed");
    let Writer { store: writers, session, epoch, written, appends } = writer;
    drop((store, writers));

    let store = place.open();
    let mut writer = Writer { store, session, epoch, written, appends };
    assert_eq!(writer.store.list().await.expect("sessions can be listed"), list);
    let found = writer.store.snapshot(&writer.session, 1, 9).await;
    assert_eq!(found.expect("a snapshot can be read"), Some(snapshot));
    let blob = writer.store.blob(&hash).await.expect("a blob can be read");
    assert_eq!(blob, Some(Bytes::from("blob")));
    writer.append(vec![record("the lease still holds")]).await.expect("it is in order");
    writer.check().await;
}

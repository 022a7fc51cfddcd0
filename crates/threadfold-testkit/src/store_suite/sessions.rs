//! Tests of creating, listing and removing sessions.

use std::time::Duration;

use bytes::Bytes;
use threadfold_core::SessionId;
use threadfold_fold::{LogId, Timestamp};
use threadfold_store::{
    Epoch, Lease, Limit, ListQuery, LogHead, SessionEntry, StoreError, StoredSnapshot, Summary,
};

use super::Place;
use super::writer::{LASTING, NOW, Writer, holder, line, record};

/// Its log keeps its first id.
pub async fn a_session_begins_once(place: &dyn Place) {
    let store = place.open();
    let session = SessionId::from("session");
    assert_eq!(store.head(&session).await.expect("a head can be read"), None);
    let head = store.create(&session, LogId::from("first")).await;
    let begun = LogHead { log: LogId::from("first"), seq: 0, epoch: Epoch(0) };
    assert_eq!(head.expect("a session can be created"), begun);
    let mut writer = Writer::continue_as(&store, session.clone(), "suite").await;
    writer.append(vec![record("a")]).await.expect("it is valid");
    let head = store.create(&session, LogId::from("second")).await;
    let found = LogHead { log: LogId::from("first"), seq: 1, epoch: Epoch(1) };
    assert_eq!(head.expect("it exists"), found);
    assert_eq!(store.head(&session).await.expect("a head can be read"), Some(found));
}

/// For every operation.
pub async fn a_missing_session_is_not_found(place: &dyn Place) {
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
        store.acquire(&session, &holder("a"), LASTING).await.err(),
        store.take_over(&session, &holder("a"), LASTING, Epoch(1)).await.err(),
        store.renew(&session, Epoch(1), LASTING).await.err(),
        store.release(&session, Epoch(1)).await.err(),
        store.put_snapshot(&session, snapshot).await.err(),
        store.snapshot(&session, 1, 1).await.err(),
        store.snapshots(&session).await.err(),
        store.delete_derived(&session).await.err(),
        store.put_summary(&session, &log, summary).await.err(),
        store.put_blob(&session, Bytes::new()).await.err(),
        store.remove(&session).await.err(),
    ];
    for (index, error) in errors.into_iter().enumerate() {
        let is_told = matches!(
            &error,
            Some(StoreError::NotFound { session: told }) if *told == session
        );
        assert!(is_told, "number {index}: {error:?}");
    }
}

/// With all their details.
pub async fn sessions_are_listed_in_order(place: &dyn Place) {
    let store = place.open();
    assert_eq!(store.list_all("").await.expect("sessions can be listed"), []);
    for name in ["b", "a", "é", "", "A", "a/b", "a\0"] {
        let session = SessionId::from(name);
        store.create(&session, LogId::from("log")).await.expect("a session can be created");
    }
    let session = SessionId::from("a");
    let lease = store.acquire(&session, &holder("x"), Duration::ZERO).await;
    let lease: Lease = lease.expect("it is not held");
    let mut writer = Writer::continue_as(&store, session.clone(), "suite").await;
    writer.append(vec![record("1"), line(&session, 17)]).await.expect("it is valid");

    let list = store.list_all("").await.expect("sessions can be listed");
    let names: Vec<&str> = list.iter().map(|entry| entry.session.as_str()).collect();
    assert_eq!(names, ["", "A", "a", "a\0", "a/b", "b", "é"]);
    assert_eq!(
        list[2],
        SessionEntry {
            session,
            head: LogHead { log: LogId::from("log"), seq: 2, epoch: Epoch(lease.epoch.0 + 1) },
            created: NOW,
            updated: Timestamp(NOW.0 + 17),
            lease: Some(Lease { epoch: writer.epoch, holder: holder("suite"), remaining: LASTING }),
            summary: None,
        }
    );
    assert_eq!((list[0].updated, &list[0].lease), (NOW, &None));
}

/// It can be created again under the same id.
pub async fn a_removed_session_is_gone(place: &dyn Place) {
    let store = place.open();
    let mut writer = Writer::begin(&store, "session").await;
    let mut other = Writer::begin(&store, "other").await;
    writer.write_a_long_log().await;
    other.write_a_long_log().await;
    let snapshot = StoredSnapshot { generation: 1, seq: 1, bytes: Bytes::from("s") };
    store.put_snapshot(&writer.session, snapshot).await.expect("a snapshot can be stored");
    store.release(&writer.session, writer.epoch).await.expect("it is held");
    store.remove(&writer.session).await.expect("it has no writer");
    assert_eq!(store.head(&writer.session).await.expect("a head can be read"), None);
    let refused = writer.append(vec![record("zombie")]).await;
    assert!(matches!(refused, Err(StoreError::NotFound { .. })), "{refused:?}");

    let head = store.create(&writer.session, LogId::from("another")).await;
    let head = head.expect("a session can be created");
    assert_eq!((head.log.as_str(), head.seq), ("another", 0));
    assert_eq!(store.snapshots(&writer.session).await.expect("they can be listed"), []);
    let mut again = Writer::continue_as(&store, writer.session, "suite").await;
    again.append(vec![record("a")]).await.expect("it is valid");
    again.check().await;
    other.check().await;
}

/// Until its lease expires.
pub async fn a_session_that_is_written_cannot_be_removed(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    writer.append(vec![record("a")]).await.expect("it is valid");
    let refused = writer.store.remove(&writer.session).await;
    assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
    writer.check().await;
    place.clock().advance(LASTING);
    writer.store.remove(&writer.session).await.expect("it has expired");
    assert_eq!(writer.store.list_all("").await.expect("sessions can be listed"), []);
}

/// Sessions, logs, leases, and derived data.
pub async fn everything_is_stored_after_reopening(place: &dyn Place) {
    let store = place.open();
    let mut writer = Writer::begin(&store, "session").await;
    writer.write_a_long_log().await;
    let snapshot = StoredSnapshot { generation: 1, seq: 9, bytes: Bytes::from("state") };
    store.put_snapshot(&writer.session, snapshot.clone()).await.expect("it can be stored");
    let summary = Summary { generation: 1, seq: 9, json: "{}".to_owned() };
    let log = LogId::from("log");
    store.put_summary(&writer.session, &log, summary).await.expect("a summary can be stored");
    let hash = store.put_blob(&writer.session, Bytes::from("blob")).await.expect("it can be kept");
    let list = store.list_all("").await.expect("sessions can be listed");
    let Writer { store: writers, session, epoch, written, appends } = writer;
    drop((store, writers));

    let store = place.open();
    let mut writer = Writer { store, session, epoch, written, appends };
    assert_eq!(writer.store.list_all("").await.expect("sessions can be listed"), list);
    let found = writer.store.snapshot(&writer.session, 1, 9).await;
    assert_eq!(found.expect("a snapshot can be read"), Some(snapshot));
    let blob = writer.store.blob(&hash).await.expect("a blob can be read");
    assert_eq!(blob, Some(Bytes::from("blob")));
    writer.append(vec![record("the lease still holds")]).await.expect("it is valid");
    writer.check().await;
}

/// Also while a session is being written, and after it was removed.
pub async fn an_entry_is_the_one_that_is_listed(place: &dyn Place) {
    let store = place.open();
    let session = SessionId::from("session");
    assert_eq!(store.entry(&session).await.expect("an entry can be read"), None);
    let mut writer = Writer::begin(&store, "session").await;
    Writer::begin(&store, "session 2").await;
    writer.write_a_long_log().await;
    let summary = Summary { generation: 1, seq: 9, json: "{}".to_owned() };
    store.put_summary(&session, &LogId::from("log"), summary).await.expect("it can be stored");
    place.clock().advance(Duration::from_secs(3));
    let entry = store.entry(&session).await.expect("an entry can be read").expect("it exists");
    assert_eq!(entry.head.seq, writer.written.len() as u64);
    assert_eq!(entry.lease.as_ref().map(|it| it.remaining), Some(Duration::from_secs(7)));
    assert!(entry.summary.is_some());
    let list = store.list_all("").await.expect("sessions can be listed");
    assert_eq!(list[0], entry);
    store.release(&session, writer.epoch).await.expect("it holds the lease");
    let entry = store.entry(&session).await.expect("an entry can be read").expect("it exists");
    assert_eq!(entry.lease, None);
    store.remove(&session).await.expect("it has no writer");
    assert_eq!(store.entry(&session).await.expect("an entry can be read"), None);
}

async fn create_all(
    place: &dyn Place,
    names: &[&str],
) -> std::sync::Arc<dyn threadfold_store::Store> {
    let store = place.open();
    for name in names {
        let created = store.create(&SessionId::from(*name), LogId::from("log")).await;
        created.expect("a session can be created");
    }
    store
}

/// In any combination; the ids are compared by their bytes.
pub async fn pages_are_cut_by_prefix_position_and_limit(place: &dyn Place) {
    let names = ["", "a", "a%", "a_", "ab", "ab\0", "abc", "b", "é", "éa", "\u{10ffff}"];
    let store = create_all(place, &names).await;
    let prefixes = ["", "a", "ab", "a_", "a%", "abc", "abcd", "b", "é", "\u{10ffff}", "zz"];
    let positions = names.iter().map(|it| Some(*it)).chain([None, Some("aa"), Some("zzz")]);
    for (prefix, after) in prefixes.iter().flat_map(|it| positions.clone().map(move |a| (*it, a))) {
        let expected: Vec<&str> = names
            .iter()
            .copied()
            .filter(|it| it.starts_with(prefix) && after.is_none_or(|after| *it > after))
            .collect();
        for limit in [1, 2, 3, 100, usize::MAX] {
            let query =
                ListQuery { prefix: prefix.to_owned(), after: after.map(SessionId::from), limit };
            let page = store.list(&query).await.expect("sessions can be listed");
            let found: Vec<&str> = page.entries.iter().map(|it| it.session.as_str()).collect();
            let wanted = &expected[..expected.len().min(limit)];
            assert_eq!(found, wanted, "{query:?}");
            let next = wanted.last().filter(|_| expected.len() > limit);
            assert_eq!(page.next.as_ref().map(SessionId::as_str), next.copied(), "{query:?}");
        }
    }
}

/// A position is an id, and need not be that of a session.
pub async fn a_page_can_start_after_a_session_that_is_gone(place: &dyn Place) {
    let store = create_all(place, &["a", "b", "c"]).await;
    let first = store.list(&ListQuery { limit: 2, ..ListQuery::default() }).await;
    let next = first.expect("sessions can be listed").next;
    assert_eq!(next, Some(SessionId::from("b")));
    store.remove(&"b".into()).await.expect("it has no writer");
    let query = ListQuery { after: next, ..ListQuery::default() };
    let page = store.list(&query).await.expect("sessions can be listed");
    assert_eq!(page.entries.len(), 1);
    assert_eq!((page.entries[0].session.as_str(), page.next), ("c", None));
}

/// Each session once, in order.
pub async fn many_pages_make_the_complete_list(place: &dyn Place) {
    let names: Vec<String> = (0..1203).map(|number| format!("session {number:04}")).collect();
    let store = create_all(place, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let found = async |prefix| -> Vec<String> {
        let entries = store.list_all(prefix).await.expect("sessions can be listed");
        entries.iter().map(|it| it.session.to_string()).collect()
    };
    assert_eq!(found("").await, names);
    assert_eq!(found("session 1").await, names[1000..]);
}

//! Snapshots and summaries: kept, found, replaced, and dispensable.

use bytes::Bytes;
use threadfold_store::{StoredSnapshot, Summary};

use super::Place;
use super::writer::{Writer, record};

fn snapshot(generation: u32, seq: u64, bytes: impl Into<Bytes>) -> StoredSnapshot {
    StoredSnapshot { generation, seq, bytes: bytes.into() }
}

/// Of its generation, and not later than asked.
pub async fn the_latest_snapshot_is_found(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    let (store, session) = (&writer.store, &writer.session);
    let all = [snapshot(1, 5, "a"), snapshot(1, 9, "b"), snapshot(2, 3, ""), snapshot(2, 7, "d")];
    for it in [3, 0, 2, 1].map(|index: usize| all[index].clone()) {
        store.put_snapshot(session, it).await.expect("a snapshot can be kept");
    }
    for (generation, until, found) in [
        (1, u64::MAX, Some(1)),
        (1, 9, Some(1)),
        (1, 8, Some(0)),
        (1, 4, None),
        (2, 100, Some(3)),
        (2, 6, Some(2)),
        (3, 100, None),
    ] {
        let latest = store.snapshot(session, generation, until).await;
        let expected = found.map(|index: usize| all[index].clone());
        assert_eq!(latest.expect("a snapshot can be read"), expected);
    }
    let places = store.snapshots(session).await.expect("snapshots can be listed");
    assert_eq!(places, [(1, 5), (1, 9), (2, 3), (2, 7)]);
}

/// The old one is gone.
pub async fn a_snapshot_takes_the_place_of_one_at_its_place(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    for bytes in ["first", "second"] {
        let put = writer.store.put_snapshot(&writer.session, snapshot(1, 2, bytes)).await;
        put.expect("a snapshot can be kept");
    }
    let places = writer.store.snapshots(&writer.session).await.expect("they can be listed");
    assert_eq!(places, [(1, 2)]);
    let found = writer.store.snapshot(&writer.session, 1, 2).await;
    assert_eq!(found.expect("a snapshot can be read"), Some(snapshot(1, 2, "second")));
}

/// Also if each repeats most of the one before.
pub async fn large_snapshots_come_back_as_they_were(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    let mut bytes = Vec::new();
    for seq in 1..=3 {
        for number in 0..200_000_u64 {
            bytes.extend((number * seq).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        }
        bytes[seq as usize * 100] ^= 1;
        let put = writer.store.put_snapshot(&writer.session, snapshot(1, seq, bytes.clone())).await;
        put.expect("a snapshot can be kept");
        let found = writer.store.snapshot(&writer.session, 1, seq).await;
        let found = found.expect("a snapshot can be read").expect("it was kept");
        assert!(found == snapshot(1, seq, bytes.clone()));
    }
}

/// The records stay.
pub async fn what_is_derived_can_be_deleted(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    writer.append(vec![record("a")]).await.expect("it is in order");
    let summary = Summary { generation: 1, seq: 1, json: "{}".to_owned() };
    writer.store.put_summary(&writer.session, summary).await.expect("a summary can be kept");
    let put = writer.store.put_snapshot(&writer.session, snapshot(1, 1, "s")).await;
    put.expect("a snapshot can be kept");
    writer.store.delete_derived(&writer.session).await.expect("it can be deleted");
    let places = writer.store.snapshots(&writer.session).await.expect("they can be listed");
    assert_eq!(places, []);
    let found = writer.store.snapshot(&writer.session, 1, 1).await;
    assert_eq!(found.expect("a snapshot can be read"), None);
    let list = writer.store.list().await.expect("sessions can be listed");
    assert_eq!(list[0].summary, None);
    writer.check().await;
}

/// The last one that was put.
pub async fn a_summary_is_listed(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    for seq in [4, u64::MAX, 3] {
        let summary = Summary { generation: 7, seq, json: format!("{{\"at\":{seq}}}") };
        let put = writer.store.put_summary(&writer.session, summary.clone()).await;
        put.expect("a summary can be kept");
        let list = writer.store.list().await.expect("sessions can be listed");
        assert_eq!(list[0].summary, Some(summary));
    }
}

//! Tests of snapshots and summaries: stored, found, replaced, and deleted.

use std::time::Duration;

use bytes::Bytes;
use threadfold_fold::LogId;
use threadfold_store::{SnapshotPiece, StoreError, StoredSnapshot, Summary};

use super::Place;
use super::writer::{Writer, record};

fn snapshot(generation: u32, seq: u64, bytes: impl Into<Bytes>) -> StoredSnapshot {
    StoredSnapshot { generation, seq, bytes: bytes.into() }
}

/// Of its generation, and not after the requested record.
pub async fn the_latest_snapshot_is_found(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    let (store, session) = (&writer.store, &writer.session);
    let all = [snapshot(1, 5, "a"), snapshot(1, 9, "b"), snapshot(2, 3, ""), snapshot(2, 7, "d")];
    for it in [3, 0, 2, 1].map(|index: usize| all[index].clone()) {
        store.put_snapshot(session, it).await.expect("a snapshot can be stored");
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
        let pieces = store.snapshot_pieces(session, generation, until).await;
        let pieces = pieces.expect("its pieces can be read").map(|it| it.seq);
        let end = store.snapshot_end(session, generation, until).await;
        let end = end.expect("its end can be read");
        let latest = store.snapshot(session, generation, until).await;
        let expected = found.map(|index: usize| all[index].clone());
        assert_eq!(pieces, expected.as_ref().map(|it| it.seq));
        assert_eq!(end.map(|it| it.seq), pieces);
        let is_empty = expected.as_ref().map(|it| it.bytes.is_empty());
        assert_eq!(end.map(|it| it.last.is_none()), is_empty);
        assert_eq!(latest.expect("a snapshot can be read"), expected);
    }
    let places = store.snapshots(session).await.expect("snapshots can be listed");
    assert_eq!(places, [(1, 5), (1, 9), (2, 3), (2, 7)]);
}

/// The old one is deleted.
pub async fn a_snapshot_replaces_one_at_the_same_record(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    for bytes in ["first", "second"] {
        let put = writer.store.put_snapshot(&writer.session, snapshot(1, 2, bytes)).await;
        put.expect("a snapshot can be stored");
    }
    let places = writer.store.snapshots(&writer.session).await.expect("they can be listed");
    assert_eq!(places, [(1, 2)]);
    let found = writer.store.snapshot(&writer.session, 1, 2).await;
    assert_eq!(found.expect("a snapshot can be read"), Some(snapshot(1, 2, "second")));
}

/// Even if each repeats most of the previous one.
pub async fn large_snapshots_are_read_back_unchanged(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    let mut bytes = Vec::new();
    for seq in 1..=3 {
        for number in 0..200_000_u64 {
            bytes.extend((number * seq).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        }
        bytes[seq as usize * 100] ^= 1;
        let put = writer.store.put_snapshot(&writer.session, snapshot(1, seq, bytes.clone())).await;
        put.expect("a snapshot can be stored");
        let found = writer.store.snapshot(&writer.session, 1, seq).await;
        let found = found.expect("a snapshot can be read").expect("it was stored");
        assert!(found == snapshot(1, seq, bytes.clone()));
        // The same, by its pieces.
        let pieces = writer.store.snapshot_pieces(&writer.session, 1, seq).await;
        let pieces = pieces.expect("its pieces can be read").expect("it is there");
        assert_eq!((pieces.generation, pieces.seq), (1, seq));
        let end = writer.store.snapshot_end(&writer.session, 1, seq).await;
        let end = end.expect("its end can be read").expect("it is there");
        assert_eq!(end.last, pieces.pieces.last().map(|it| it.0));
        let mut whole = Vec::new();
        for (hash, length) in pieces.pieces {
            let piece = writer.store.blob(&hash).await.expect("it can be read");
            let piece = piece.expect("it is there");
            assert_eq!(piece.len() as u64, length);
            whole.extend_from_slice(&piece);
        }
        assert!(whole == bytes);
    }
}

/// Not before, and not at all if it is abandoned: the earlier snapshot stays.
pub async fn a_snapshot_in_pieces_is_there_when_it_is_finished(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    let (store, session) = (&writer.store, &writer.session);
    let found = async || store.snapshot(session, 1, 5).await.expect("it can be read");
    store.put_snapshot(session, snapshot(1, 5, "old")).await.expect("it can be stored");
    let pieces = ["a".repeat(100_000), "b".repeat(5_000_000), "c".repeat(5_000_000)];
    for is_finished in [false, true] {
        let mut writing = store.write_snapshot(session, 1, 5);
        for bytes in &pieces {
            let piece = SnapshotPiece::new(bytes.clone().into());
            writing.add(piece).await.expect("a piece can be stored");
            assert!(found().await == Some(snapshot(1, 5, "old")));
        }
        if is_finished {
            writing.finish().await.expect("it is whole");
        } else {
            drop(writing);
        }
    }
    assert!(found().await == Some(snapshot(1, 5, pieces.concat())));
    let places = store.snapshots(session).await.expect("they can be listed");
    assert_eq!(places, [(1, 5)]);
}

/// Of any session's snapshot.
pub async fn existing_pieces_are_referenced_and_not_sent(place: &dyn Place) {
    let store = place.open();
    let pieces = ["one", "two", "three"].map(|it| SnapshotPiece::new(it.into()));
    for (name, wanted) in [("first", "onetwo"), ("second", "twothreetwo")] {
        let writer = Writer::begin(&store, name).await;
        let mut writing = store.write_snapshot(&writer.session, 1, 1);
        if name == "first" {
            for piece in &pieces[..2] {
                writing.add(piece.clone()).await.expect("a piece can be stored");
            }
        } else {
            writing.add_known(pieces[1].hash());
            writing.add(pieces[2].clone()).await.expect("a piece can be stored");
            writing.add_known(pieces[1].hash());
        }
        writing.finish().await.expect("all its pieces exist");
        let found = store.snapshot(&writer.session, 1, 1).await.expect("it can be read");
        assert_eq!(found, Some(snapshot(1, 1, wanted)));
    }
}

/// Whether it never existed or was collected; the earlier snapshot stays.
pub async fn a_snapshot_with_a_missing_piece_is_refused(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    let (store, session) = (&writer.store, &writer.session);
    store.put_snapshot(session, snapshot(1, 1, "old")).await.expect("it can be stored");
    let gone = SnapshotPiece::new("gone".into());
    for was_there in [false, true] {
        let mut writing = store.write_snapshot(session, 1, 1);
        writing.add(SnapshotPiece::new("new".into())).await.expect("a piece can be stored");
        if was_there {
            let mut other = store.write_snapshot(session, 1, 2);
            other.add(gone.clone()).await.expect("a piece can be stored");
            other.finish().await.expect("it is whole");
            store.delete_derived(session).await.expect("it can be deleted");
            store.collect_garbage(Duration::ZERO).await.expect("garbage can be collected");
            store.put_snapshot(session, snapshot(1, 1, "old")).await.expect("it can be stored");
        }
        writing.add_known(gone.hash());
        let refused = writing.finish().await;
        assert!(matches!(refused, Err(StoreError::MissingPiece { .. })), "{refused:?}");
        let found = store.snapshot(session, 1, 1).await.expect("it can be read");
        assert_eq!(found, Some(snapshot(1, 1, "old")));
    }
}

/// The records stay.
pub async fn derived_data_can_be_deleted(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    writer.append(vec![record("a")]).await.expect("it is valid");
    let summary = Summary { generation: 1, seq: 1, json: "{}".to_owned() };
    let put = writer.store.put_summary(&writer.session, &LogId::from("log"), summary).await;
    put.expect("a summary can be stored");
    let put = writer.store.put_snapshot(&writer.session, snapshot(1, 1, "s")).await;
    put.expect("a snapshot can be stored");
    writer.store.delete_derived(&writer.session).await.expect("it can be deleted");
    let places = writer.store.snapshots(&writer.session).await.expect("they can be listed");
    assert_eq!(places, []);
    let found = writer.store.snapshot(&writer.session, 1, 1).await;
    assert_eq!(found.expect("a snapshot can be read"), None);
    let list = writer.store.list_all("").await.expect("sessions can be listed");
    assert_eq!(list[0].summary, None);
    writer.check().await;
}

/// The one at the highest record wins, and among equals the last one.
pub async fn a_summary_is_listed(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    let summary = |generation, seq, json: &str| Summary { generation, seq, json: json.to_owned() };
    let mut listed = None;
    for (put, is_kept) in [
        (summary(7, 4, "{}"), true),
        (summary(7, 4, "[]"), true),
        (summary(7, 3, "{}"), false),
        (summary(6, 5, "{}"), false),
        (summary(7, u64::MAX, "{}"), true),
        (summary(7, 5, "{}"), false),
        (summary(8, 1, "{}"), true),
    ] {
        let kept =
            writer.store.put_summary(&writer.session, &LogId::from("log"), put.clone()).await;
        kept.expect("a summary can be stored");
        listed = if is_kept { Some(put) } else { listed };
        let list = writer.store.list_all("").await.expect("sessions can be listed");
        assert_eq!(list[0].summary, listed);
    }
}

//! Tests of appending records: atomically, without gaps, byte for byte.

use std::sync::Arc;

use threadfold_core::SessionId;
use threadfold_fold::{Record, RecordKind, Timestamp};
use threadfold_store::{AppendReceipt, StoreError};

use super::Place;
use super::writer::{Writer, line, record};

/// Appends arbitrary bytes and numbers.
pub async fn records_are_read_back_unchanged(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "s-ession").await;
    let odd: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"\0".to_vec(),
        (0..=255).collect(),
        b"s-ession\xff\x01s-essions-session".to_vec(),
        b"{\"text\":\"\\ud800\"}\n".to_vec(),
        vec![0xff; 1000],
    ];
    for (number, bytes) in odd.into_iter().enumerate() {
        let extreme = Record {
            kind: RecordKind::from_code(number as u8 * 50),
            source: u32::MAX - number as u32,
            position: u64::MAX - number as u64,
            received: Timestamp(if number % 2 == 0 { i64::MIN } else { i64::MAX }),
            bytes: bytes.into(),
        };
        writer.append(vec![extreme.clone(), extreme]).await.expect("it is valid");
    }
    writer.check().await;
    writer.write_a_long_log().await;
    writer.check().await;
}

/// Numbers start at 1 in each session.
pub async fn records_are_numbered_without_a_gap(place: &dyn Place) {
    let store = place.open();
    let mut one = Writer::begin(&store, "one").await;
    let mut other = Writer::begin(&store, "other").await;
    for number in 0..30 {
        one.append(vec![line(&one.session, number)]).await.expect("it is valid");
        let records = (0..number).map(|number| line(&other.session, number)).collect();
        other.append(records).await.expect("it is valid");
    }
    let numbers: Vec<u64> = other.read_all().await.iter().map(|record| record.seq).collect();
    assert_eq!(numbers, (1..=other.written.len() as u64).collect::<Vec<_>>());
    one.check().await;
    other.check().await;
}

/// Both before the end of the log and after it.
pub async fn an_append_at_the_wrong_position_is_refused_and_writes_nothing(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    writer.append(vec![record("a"), record("b")]).await.expect("it is valid");
    for after in [0, 1, 3, 1000, u64::MAX] {
        let mut append = writer.next(vec![record("x"), record("y")]);
        append.after = after;
        append.batch.0 = [9; 16];
        let refused = writer.store.append(append).await;
        let Err(StoreError::Conflict { session, expected, found }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((session, expected, found), (writer.session.clone(), after, 2));
    }
    writer.check().await;
}

/// A valid empty append is acknowledged.
pub async fn an_append_of_no_records_changes_nothing(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    writer.append(vec![record("a")]).await.expect("it is valid");
    let appended = writer.append(Vec::new()).await.expect("it is valid");
    assert_eq!(appended, AppendReceipt { first: 2, last: 1 });
    writer.append(vec![record("b")]).await.expect("it is valid");
    writer.check().await;
}

/// The other one gets a conflict.
pub async fn one_of_several_appends_at_one_position_wins(place: &dyn Place) {
    let writer = Writer::begin(&place.open(), "session").await;
    for round in 0..20_u64 {
        let mut rivals = Vec::new();
        for rival in 0..4_u8 {
            let mut append = writer.next(vec![record(vec![rival; 3])]);
            append.after = round;
            append.batch.0 = [rival; 16];
            let store = Arc::clone(&writer.store);
            rivals.push(tokio::spawn(async move { store.append(append).await }));
        }
        let mut winners = 0;
        for rival in rivals {
            match rival.await.expect("an append does not panic") {
                Ok(appended) => {
                    assert_eq!(appended.first, round + 1);
                    winners += 1;
                }
                Err(StoreError::Conflict { found, .. }) => assert_eq!(found, round + 1),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(winners, 1);
    }
    assert_eq!(writer.read_all().await.len(), 20);
}

/// Each writer waits only for its own acknowledgements.
pub async fn many_sessions_are_written_at_once(place: &dyn Place) {
    let store = place.open();
    let mut all = Vec::new();
    for number in 0..32 {
        let mut writer = Writer::begin(&store, &format!("session {number}")).await;
        all.push(tokio::spawn(async move {
            for number in 0..40 {
                let append = vec![line(&writer.session, number)];
                writer.append(append).await.expect("it has no other writer");
            }
            writer
        }));
    }
    for writer in all {
        writer.await.expect("an append does not panic").check().await;
    }
}

/// Refused and accepted appends may be batched.
pub async fn a_refusal_does_not_disturb_others(place: &dyn Place) {
    let store = place.open();
    let mut good = Writer::begin(&store, "good").await;
    let bad = Writer::begin(&store, "bad").await;
    for number in 0..50 {
        let mut gap = bad.next(vec![record("x")]);
        gap.after = 5;
        let mut fenced = bad.next(vec![record("x")]);
        fenced.epoch.0 += 1;
        let mut missing = bad.next(vec![record("x")]);
        missing.session = SessionId::from("missing");
        let append = vec![line(&good.session, number)];
        let (gap, fenced, taken, missing) = tokio::join!(
            store.append(gap),
            store.append(fenced),
            good.append(append),
            store.append(missing)
        );
        assert!(matches!(gap, Err(StoreError::Conflict { .. })), "{gap:?}");
        assert!(matches!(fenced, Err(StoreError::Fenced { .. })), "{fenced:?}");
        assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
        taken.expect("it is valid");
    }
    good.check().await;
    bad.check().await;
}

/// Including texts of megabytes, and between small ones.
pub async fn large_appends_are_read_back_unchanged(place: &dyn Place) {
    let mut writer = Writer::begin(&place.open(), "session").await;
    let long = format!("{{\"sessionId\":\"session\",\"data\":\"{}\"}}\n", "image".repeat(600_000));
    for round in 0..4 {
        writer.append(vec![line(&writer.session, round)]).await.expect("it is valid");
        let mut records: Vec<Record> =
            (0..900).map(|number| line(&writer.session, round * 1000 + number)).collect();
        records.insert(round * 300, record(long.clone()));
        records.push(record(vec![round as u8; 100_000]));
        writer.append(records).await.expect("it is valid");
        writer.append(vec![record("small")]).await.expect("it is valid");
    }
    writer.check().await;
}

//! One writer at a time, and what becomes of the others.

use std::sync::Arc;

use threadfold_core::SessionId;
use threadfold_store::{Epoch, LogId, Store, StoreError, Summary, Timestamp};

use super::Place;
use super::writer::{LASTING, NOW, Writer, holder, record};

async fn begin(place: &dyn Place) -> (Arc<dyn Store>, SessionId) {
    let store = place.open();
    let session = SessionId::from("session");
    store.create(&session, LogId::from("log"), NOW).await.expect("a session can begin");
    (store, session)
}

fn later(milliseconds: i64) -> Timestamp {
    Timestamp(NOW.0 + milliseconds)
}

/// Also when many ask at once.
pub async fn one_writer_at_a_time(place: &dyn Place) {
    let (store, session) = begin(place).await;
    let asking: Vec<_> = (0..8)
        .map(|number| {
            let (store, session) = (Arc::clone(&store), session.clone());
            let holder = holder(&format!("number {number}"));
            tokio::spawn(async move { store.acquire(&session, &holder, NOW, LASTING, None).await })
        })
        .collect();
    let mut given = Vec::new();
    let mut refused = Vec::new();
    for asked in asking {
        match asked.await.expect("it does not panic") {
            Ok(lease) => given.push(lease),
            Err(StoreError::Held { holder, epoch, until, .. }) => {
                refused.push((*holder, epoch, until));
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((given.len(), refused.len()), (1, 7));
    let lease = &given[0];
    assert_eq!(lease.until, later(10_000));
    assert!(refused.iter().all(|it| *it == (lease.holder.clone(), lease.epoch, lease.until)));
}

/// A process that slept through the end of its lease is such a writer.
pub async fn a_writer_that_was_replaced_is_refused_and_told_by_whom(place: &dyn Place) {
    let mut old = Writer::begin(&place.open(), "session").await;
    old.append(vec![record("a")]).await.expect("it is in order");
    let mut new = Writer::continue_as(&old.store, old.session.clone(), "another").await;
    new.written = old.written.clone();
    let refused = old.append(vec![record("zombie")]).await;
    let Err(StoreError::Fenced { session, ours, current, holder: told }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((session, ours, current), (old.session.clone(), old.epoch, new.epoch));
    assert_eq!(*told, holder("another"));
    new.append(vec![record("b")]).await.expect("it is in order");
    new.check().await;
}

/// At that moment, and not before.
pub async fn a_lease_ends_with_its_time(place: &dyn Place) {
    let (store, session) = begin(place).await;
    let first = store.acquire(&session, &holder("a"), NOW, LASTING, None).await;
    assert_eq!(first.expect("nobody has it").epoch, Epoch(1));
    let early = store.acquire(&session, &holder("b"), later(9_999), LASTING, None).await;
    assert!(matches!(early, Err(StoreError::Held { .. })), "{early:?}");
    let next = store.acquire(&session, &holder("b"), later(10_000), LASTING, None).await;
    let next = next.expect("its time is over");
    assert_eq!((next.epoch, next.until), (Epoch(2), later(20_000)));
    assert_eq!(next.holder, holder("b"));
}

/// If its holder is known to be gone; another lease is not passed over by mistake.
pub async fn a_lease_can_be_passed_over_by_its_name(place: &dyn Place) {
    let (store, session) = begin(place).await;
    let first = store.acquire(&session, &holder("a"), NOW, LASTING, None).await;
    let first = first.expect("nobody has it");
    let wrong = Some(Epoch(first.epoch.0 + 1));
    let refused = store.acquire(&session, &holder("b"), NOW, LASTING, wrong).await;
    assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
    let second = store.acquire(&session, &holder("b"), NOW, LASTING, Some(first.epoch)).await;
    assert_eq!(second.expect("it is passed over").epoch, Epoch(2));
    let third = store.acquire(&session, &holder("c"), NOW, LASTING, Some(first.epoch)).await;
    assert!(matches!(third, Err(StoreError::Held { epoch: Epoch(2), .. })), "{third:?}");
}

/// Also when its time was over, if nobody came.
pub async fn a_lease_can_be_renewed_until_another_has_one(place: &dyn Place) {
    let (store, session) = begin(place).await;
    let lease = store.acquire(&session, &holder("a"), NOW, LASTING, None).await;
    let lease = lease.expect("nobody has it");
    let renewed = store.renew(&session, lease.epoch, later(15_000), LASTING).await;
    let renewed = renewed.expect("nobody else has it");
    assert_eq!(renewed.until, later(25_000));
    assert_eq!((renewed.epoch, renewed.holder), (lease.epoch, lease.holder));
    let early = store.acquire(&session, &holder("b"), later(20_000), LASTING, None).await;
    assert!(matches!(early, Err(StoreError::Held { .. })), "{early:?}");
    let other = store.acquire(&session, &holder("b"), later(25_000), LASTING, None).await;
    other.expect("its time is over");
    let refused = store.renew(&session, lease.epoch, later(25_001), LASTING).await;
    let Err(StoreError::Fenced { holder: told, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(*told, holder("b"));
}

/// One that was replaced gives nothing back.
pub async fn a_lease_is_given_back_by_its_holder_only(place: &dyn Place) {
    let (store, session) = begin(place).await;
    let first = store.acquire(&session, &holder("a"), NOW, LASTING, None).await;
    let first = first.expect("nobody has it").epoch;
    let second = store.acquire(&session, &holder("b"), NOW, LASTING, Some(first)).await;
    let second = second.expect("it is passed over").epoch;
    store.release(&session, first).await.expect("it does nothing");
    let refused = store.acquire(&session, &holder("c"), NOW, LASTING, None).await;
    assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
    store.release(&session, second).await.expect("it has it");
    let third = store.acquire(&session, &holder("c"), NOW, LASTING, None).await;
    assert_eq!(third.expect("it was given back").epoch, Epoch(3));
}

/// It slept past its lease while the session was removed and began anew: whatever it still says
/// is of another log, whether or not somebody writes there by now.
pub async fn a_writer_that_slept_over_a_removal_is_refused(place: &dyn Place) {
    let mut old = Writer::begin(&place.open(), "session").await;
    old.append(vec![record("old")]).await.expect("it is in order");
    let (store, session) = (old.store.clone(), old.session.clone());
    store.remove(&session, later(10_000)).await.expect("its time is over");
    let begun = store.create(&session, LogId::from("another"), NOW).await;
    let begun = begun.expect("a session can begin");
    assert!(begun.epoch > old.epoch, "{begun:?}");

    let mut sleeper = old.clone();
    sleeper.written.clear();
    let mut new = None;
    for _ in 0..2 {
        let refused = sleeper.append(vec![record("zombie")]).await;
        assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
        let refused = store.renew(&session, old.epoch, NOW, LASTING).await;
        assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
        let summary = Summary { generation: 1, seq: 1, json: "{}".to_owned() };
        let put = store.put_summary(&session, &LogId::from("log"), summary).await;
        put.expect("it is not kept");
        assert_eq!(store.list().await.expect("sessions can be listed")[0].summary, None);
        if new.is_none() {
            new = Some(Writer::continue_as(&store, session.clone(), "another").await);
        }
    }
    let mut new = new.expect("it was begun");
    store.release(&session, old.epoch).await.expect("it does nothing");
    let held = store.acquire(&session, &holder("third"), NOW, LASTING, None).await;
    assert!(matches!(held, Err(StoreError::Held { .. })), "{held:?}");
    new.append(vec![record("new")]).await.expect("it is in order");
    new.check().await;
}

//! Tests of leases: one writer at a time, and others are fenced.

use std::sync::Arc;
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_fold::LogId;
use threadfold_store::{Clock, Epoch, Store, StoreError, Summary};

use super::Place;
use super::writer::{LASTING, Writer, holder, record};

async fn begin(place: &dyn Place) -> (Arc<dyn Store>, SessionId) {
    let store = place.open();
    let session = SessionId::from("session");
    store.create(&session, LogId::from("log")).await.expect("a session can be created");
    (store, session)
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Even if many request it at once.
pub async fn one_writer_at_a_time(place: &dyn Place) {
    let (store, session) = begin(place).await;
    let asking: Vec<_> = (0..8)
        .map(|number| {
            let (store, session) = (Arc::clone(&store), session.clone());
            let holder = holder(&format!("number {number}"));
            tokio::spawn(async move { store.acquire(&session, &holder, LASTING).await })
        })
        .collect();
    let mut given = Vec::new();
    let mut refused = Vec::new();
    for asked in asking {
        match asked.await.expect("it does not panic") {
            Ok(lease) => given.push(lease),
            Err(StoreError::Held { holder, epoch, remaining, .. }) => {
                refused.push((*holder, epoch, remaining));
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((given.len(), refused.len()), (1, 7));
    let lease = &given[0];
    assert_eq!(lease.remaining, LASTING);
    assert!(refused.iter().all(|it| *it == (lease.holder.clone(), lease.epoch, LASTING)));
}

/// For example, a process that was suspended past the end of its lease.
pub async fn a_replaced_writer_is_refused_with_the_new_holder(place: &dyn Place) {
    let mut old = Writer::begin(&place.open(), "session").await;
    old.append(vec![record("a")]).await.expect("it is valid");
    let mut new = Writer::continue_as(&old.store, old.session.clone(), "another").await;
    new.written = old.written.clone();
    let refused = old.append(vec![record("zombie")]).await;
    let Err(StoreError::Fenced { session, ours, current, holder: told }) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((session, ours, current), (old.session.clone(), old.epoch, new.epoch));
    assert_eq!(*told, holder("another"));
    new.append(vec![record("b")]).await.expect("it is valid");
    new.check().await;
}

/// Exactly then, and not before.
pub async fn a_lease_ends_with_its_time(place: &dyn Place) {
    let (store, session) = begin(place).await;
    let first = store.acquire(&session, &holder("a"), LASTING).await;
    assert_eq!(first.expect("it is not held").epoch, Epoch(1));
    place.clock().advance(LASTING - ms(1));
    let early = store.acquire(&session, &holder("b"), LASTING).await;
    assert!(matches!(early, Err(StoreError::Held { .. })), "{early:?}");
    place.clock().advance(ms(1));
    let next = store.acquire(&session, &holder("b"), LASTING).await;
    let next = next.expect("it has expired");
    assert_eq!((next.epoch, next.remaining), (Epoch(2), LASTING));
    assert_eq!(next.holder, holder("b"));
}

/// If its holder is known to be dead; a different lease is not taken over by mistake.
pub async fn a_lease_can_be_taken_over_by_its_epoch(place: &dyn Place) {
    let (store, session) = begin(place).await;
    let first = store.acquire(&session, &holder("a"), LASTING).await;
    let first = first.expect("it is not held");
    let wrong = Epoch(first.epoch.0 + 1);
    let refused = store.take_over(&session, &holder("b"), LASTING, wrong).await;
    assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
    let second = store.take_over(&session, &holder("b"), LASTING, first.epoch).await;
    assert_eq!(second.expect("it is taken over").epoch, Epoch(2));
    let third = store.take_over(&session, &holder("c"), LASTING, first.epoch).await;
    assert!(matches!(third, Err(StoreError::Held { epoch: Epoch(2), .. })), "{third:?}");
}

/// Even after it expired, if nobody else acquired it.
pub async fn a_lease_can_be_renewed_until_another_has_one(place: &dyn Place) {
    let (store, session) = begin(place).await;
    let lease = store.acquire(&session, &holder("a"), LASTING).await;
    let lease = lease.expect("it is not held");
    place.clock().advance(ms(15_000));
    let renewed = store.renew(&session, lease.epoch, LASTING).await;
    let renewed = renewed.expect("nobody else holds it");
    assert_eq!(renewed.remaining, LASTING);
    assert_eq!((renewed.epoch, renewed.holder), (lease.epoch, lease.holder));
    place.clock().advance(ms(5_000));
    let early = store.acquire(&session, &holder("b"), LASTING).await;
    assert!(matches!(early, Err(StoreError::Held { .. })), "{early:?}");
    place.clock().advance(ms(5_000));
    let other = store.acquire(&session, &holder("b"), LASTING).await;
    other.expect("it has expired");
    let refused = store.renew(&session, lease.epoch, LASTING).await;
    let Err(StoreError::Fenced { holder: told, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(*told, holder("b"));
}

/// A replaced lease releases nothing.
pub async fn a_lease_is_released_only_by_its_holder(place: &dyn Place) {
    let (store, session) = begin(place).await;
    let first = store.acquire(&session, &holder("a"), LASTING).await;
    let first = first.expect("it is not held").epoch;
    let second = store.take_over(&session, &holder("b"), LASTING, first).await;
    let second = second.expect("it is taken over").epoch;
    store.release(&session, first).await.expect("it does nothing");
    let refused = store.acquire(&session, &holder("c"), LASTING).await;
    assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
    store.release(&session, second).await.expect("it is held");
    let third = store.acquire(&session, &holder("c"), LASTING).await;
    assert_eq!(third.expect("it was released").epoch, Epoch(3));
}

/// The writer was suspended past its lease while the session was removed and created again: its
/// requests are for another log, whether or not that has a writer by now.
pub async fn a_writer_that_was_suspended_during_a_removal_is_refused(place: &dyn Place) {
    let mut old = Writer::begin(&place.open(), "session").await;
    old.append(vec![record("old")]).await.expect("it is valid");
    let (store, session) = (old.store.clone(), old.session.clone());
    place.clock().advance(LASTING);
    store.remove(&session).await.expect("its lease has expired");
    let begun = store.create(&session, LogId::from("another")).await;
    let begun = begun.expect("a session can be created");
    assert!(begun.epoch > old.epoch, "{begun:?}");

    let mut sleeper = old.clone();
    sleeper.written.clear();
    let mut new = None;
    for _ in 0..2 {
        let refused = sleeper.append(vec![record("zombie")]).await;
        assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
        let refused = store.renew(&session, old.epoch, LASTING).await;
        assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
        let summary = Summary { generation: 1, seq: 1, json: "{}".to_owned() };
        let put = store.put_summary(&session, &LogId::from("log"), summary).await;
        put.expect("it is ignored");
        assert_eq!(store.list_all("").await.expect("sessions can be listed")[0].summary, None);
        if new.is_none() {
            new = Some(Writer::continue_as(&store, session.clone(), "another").await);
        }
    }
    let mut new = new.expect("it was opened");
    store.release(&session, old.epoch).await.expect("it does nothing");
    let held = store.acquire(&session, &holder("third"), LASTING).await;
    assert!(matches!(held, Err(StoreError::Held { .. })), "{held:?}");
    new.append(vec![record("new")]).await.expect("it is valid");
    new.check().await;
}

/// The caller's clock is years ahead of the store's, and keeps running.
pub async fn a_lease_is_timed_by_the_clock_of_the_store(place: &dyn Place) {
    let (store, session) = begin(place).await;
    let callers_clock = Clock::system().now();
    assert!(callers_clock > place.clock().now().after(LASTING), "the caller's clock is right");
    let first = store.acquire(&session, &holder("a"), LASTING).await;
    let first = first.expect("it is not held").epoch;
    let refused = store.acquire(&session, &holder("b"), LASTING).await;
    assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
    let refused = store.remove(&session).await;
    assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
    // Two handles of one store agree.
    let refused = place.open().acquire(&session, &holder("b"), LASTING).await;
    assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
    place.clock().advance(LASTING);
    let second = place.open().acquire(&session, &holder("b"), LASTING).await;
    assert_eq!(second.expect("the lease has expired").epoch, Epoch(first.0 + 1));
}

/// By the store's clock, at the time of reading.
pub async fn a_lease_has_its_remaining_time(place: &dyn Place) {
    let (store, session) = begin(place).await;
    store.acquire(&session, &holder("a"), LASTING).await.expect("it is not held");
    for (step, remaining) in [(0, 10_000), (4_000, 6_000), (5_999, 1), (1, 0), (60_000, 0)] {
        place.clock().advance(ms(step));
        let entry = store.entry(&session).await.expect("an entry can be read");
        let lease = entry.expect("it exists").lease.expect("it was not released");
        assert_eq!((lease.remaining, lease.is_expired()), (ms(remaining), remaining == 0));
        assert_eq!(lease.holder, holder("a"));
    }
}

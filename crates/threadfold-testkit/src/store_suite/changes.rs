//! Waiting for a change of any session.

use std::sync::Arc;
use std::time::Duration;

use threadfold_fold::LogId;
use threadfold_store::{ChangePosition, ListQuery, Store};
use tokio::time::timeout;

use super::Place;
use super::writer::{Writer, record};

/// A test that waits this long has hung.
const HUNG: Duration = Duration::from_secs(20);
/// Several times as long as any store takes to notice a change.
const NOTICED: Duration = Duration::from_millis(300);

/// Returns the position at which nothing more has changed. A store may wake without a reason, but
/// not for ever.
async fn settled(store: &Arc<dyn Store>) -> ChangePosition {
    let mut position = ChangePosition::default();
    for _ in 0..20 {
        match timeout(NOTICED, store.sessions_changed(&position)).await {
            Ok(next) => position = next.expect("changes can be waited for"),
            Err(_) => return position,
        }
    }
    panic!("it wakes for ever, although nothing changes");
}

/// Waits for a change after `position` while `change` runs.
async fn woken_by(
    store: &Arc<dyn Store>,
    position: ChangePosition,
    change: impl Future<Output = ()>,
) -> ChangePosition {
    let waiting = {
        let (store, position) = (Arc::clone(store), position.clone());
        tokio::spawn(async move { store.sessions_changed(&position).await })
    };
    // Waits for real, so that the change does not always come first.
    tokio::time::sleep(Duration::from_millis(5)).await;
    change.await;
    let next = timeout(HUNG, waiting).await.expect("a change wakes");
    let next = next.expect("it does not panic").expect("changes can be waited for");
    assert_ne!(next, position);
    next
}

/// The default is older than every change, and so is a position of another store.
pub async fn a_new_position_is_returned_at_once(place: &dyn Place) {
    let store = place.open();
    for position in [ChangePosition::default(), ChangePosition::from("of another".to_owned())] {
        let found = timeout(HUNG, store.sessions_changed(&position)).await.expect("at once");
        assert_ne!(found.expect("changes can be waited for"), position);
    }
}

/// It is created, appended to, removed.
pub async fn every_change_of_a_session_wakes(place: &dyn Place) {
    let store = place.open();
    let session = "session".into();
    let position = settled(&store).await;
    woken_by(&store, position, async {
        store.create(&session, LogId::from("log")).await.expect("it can be created");
    })
    .await;
    let mut writer = Writer::continue_as(&store, session.clone(), "suite").await;
    for _ in 0..3 {
        let position = settled(&store).await;
        woken_by(&store, position, async {
            writer.append(vec![record("a")]).await.expect("it is in order");
        })
        .await;
    }
    store.release(&session, writer.epoch).await.expect("it has the lease");
    let position = settled(&store).await;
    woken_by(&store, position, async {
        store.remove(&session).await.expect("nobody writes to it");
    })
    .await;
}

/// Or a list would wake itself.
pub async fn reading_wakes_nobody(place: &dyn Place) {
    let store = place.open();
    let mut writer = Writer::begin(&store, "session").await;
    writer.append(vec![record("a")]).await.expect("it is in order");
    let position = settled(&store).await;
    let reading = async {
        store.list(&ListQuery::default()).await.expect("sessions can be listed");
        store.entry(&writer.session).await.expect("an entry can be read");
        writer.read_all().await;
        tokio::time::sleep(NOTICED).await;
    };
    tokio::select! {
        position = store.sessions_changed(&position) => panic!("woken: {position:?}"),
        () = reading => {}
    }
}

/// Nobody waits while the first is handled.
pub async fn a_change_between_two_waits_is_not_missed(place: &dyn Place) {
    let store = place.open();
    let mut writer = Writer::begin(&store, "session").await;
    for _ in 0..5 {
        let position = settled(&store).await;
        writer.append(vec![record("a")]).await.expect("it is in order");
        let next = timeout(HUNG, store.sessions_changed(&position)).await.expect("it has changed");
        assert_ne!(next.expect("changes can be waited for"), position);
    }
}

/// As of another process.
pub async fn a_change_through_another_handle_wakes(place: &dyn Place) {
    let (here, there) = (place.open(), place.open());
    let mut writer = Writer::begin(&there, "session").await;
    for round in 0..5 {
        let position = settled(&here).await;
        if round % 2 == 0 {
            woken_by(&here, position, async {
                writer.append(vec![record("a")]).await.expect("it is in order");
            })
            .await;
        } else {
            writer.append(vec![record("a")]).await.expect("it is in order");
            let next = timeout(HUNG, here.sessions_changed(&position)).await;
            assert_ne!(next.expect("it has changed").expect("it can be waited for"), position);
        }
    }
}

//! Tests of waiting for a change of any session.

use std::sync::Arc;
use std::time::Duration;

use threadfold_fold::LogId;
use threadfold_store::{ChangePosition, ListQuery, Store};
use tokio::time::timeout;

use super::Place;
use super::writer::{Writer, record};

/// A test that waits this long hangs.
const HUNG: Duration = Duration::from_secs(20);
/// Several times the time that any store needs to notice a change.
const NOTICED: Duration = Duration::from_millis(300);

/// Returns the position after the last change. A store may wake spuriously, but not
/// forever.
async fn settled(store: &Arc<dyn Store>) -> ChangePosition {
    let mut position = ChangePosition::default();
    for _ in 0..20 {
        match timeout(NOTICED, store.sessions_changed(&position)).await {
            Ok(next) => position = next.expect("changes can be waited for"),
            Err(_) => return position,
        }
    }
    panic!("it keeps waking although nothing changes");
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
    // Waits in real time, so that the change does not always come first.
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

/// Creating, appending and removing count.
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
            writer.append(vec![record("a")]).await.expect("it is valid");
        })
        .await;
    }
    store.release(&session, writer.epoch).await.expect("it holds the lease");
    let position = settled(&store).await;
    woken_by(&store, position, async {
        store.remove(&session).await.expect("it has no writer");
    })
    .await;
}

/// Otherwise listing would cause another list.
pub async fn reading_wakes_nobody(place: &dyn Place) {
    let store = place.open();
    let mut writer = Writer::begin(&store, "session").await;
    writer.append(vec![record("a")]).await.expect("it is valid");
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

/// The change happens while no one waits, because the last one is still being processed.
pub async fn a_change_between_two_waits_is_not_missed(place: &dyn Place) {
    let store = place.open();
    let mut writer = Writer::begin(&store, "session").await;
    for _ in 0..5 {
        let position = settled(&store).await;
        writer.append(vec![record("a")]).await.expect("it is valid");
        let next = timeout(HUNG, store.sessions_changed(&position)).await.expect("it has changed");
        assert_ne!(next.expect("changes can be waited for"), position);
    }
}

/// As another process would.
pub async fn a_change_through_another_handle_wakes(place: &dyn Place) {
    let (here, there) = (place.open(), place.open());
    let mut writer = Writer::begin(&there, "session").await;
    for round in 0..5 {
        let position = settled(&here).await;
        if round % 2 == 0 {
            woken_by(&here, position, async {
                writer.append(vec![record("a")]).await.expect("it is valid");
            })
            .await;
        } else {
            writer.append(vec![record("a")]).await.expect("it is valid");
            let next = timeout(HUNG, here.sessions_changed(&position)).await;
            assert_ne!(next.expect("it has changed").expect("it can be waited for"), position);
        }
    }
}

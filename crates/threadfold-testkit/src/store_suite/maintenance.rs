//! Tests of maintenance of the whole store.

use threadfold_store::StoreSize;

use super::Place;
use super::writer::Writer;

/// Whether it is empty or not.
pub async fn a_store_that_is_intact_has_no_findings(place: &dyn Place) {
    let store = place.open();
    assert_eq!(store.check().await.expect("it can be checked"), []);
    let mut writer = Writer::begin(&store, "session").await;
    writer.write_a_long_log().await;
    assert_eq!(store.check().await.expect("it can be checked"), []);
}

/// However the records are stored.
pub async fn the_size_counts_sessions_and_records(place: &dyn Place) {
    let store = place.open();
    let StoreSize { sessions, records, .. } = store.size().await.expect("it can be measured");
    assert_eq!((sessions, records), (0, 0));
    let mut writer = Writer::begin(&store, "session").await;
    Writer::begin(&store, "empty").await;
    writer.write_a_long_log().await;
    let StoreSize { sessions, records, .. } = store.size().await.expect("it can be measured");
    assert_eq!((sessions, records), (2, writer.written.len() as u64));
}

/// Also through another handle.
pub async fn a_store_that_can_be_used_is_ready(place: &dyn Place) {
    place.open().ready().await.expect("it is ready");
    let store = place.open();
    Writer::begin(&store, "session").await;
    store.ready().await.expect("it is ready");
}

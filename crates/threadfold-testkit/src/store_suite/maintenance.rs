//! Maintenance of the store as a whole.

use threadfold_store::StoreSize;

use super::Place;
use super::writer::Writer;

/// However much is in it.
pub async fn a_store_that_is_intact_has_no_findings(place: &dyn Place) {
    let store = place.open();
    assert_eq!(store.check().await.expect("it can be checked"), []);
    let mut writer = Writer::begin(&store, "session").await;
    writer.write_a_long_log().await;
    assert_eq!(store.check().await.expect("it can be checked"), []);
}

/// Wherever the records are.
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

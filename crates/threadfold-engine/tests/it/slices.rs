//! Custom slices.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{Payload, SessionEvent};
use threadfold_engine::{EngineError, Options, Session, holder, load};
use threadfold_fold::{
    FileState, FileStatus, Item, QueryState, QueryStatus, RestorePolicy, Slice, SliceError, Slices,
    Snapshot,
};
use threadfold_store::{MemoryStore, Store, StoredSnapshot};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Note(String);

impl Item for Note {
    const TYPE: &'static str = "note";
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Goal(String);

impl Item for Goal {
    const TYPE: &'static str = "goal";
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Step {
    name: String,
    done: bool,
}

impl Item for Step {
    const TYPE: &'static str = "step";
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Count(u64);

impl Item for Count {
    const TYPE: &'static str = "count";
}

fn slices() -> Slices {
    let mut slices = Slices::default();
    slices.register(Slice::<Note>::new("notes").append_all().policy(RestorePolicy::Log)).unwrap();
    slices.register(Slice::<Goal>::new("goal").replace_latest()).unwrap();
    slices.register(Slice::<Step>::new("plan").upsert_by(|step| step.name.clone())).unwrap();
    let count = Slice::<Count>::new("count")
        .on(|items, _: &Note| {
            let next = items.latest().map_or(1, |count: &Count| count.0 + 1);
            items.replace(Count(next));
        })
        .on_event(|items, event| {
            if matches!(event.payload, Payload::SessionIdle(_)) {
                items.clear();
            }
        });
    slices.register(count).unwrap();
    slices
}

async fn open(store: &Arc<dyn Store>) -> Session {
    let options = Options { slices: slices(), ..Options::new(holder("a test")) };
    Session::open(store.clone(), &"s".into(), options).await.unwrap()
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

fn step(name: &str, done: bool) -> Step {
    Step { name: name.into(), done }
}

#[tokio::test]
async fn items_reach_their_slices_and_persist_after_reopening() {
    let store = store();
    let mut session = open(&store).await;
    session.dispatch(&Note("a".into())).await.unwrap();
    session.dispatch(&Note("b".into())).await.unwrap();
    session.dispatch(&Goal("x".into())).await.unwrap();
    session.dispatch(&Goal("y".into())).await.unwrap();
    session.dispatch(&step("one", false)).await.unwrap();
    session.dispatch(&step("two", false)).await.unwrap();
    session.dispatch(&step("one", true)).await.unwrap();
    session.close().await.unwrap();

    let session = open(&store).await;
    let notes: Vec<&Note> = session.query::<Note>().unwrap().all().collect();
    assert_eq!(notes, [&Note("a".into()), &Note("b".into())]);
    assert_eq!(session.query::<Goal>().unwrap().latest(), Some(&Goal("y".into())));
    let open_steps = session.query::<Step>().unwrap().filter(|it| !it.done).count();
    assert_eq!(open_steps, 1);
    assert_eq!(session.query::<Count>().unwrap().latest(), Some(&Count(2)));
}

#[tokio::test]
async fn events_reach_slices_too() {
    let store = store();
    let mut session = open(&store).await;
    session.dispatch(&Note("a".into())).await.unwrap();
    let idle = SessionEvent::from_json(r#"{"type":"session:idle","payload":{}}"#).unwrap();
    session.emit(&idle).await.unwrap();
    assert_eq!(session.query::<Count>().unwrap().latest(), None);
}

#[tokio::test]
async fn a_seed_replaces_the_items_and_clear_removes_them() {
    let store = store();
    let mut session = open(&store).await;
    session.dispatch(&step("old", false)).await.unwrap();
    session.seed(&[step("one", false), step("two", true)]).await.unwrap();
    session.dispatch(&step("one", true)).await.unwrap();
    let names = |session: &Session| -> Vec<String> {
        let query = session.query::<Step>().unwrap();
        query.all().map(|it| format!("{} {}", it.name, it.done)).collect()
    };
    assert_eq!(names(&session), ["one true", "two true"]);
    session.clear::<Step>().await.unwrap();
    assert_eq!(names(&session), Vec::<String>::new());
    session.close().await.unwrap();
    assert_eq!(names(&open(&store).await), Vec::<String>::new());
}

#[tokio::test]
async fn a_restore_rolls_back_states_and_preserves_logs() {
    let store = store();
    let mut session = open(&store).await;
    session.dispatch(&Goal("before".into())).await.unwrap();
    session.dispatch(&Note("before".into())).await.unwrap();
    let snapshot = session.snapshot(BTreeMap::from([("why".into(), "a test".into())]));
    session.dispatch(&Goal("after".into())).await.unwrap();
    session.dispatch(&Note("after".into())).await.unwrap();
    session.dispatch(&step("after", false)).await.unwrap();
    let read = Snapshot::from_json(&snapshot.to_json()).unwrap();
    assert_eq!(read, snapshot);
    session.restore(&read).await.unwrap();
    session.close().await.unwrap();

    let session = open(&store).await;
    assert_eq!(session.query::<Goal>().unwrap().latest(), Some(&Goal("before".into())));
    assert_eq!(session.query::<Note>().unwrap().all().count(), 2);
    assert_eq!(session.query::<Step>().unwrap().all().count(), 0);
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_restored_changes_nothing() {
    let store = store();
    let mut session = open(&store).await;
    session.dispatch(&Goal("before".into())).await.unwrap();
    let mut snapshot = session.snapshot(BTreeMap::new());
    session.dispatch(&Goal("after".into())).await.unwrap();
    let plan = snapshot.slices.iter_mut().find(|it| it.slice_type == "plan").unwrap();
    plan.items.push(threadfold_core::Json::string("not a step"));
    let seq = session.cursor().seq;
    let error = session.restore(&snapshot).await.unwrap_err();
    let EngineError::Snapshot(error) = error else { panic!("{error}") };
    assert_eq!(error.field, "slices.plan.items");
    assert_eq!(session.cursor().seq, seq);
    assert_eq!(session.query::<Goal>().unwrap().latest(), Some(&Goal("after".into())));
}

#[tokio::test]
async fn a_snapshot_whose_hash_is_not_that_of_its_state_is_refused() {
    let store = store();
    let mut session = open(&store).await;
    session.dispatch(&Goal("before".into())).await.unwrap();
    let mut snapshot = session.snapshot(BTreeMap::new());
    snapshot.state_hash = "00".into();
    let error = session.restore(&snapshot).await.unwrap_err();
    let EngineError::Snapshot(error) = error else { panic!("{error}") };
    assert_eq!(error.field, "stateHash");
    assert_eq!(session.cursor().seq, 1);
}

#[test]
fn slice_names_and_types_are_unique() {
    let mut slices = slices();
    let again = slices.register(Slice::<Note>::new("other").append_all());
    assert!(matches!(again, Err(SliceError::Twice { .. })));
    #[derive(Clone, Serialize, Deserialize)]
    struct Other;
    impl Item for Other {
        const TYPE: &'static str = "other";
    }
    let reserved = slices.register(Slice::<Other>::new("conversation"));
    assert!(matches!(reserved, Err(SliceError::Twice { .. })));
    assert!(matches!(slices.items::<Other>(), Err(SliceError::Unknown { .. })));
}

#[tokio::test]
async fn items_without_a_slice_are_stored_and_reported() {
    let store = store();
    let mut session = open(&store).await;
    session.dispatch(&Note("kept".into())).await.unwrap();
    session.close().await.unwrap();
    let plain = load(&store, &"s".into(), u64::MAX, Slices::default()).await.unwrap();
    assert_eq!(plain.fold.oddities(), 1);
    let known = load(&store, &"s".into(), u64::MAX, slices()).await.unwrap();
    assert_eq!(known.fold.items::<Note>().unwrap().len(), 1);
}

/// A process with slices, then one without, then the first again.
#[tokio::test]
async fn a_new_slice_receives_earlier_items() {
    let store = store();
    let with =
        || Options { slices: slices(), snapshot_every: 2, ..Options::new(holder("with slices")) };
    let without = || Options { snapshot_every: 2, ..Options::new(holder("without")) };
    for (number, options) in [with(), without(), with()].into_iter().enumerate() {
        let mut session = Session::open(store.clone(), &"s".into(), options).await.unwrap();
        for part in 0..3 {
            session.dispatch(&Note(format!("{number} {part}"))).await.unwrap();
        }
        session.close().await.unwrap();
    }
    assert!(store.snapshots(&"s".into()).await.unwrap().len() >= 3);
    let session = open(&store).await;
    let notes: Vec<String> =
        session.query::<Note>().unwrap().all().map(|it| it.0.clone()).collect();
    assert_eq!(notes, ["0 0", "0 1", "0 2", "1 0", "1 1", "1 2", "2 0", "2 1", "2 2"]);
    assert_eq!(session.query::<Count>().unwrap().latest(), Some(&Count(9)));
}

#[tokio::test]
async fn an_unregistered_slice_is_in_the_snapshot_of_its_record_and_in_no_later_one() {
    let store = store();
    let mut session = open(&store).await;
    session.dispatch(&Note("a".into())).await.unwrap();
    let snapshot = session.snapshot(BTreeMap::new());
    let (generation, seq) = (snapshot.generation, snapshot.seq);
    let stored = StoredSnapshot { generation, seq, bytes: snapshot.to_json().into() };
    store.put_snapshot(&"s".into(), stored).await.unwrap();
    session.close().await.unwrap();

    let options = Options::new(holder("without"));
    let mut session = Session::open(store.clone(), &"s".into(), options).await.unwrap();
    let has_notes = |session: &Session| {
        let snapshot = session.snapshot(BTreeMap::new());
        snapshot.slices.iter().any(|slice| slice.slice_type == "notes")
    };
    assert!(has_notes(&session));
    session.dispatch(&Note("b".into())).await.unwrap();
    assert!(!has_notes(&session));
}

#[tokio::test]
async fn an_observer_that_fails_does_not_stop_the_others_and_is_reported() {
    let store = store();
    let mut session = open(&store).await;
    let seen = Arc::new(std::sync::Mutex::new(0));
    session.observe(|_| Err("no".into()));
    session.observe(|_| panic!("loudly"));
    let counter = seen.clone();
    session.observe(move |_| {
        *counter.lock().unwrap() += 1;
        Ok(())
    });
    session.dispatch(&Note("a".into())).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), 1);
    let warnings = session.take_warnings();
    assert_eq!(
        warnings,
        ["observer 0 failed at record 1: no", "observer 1 failed at record 1: it panicked"]
    );
}

#[tokio::test]
async fn the_built_in_slices_contain_the_query_and_the_files() {
    let store = store();
    let mut session = open(&store).await;
    for event in [
        r#"{"type":"query:started","payload":{"message":"do it"}}"#,
        r#"{"type":"file:created","payload":{"path":"/a"}}"#,
        r#"{"type":"file:created","payload":{"path":"/b"}}"#,
        r#"{"type":"file:deleted","payload":{"path":"/a"}}"#,
        r#"{"type":"permission:requested","payload":{"requestId":"r1"}}"#,
    ] {
        session.emit(&SessionEvent::from_json(event).unwrap()).await.unwrap();
    }
    let query = session.query::<QueryState>().unwrap().latest().unwrap().clone();
    assert_eq!((query.status, query.waiting.len()), (QueryStatus::Running, 1));
    let files: Vec<(String, FileStatus)> = session
        .query::<FileState>()
        .unwrap()
        .all()
        .map(|file| (file.path.to_string(), file.status))
        .collect();
    assert_eq!(
        files,
        [("/a".to_owned(), FileStatus::Deleted), ("/b".to_owned(), FileStatus::Created)]
    );
}

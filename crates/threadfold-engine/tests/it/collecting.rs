//! What is found on a machine is imported in the background, session by session.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_engine::agents::Machine;
use threadfold_engine::{
    Collector, CollectorObserver, CollectorOptions, Discovery, EngineError, FoundSession,
    FoundSessions, Host, ImportCount, LostContent, Options, RemovedSessions, Writers, holder,
};
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Holder, MemoryStore, Store};
use tokio::sync::Notify;

const SESSIONS: usize = 60;

/// Takes its time after each import, and counts what is open then.
struct SlowObserver {
    writers: Arc<OnceLock<Writers>>,
    most_open: Arc<AtomicUsize>,
    searches: Arc<AtomicUsize>,
    done: Arc<Notify>,
}

impl CollectorObserver for SlowObserver {
    fn found(&self, _: FoundSessions) {
        self.searches.fetch_add(1, Ordering::SeqCst);
    }

    fn imported(&self, _: &SessionId) {
        // So that the machine is searched again before everything is imported.
        thread::sleep(Duration::from_millis(30));
        let open = self.writers.get().map_or(0, Writers::open_count);
        self.most_open.fetch_max(open, Ordering::SeqCst);
    }

    fn progress(&self, count: ImportCount) {
        if count.total > 0 && count.done == count.total {
            self.done.notify_one();
        }
    }

    fn failed(&self, found: &FoundSession, error: &EngineError) {
        panic!("{}: {error}", found.id);
    }

    fn lost(&self, _: &FoundSession, lost: &LostContent) {
        panic!("{lost:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_wait_to_be_imported_are_not_opened_by_the_next_search() {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join(".claude/projects/p");
    fs::create_dir_all(&project).unwrap();
    for number in 0..SESSIONS {
        let line = format!(
            r#"{{"type":"user","uuid":"u{number}","sessionId":"s{number}","message":{{"role":"user","content":"Hello"}}}}"#
        );
        fs::write(project.join(format!("s{number}.jsonl")), line + "\n").unwrap();
    }
    let store = SqliteStore::open(home.path().join("store.db")).unwrap();
    let host = Host::new(Arc::new(store));
    let writers = Writers::new(host, || Options::new(holder("a test")));
    let (shared, most_open, searches) = (Arc::new(OnceLock::new()), Arc::default(), Arc::default());
    let done = Arc::new(Notify::new());
    let observer = SlowObserver {
        writers: Arc::clone(&shared),
        most_open: Arc::clone(&most_open),
        searches: Arc::clone(&searches),
        done: done.clone(),
    };
    assert!(shared.set(writers.clone()).is_ok());
    let place = home.path().to_owned();
    let options = CollectorOptions {
        discover: Arc::new(move || {
            Discovery::of_machine(&Machine { home: place.clone(), variable: &|_| None })
        }),
        index: None,
        removed: Arc::new(RemovedSessions::in_memory()),
    };
    let collector = Collector::new(writers, options, observer);
    tokio::select! {
        ended = collector.run() => panic!("it ended: {ended:?}"),
        () = done.notified() => {}
    }
    assert!(searches.load(Ordering::SeqCst) >= 2, "the machine was not searched again");
    let open = most_open.load(Ordering::SeqCst);
    assert!(open <= 1, "{open} sessions were open at once");
}

/// Is told of nothing that matters.
struct QuietObserver;

impl CollectorObserver for QuietObserver {
    fn found(&self, _: FoundSessions) {}

    fn imported(&self, _: &SessionId) {}

    fn progress(&self, count: ImportCount) {
        assert!(count.done <= count.total, "{count:?}");
    }

    fn failed(&self, found: &FoundSession, error: &EngineError) {
        panic!("{}: {error}", found.id);
    }

    fn lost(&self, _: &FoundSession, lost: &LostContent) {
        panic!("{lost:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_another_machine_was_importing_is_imported_once_its_lease_ends() {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join(".claude/projects/p");
    fs::create_dir_all(&project).unwrap();
    let line = r#"{"type":"user","uuid":"u1","sessionId":"s1","message":{"role":"user","content":"Hello"}}"#;
    fs::write(project.join("s1.jsonl"), format!("{line}\n")).unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    store.create(&"s1".into(), "log".into()).await.unwrap();
    // It got no further, and is gone.
    let elsewhere = Holder { what: "a machine that is gone".into(), ..Holder::default() };
    store.acquire(&"s1".into(), &elsewhere, Duration::from_secs(2)).await.unwrap();
    let writers = Writers::new(Host::new(store.clone()), || Options::new(holder("a test")));
    let place = home.path().to_owned();
    let options = CollectorOptions {
        discover: Arc::new(move || {
            Discovery::of_machine(&Machine { home: place.clone(), variable: &|_| None })
        }),
        index: None,
        removed: Arc::new(RemovedSessions::in_memory()),
    };
    let collector = Collector::new(writers, options, QuietObserver);
    let imported = async {
        loop {
            store.changed(&"s1".into(), 0).await.unwrap();
            if store.head(&"s1".into()).await.unwrap().unwrap().seq >= 2 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        ended = collector.run() => panic!("it ended: {ended:?}"),
        ended = tokio::time::timeout(Duration::from_secs(20), imported) => ended.unwrap(),
    }
}

//! A folder of sessions with errors.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_engine::{EngineError, FolderFollower, FolderUpdate, Host, Options, holder};
use threadfold_store::{MemoryStore, Store, StoreError};

use crate::recordings::open;

/// How long something may take to be seen.
const LIMIT: Duration = Duration::from_secs(20);

fn line(session: &str, text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{text}","sessionId":"{session}","message":{{"role":"user","content":"{text}"}}}}"#
    ) + "\n"
}

/// Adds a line to the transcript of the session that the file is named after.
fn append(path: &Path, text: &str) {
    let session = path.file_stem().unwrap().to_str().unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(line(session, text).as_bytes()).unwrap();
}

fn follower(store: &Arc<dyn Store>, folder: &Path) -> FolderFollower {
    FolderFollower::new(Host::new(store.clone()), folder, || Options::new(holder("a test")))
}

/// Polls until something is reported.
async fn updates(follower: &mut FolderFollower) -> Vec<FolderUpdate> {
    let end = Instant::now() + LIMIT;
    loop {
        let updates = follower.poll().await;
        if !updates.is_empty() {
            return updates;
        }
        assert!(Instant::now() < end, "nothing was reported");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn name(update: &FolderUpdate) -> &str {
    update.session.as_ref().map_or("", |it| it.as_str())
}

#[tokio::test]
async fn a_session_that_another_writes_is_reported_once_and_read_later() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    append(&folder.path().join("p/held.jsonl"), "one");
    append(&folder.path().join("p/other.jsonl"), "one");
    let other = open(&store, &"held".into()).await;
    let mut follower = follower(&store, folder.path());
    let reported = updates(&mut follower).await;
    assert_eq!(reported.iter().map(name).collect::<Vec<_>>(), ["held", "other"]);
    let held = matches!(reported[0].result, Err(EngineError::Store(StoreError::Held { .. })));
    assert!(held, "{reported:?}");
    assert_eq!(reported[1].result.as_ref().unwrap().records, 1);

    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert!(follower.poll().await.is_empty(), "what is known is not reported again");
    other.close().await.unwrap();
    let reported = updates(&mut follower).await;
    assert_eq!((name(&reported[0]), reported[0].result.as_ref().unwrap().records), ("held", 1));
    follower.close().await.unwrap();
}

#[tokio::test]
async fn an_unreadable_session_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let main = folder.path().join("p/broken.jsonl");
    append(&main, "one");
    let mut follower = follower(&store, folder.path());
    assert_eq!(updates(&mut follower).await.len(), 1);
    assert!(store.list_all("").await.unwrap()[0].lease.is_some());

    fs::remove_file(&main).unwrap();
    fs::create_dir(&main).unwrap();
    let reported = updates(&mut follower).await;
    assert!(matches!(reported[0].result, Err(EngineError::File { .. })), "{reported:?}");
    let entry = &store.list_all("").await.unwrap()[0];
    assert_eq!(entry.lease, None, "others may write");
    assert!(entry.summary.is_some(), "it is closed, not dropped");
}

#[cfg(unix)]
#[tokio::test]
async fn an_unreadable_folder_does_not_stop_the_others() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let closed = folder.path().join("closed");
    append(&closed.join("a.jsonl"), "one");
    append(&folder.path().join("p/b.jsonl"), "one");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = fs::read_dir(&closed).is_ok();
    let mut follower = follower(&store, folder.path());
    let reported = updates(&mut follower).await;
    let names: Vec<&str> = reported.iter().map(name).collect();
    if !is_root {
        assert_eq!(names, ["", "b"]);
        assert_eq!((&reported[0].path, reported[0].result.is_err()), (&closed, true));
        assert!(follower.poll().await.is_empty(), "what is known is not reported again");
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    if !is_root {
        assert_eq!(name(&updates(&mut follower).await[0]), "a");
    }
}

#[tokio::test]
async fn a_session_whose_id_comes_late_is_one_session() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let path = folder.path().join("p/notes.jsonl");
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, "{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"y\"}\n").unwrap();
    let mut follower = follower(&store, folder.path());
    let first = updates(&mut follower).await;
    append(&path, "one");
    let second = updates(&mut follower).await;
    assert_eq!(name(&first[0]), name(&second[0]));
    assert_eq!(second[0].result.as_ref().unwrap().records, 1, "{second:?}");
    follower.close().await.unwrap();
    assert_eq!(store.list_all("").await.unwrap().len(), 1);
}

//! A folder of sessions in which something is wrong.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_engine::{EngineError, FolderFollower, FolderUpdate, Options, holder};
use threadfold_store::{MemoryStore, Store, StoreError};

use crate::recordings::open;

/// How long something may take to be seen.
const LIMIT: Duration = Duration::from_secs(20);

fn line(text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{text}","sessionId":"s","message":{{"role":"user","content":"{text}"}}}}"#
    ) + "\n"
}

fn append(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(line(text).as_bytes()).unwrap();
}

fn follower(store: &Arc<dyn Store>, folder: &Path) -> FolderFollower {
    FolderFollower::new(store.clone(), folder, || Options::new(holder("a test")))
}

/// Looks until there is something to tell.
async fn news(follower: &mut FolderFollower) -> Vec<FolderUpdate> {
    let end = Instant::now() + LIMIT;
    loop {
        let news = follower.poll().await;
        if !news.is_empty() {
            return news;
        }
        assert!(Instant::now() < end, "nothing was told");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn name(news: &FolderUpdate) -> &str {
    news.session.as_ref().map_or("", |it| it.as_str())
}

#[tokio::test]
async fn a_session_that_another_writes_is_told_once_and_taken_later() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    append(&folder.path().join("p/held.jsonl"), "one");
    append(&folder.path().join("p/other.jsonl"), "one");
    let other = open(&store, &"held".into()).await;
    let mut follower = follower(&store, folder.path());
    let told = news(&mut follower).await;
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), ["held", "other"]);
    let held = matches!(told[0].result, Err(EngineError::Store(StoreError::Held { .. })));
    assert!(held, "{told:?}");
    assert_eq!(told[1].result.as_ref().unwrap().records, 1);

    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert!(follower.poll().await.is_empty(), "what is known is not told again");
    other.close().await.unwrap();
    let told = news(&mut follower).await;
    assert_eq!((name(&told[0]), told[0].result.as_ref().unwrap().records), ("held", 1));
    follower.close().await.unwrap();
}

#[tokio::test]
async fn a_session_that_cannot_be_read_is_left_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let main = folder.path().join("p/broken.jsonl");
    append(&main, "one");
    let mut follower = follower(&store, folder.path());
    assert_eq!(news(&mut follower).await.len(), 1);
    assert!(store.list_all("").await.unwrap()[0].lease.is_some());

    fs::remove_file(&main).unwrap();
    fs::create_dir(&main).unwrap();
    let told = news(&mut follower).await;
    assert!(matches!(told[0].result, Err(EngineError::File { .. })), "{told:?}");
    assert_eq!(store.list_all("").await.unwrap()[0].lease, None, "others may write");
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_cannot_be_read_keeps_no_other_from_being_read() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let closed = folder.path().join("closed");
    append(&closed.join("a.jsonl"), "one");
    append(&folder.path().join("p/b.jsonl"), "one");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = fs::read_dir(&closed).is_ok();
    let mut follower = follower(&store, folder.path());
    let told = news(&mut follower).await;
    let names: Vec<&str> = told.iter().map(name).collect();
    if !is_root {
        assert_eq!(names, ["", "b"]);
        assert_eq!((&told[0].path, told[0].result.is_err()), (&closed, true));
        assert!(follower.poll().await.is_empty(), "what is known is not told again");
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    if !is_root {
        assert_eq!(name(&news(&mut follower).await[0]), "a");
    }
}

//! The id under which a session is stored.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use threadfold_core::SessionId;
use threadfold_engine::{FoundSession, IdOrigin, InputOptions, SessionNames, open_one};
use threadfold_store::{MemoryStore, Store};

use crate::recordings::open;

/// A store, and a folder for files that are imported into it.
struct ImportEnv {
    store: Arc<dyn Store>,
    folder: TempDir,
}

impl ImportEnv {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { store: Arc::new(MemoryStore::default()), folder }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    async fn settle(&self, path: &Path) -> String {
        SessionNames::new(&self.store).settle(&found(path)).await.unwrap().to_string()
    }

    async fn store_as(&self, id: &str, path: &Path) {
        let mut session = open(&self.store, &SessionId::from(id)).await;
        found(path).read_into(&mut session, &mut |_| {}).await.unwrap();
        session.close().await.unwrap();
    }

    async fn import(&self, path: &Path) -> String {
        let id = self.settle(path).await;
        self.store_as(&id, path).await;
        id
    }
}

fn found(path: &Path) -> FoundSession {
    open_one(path, &InputOptions::default()).unwrap()
}

fn claude(session: &str, text: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{text}","sessionId":"{session}","message":{{"role":"user","content":"{text}"}}}}"#
    ) + "\n"
}

/// Returns lines that no agent writes, and that name no session.
fn unnamed(rest: &str) -> String {
    format!("{{\"note\":\"the same beginning\"}}\n{{\"note\":\"{rest}\"}}\n")
}

#[tokio::test]
async fn the_agents_own_id_is_trusted() {
    let importing = ImportEnv::new();
    let path = importing.write("copied.jsonl", &claude("s1", "one"));
    assert_eq!(found(&path).naming, IdOrigin::Agent);
    assert_eq!(importing.import(&path).await, "s1");
    // Also where the content is another: the session was continued elsewhere.
    let other = importing.write("other/copied.jsonl", &claude("s1", "two"));
    assert_eq!(importing.settle(&other).await, "s1");
}

#[tokio::test]
async fn the_same_file_has_the_same_id_again() {
    let importing = ImportEnv::new();
    let path = importing.write("notes.jsonl", &unnamed("one"));
    assert_eq!(found(&path).naming, IdOrigin::Content);
    let id = importing.import(&path).await;
    assert_eq!(importing.import(&path).await, id);
    importing.write("notes.jsonl", &(unnamed("one") + "{\"note\":\"more\"}\n"));
    assert_eq!(importing.import(&path).await, id, "it grew");
    let moved = importing.write("elsewhere/notes.jsonl", "");
    fs::rename(&path, &moved).unwrap();
    assert_eq!(importing.import(&moved).await, id, "it was moved");
    assert_eq!(importing.store.list_all("").await.unwrap().len(), 1);
}

#[tokio::test]
async fn two_contents_with_equal_beginnings_stay_separate() {
    let importing = ImportEnv::new();
    let one = importing.write("one.jsonl", &unnamed("one"));
    let other = importing.write("other.jsonl", &unnamed("other"));
    assert_eq!(found(&one).id, found(&other).id);
    let (first, second) = (importing.import(&one).await, importing.import(&other).await);
    assert_eq!(second, format!("{first}-2"));
    assert_eq!(importing.import(&one).await, first);
    assert_eq!(importing.import(&other).await, second);
    assert_eq!(importing.store.list_all("").await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_file_that_an_older_version_named_by_its_stem_keeps_that_name() {
    let importing = ImportEnv::new();
    let path = importing.write("notes.jsonl", &unnamed("one"));
    importing.store_as("notes", &path).await;
    assert_eq!(importing.import(&path).await, "notes");
    // A session of that name that has another content is not meant.
    let other = importing.write("p/notes.jsonl", &unnamed("other"));
    let id = importing.import(&other).await;
    assert_ne!(id, "notes");
    assert_eq!(importing.import(&other).await, id);
}

#[tokio::test]
async fn a_file_that_an_older_version_named_by_its_path_keeps_that_name() {
    let importing = ImportEnv::new();
    let path = importing.write("notes.jsonl", &unnamed("one"));
    let hash = blake3::hash(path.to_string_lossy().as_bytes()).to_hex();
    let older = format!("notes-{}", &hash[..8]);
    importing.store_as(&older, &path).await;
    assert_eq!(importing.import(&path).await, older);
}

#[tokio::test]
async fn a_session_of_another_agent_with_the_same_id_gets_its_own() {
    let importing = ImportEnv::new();
    let one = importing.write("one.jsonl", &claude("ses_1", "one"));
    let other = importing.write(
        "other.json",
        r#"{"info":{"id":"ses_1","directory":"/"},"messages":[{"info":{"id":"msg_1","sessionID":"ses_1","role":"user"},"parts":[{"id":"prt_1","messageID":"msg_1","sessionID":"ses_1","type":"text","text":"x"}]}]}"#,
    );
    assert_eq!((found(&one).id, found(&other).id), ("ses_1".into(), "ses_1".into()));
    assert_eq!(importing.import(&one).await, "ses_1");
    assert_eq!(importing.import(&other).await, "ses_1-2");
    assert_eq!(importing.settle(&one).await, "ses_1");
    assert_eq!(importing.settle(&other).await, "ses_1-2");
    let id = SessionId::from("ses_1-2");
    let loaded = threadfold_engine::load(&importing.store, &id, u64::MAX, Default::default());
    let blocks = loaded.await.unwrap().fold.settled().blocks().len();
    assert_eq!(blocks, 1, "its records are read under the other id as well");
}

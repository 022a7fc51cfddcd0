//! Databases that OpenCode 1 and OpenCode 2 wrote in turn, and tables that nobody knows.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use tempfile::TempDir;
use threadfold_core::{ConversationState, Json, SessionId};
use threadfold_engine::{
    Budget, Discovery, Follow, FoundSession, InputOptions, Machine, Session, Unit, UnreadContent,
    open_one, read_found, unread_content, unread_on,
};
use threadfold_fold::detection_named;
use threadfold_store::{MemoryStore, Store};
use threadfold_testkit::opencode::database::{
    DatabaseContent, fill, fill_stage, insert, recording,
};
use threadfold_testkit::story::{kinds, show};

use crate::recordings::open;

/// The session that both versions continued after the update.
const CONTINUED: &str = "ses_e1bb676e4ffeHgEaE7WJbs4wVa";
/// A session that version 1 began after the update.
const LATER: &str = "ses_e1bb4e57fffeHnCS5pqNRsZqbA";

const STAGES: [&str; 6] =
    ["1_v1", "2_v2_started", "3_v2_used", "4_v1_again", "5_v1_continued", "6_v2_again"];

fn at_stage(stage: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    fill_stage(&path, stage);
    (folder, path)
}

fn sessions(path: &Path) -> Vec<FoundSession> {
    let mut found = Discovery::of_folder(path.parent().unwrap(), &InputOptions::default());
    assert_eq!(found.unreadable, []);
    found.sessions.sort_by(|one, other| one.id.cmp(&other.id));
    found.sessions
}

fn found(path: &Path, session: &str) -> FoundSession {
    let format = detection_named("opencode-db");
    open_one(path, &InputOptions { format, session: Some(session), any: false }).unwrap()
}

async fn state_of(found: &FoundSession) -> ConversationState {
    let budget = Budget { bytes: 16 << 20, folder: std::env::temp_dir() };
    read_found(found, budget, |_| {}).await.unwrap().settled()
}

#[tokio::test]
async fn every_session_is_listed_once_whichever_version_has_it() {
    let mut counts = Vec::new();
    for stage in STAGES {
        let (_folder, path) = at_stage(stage);
        let found = sessions(&path);
        for session in &found {
            let state = state_of(session).await;
            assert!(!state.blocks().is_empty(), "{stage} {}", session.id);
            assert_eq!(kinds(&state).get("unknown"), None, "{stage} {}", session.id);
        }
        counts.push(found.len());
        assert_eq!(unread_content(&path), [], "{stage}");
    }
    assert_eq!(counts, [6, 6, 7, 8, 8, 8]);
}

#[tokio::test]
async fn the_update_keeps_what_is_shown() {
    let (_before, older) = at_stage("1_v1");
    let (_after, newer) = at_stage("2_v2_started");
    for session in sessions(&older) {
        let before = kinds(&state_of(&session).await);
        let after = kinds(&state_of(&found(&newer, session.id.as_str())).await);
        let shared = ["user_message", "thinking", "tool_use", "tool_result", "subagent", "error"];
        let shared = |all: &BTreeMap<String, usize>| shared.map(|kind| all.get(kind).copied());
        assert_eq!(shared(&before), shared(&after), "{}", session.id);
    }
}

#[tokio::test]
async fn a_session_that_both_versions_continued_shows_both_ends_and_reports_it() {
    let (_folder, path) = at_stage("5_v1_continued");
    let state = state_of(&found(&path, CONTINUED)).await;
    let ids: Vec<String> = state.blocks().iter().map(|it| it.id.to_string()).collect();
    let place = |start: &str| ids.iter().position(|it| it.starts_with(start)).unwrap();
    let notice = place("continued:");
    assert!(place("msg_1e44ae23a") < notice && notice < place("prt_"), "{ids:?}");
    assert_eq!(kinds(&state)["user_message"], 3, "{ids:?}");
    let json = state.blocks().iter().nth(notice).map(|it| Json::of(&*it).to_string());
    assert!(json.unwrap().contains("OpenCode 1 continued it as well"));
    // Before version 1 went on, there is nothing to report.
    let (_folder, path) = at_stage("3_v2_used");
    let state = state_of(&found(&path, CONTINUED)).await;
    assert!(!show(&state).contains("continued:"));
}

/// Reads what is new of a session in a database.
async fn poll(follower: &mut Box<dyn Follow>, session: &mut Session) -> u64 {
    follower.poll(session, &mut |_| {}).await.unwrap().records
}

#[tokio::test]
async fn a_session_that_is_followed_through_the_update_ends_like_one_that_is_read_once() {
    for id in [CONTINUED, "ses_e1bb63fe2ffe7C6djugcCE8Gy0", "ses_e1bb65d25ffeygkeQ72L9pmzRW"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("opencode.db");
        fill_stage(&path, STAGES[0]);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let mut session = open(&store, &SessionId::from(id)).await;
        let mut follower = found(&path, id).content.follower();
        for stage in STAGES {
            fs::remove_file(&path).unwrap();
            fill_stage(&path, stage);
            poll(&mut follower, &mut session).await;
            let whole = state_of(&found(&path, id)).await;
            assert_eq!(show(&session.fold().settled()), show(&whole), "{id} {stage}");
        }
        // A follower that begins again has nothing to add.
        let mut again = found(&path, id).content.follower();
        assert_eq!(poll(&mut again, &mut session).await, 0, "{id}");
    }
}

#[tokio::test]
async fn rows_that_disappear_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let id = fill(&path, &recording("multi@2.0.15"), DatabaseContent::All);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut session = open(&store, &SessionId::from(id.as_str())).await;
    let mut follower = found(&path, &id).content.follower();
    poll(&mut follower, &mut session).await;
    let before = session.fold().settled();
    let connection = Connection::open(&path).unwrap();
    // A revert deletes the messages from one on.
    let query = "SELECT seq FROM session_message WHERE type = 'user' ORDER BY seq DESC LIMIT 1";
    let from: i64 = connection.query_row(query, [], |row| row.get(0)).unwrap();
    connection.execute("DELETE FROM session_message WHERE seq >= ?1", [from]).unwrap();
    connection.execute("UPDATE event_sequence SET seq = seq + 1", []).unwrap();
    drop(connection);
    poll(&mut follower, &mut session).await;
    let after = session.fold().settled();
    assert!(after.blocks().len() < before.blocks().len());
    assert_eq!(show(&after), show(&state_of(&found(&path, &id)).await));
    // A second follower restores from the log what is gone.
    let mut again = found(&path, &id).content.follower();
    assert_eq!(poll(&mut again, &mut session).await, 0);
}

#[tokio::test]
async fn a_log_that_lost_its_beginning_is_not_trusted_and_an_old_cursor_reads_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let id = fill(&path, &recording("text"), DatabaseContent::All);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut session = open(&store, &SessionId::from(id.as_str())).await;
    let mut follower = found(&path, &id).content.follower();
    poll(&mut follower, &mut session).await;
    let connection = Connection::open(&path).unwrap();
    connection.execute("DELETE FROM event", []).unwrap();
    let message = serde_json::json!({"id": "msg_zzz", "session_id": id, "time_created": 1,
        "time_updated": 9_999_999_999_999_i64, "data": {"role": "user", "time": {"created": 1}}});
    let part = serde_json::json!({"id": "prt_zzz", "message_id": "msg_zzz", "session_id": id,
        "time_created": 1, "time_updated": 9_999_999_999_999_i64,
        "data": {"type": "text", "text": "after the log was emptied"}});
    insert(&connection, "message", &message);
    insert(&connection, "part", &part);
    let event = serde_json::json!({"id": "evt_1", "aggregate_id": id, "seq": 12,
        "type": "session.updated.1", "data": {"sessionID": id}});
    insert(&connection, "event", &event);
    drop(connection);
    poll(&mut follower, &mut session).await;
    let shown = show(&session.fold().settled());
    assert!(shown.contains("after the log was emptied"), "{shown}");
    assert_eq!(shown, show(&state_of(&found(&path, &id)).await));
}

#[tokio::test]
async fn a_session_that_only_version_1_has_is_read_from_its_log_after_the_update() {
    let (_folder, path) = at_stage("6_v2_again");
    let state = state_of(&found(&path, LATER)).await;
    assert_eq!(kinds(&state)["user_message"], 1);
    assert!(kinds(&state)["assistant_text"] >= 1);
}

#[test]
fn an_unknown_table_is_reported_and_a_secret_one_is_not() {
    let (folder, path) = at_stage("6_v2_again");
    let connection = Connection::open(&path).unwrap();
    let text = "PRAGMA foreign_keys = OFF; CREATE TABLE session_v3 (id text, time_created integer); \
                INSERT INTO session_v3 VALUES ('a', 1794831427541), ('b', 1794931427541); \
                CREATE TABLE empty_one (id text); \
                INSERT INTO session_message VALUES ('msg_t', 'ses_1', 'telepathy', 1, 5, 5, '{}');";
    connection.execute_batch(text).unwrap();
    drop(connection);
    let summary = |unread: &[UnreadContent]| -> Vec<(String, u64, bool)> {
        unread.iter().map(|it| (it.what.clone(), it.count, it.since.is_some())).collect()
    };
    let expected = vec![
        ("table `session_v3`".to_owned(), 2, true),
        ("messages of type `telepathy`".to_owned(), 1, true),
    ];
    let unread = unread_content(&path);
    assert_eq!(summary(&unread), expected);
    assert!(unread.iter().all(|it| it.unit == Unit::Row && it.place == path));
    let found = Discovery::of_folder(folder.path(), &InputOptions::default());
    assert_eq!(summary(&found.unread), expected);

    // The same in the agent's own folder.
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("opencode");
    fs::create_dir(&place).unwrap();
    fs::copy(&path, place.join("opencode-nightly.db")).unwrap();
    fs::write(place.join("opencode-other.db"), "").unwrap();
    Connection::open(place.join("opencode-empty.db"))
        .unwrap()
        .execute_batch("CREATE TABLE other (id text)")
        .unwrap();
    let data = home.path().as_os_str().to_owned();
    let variable = |name: &str| (name == "XDG_DATA_HOME").then(|| OsString::from(&data));
    let machine = Machine { home: home.path().to_owned(), variable: &variable };
    let mut unread = summary(&unread_on(&machine));
    assert_eq!(unread.remove(0).0, "a database without OpenCode's tables");
    assert_eq!(unread, expected);
    let listed = Discovery::of_machine(&machine);
    assert_eq!((listed.sessions.len(), listed.unread.len()), (8, 3));
}

#[test]
fn messages_of_a_preview_of_version_2_are_reported() {
    let (_folder, path) = at_stage("1_v1");
    assert_eq!(unread_content(&path), []);
    let connection = Connection::open(&path).unwrap();
    let columns: Vec<String> = connection
        .prepare("SELECT name FROM pragma_table_info('session_message')")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let values = vec!["1"; columns.len()].join(",");
    let text = format!("PRAGMA foreign_keys = OFF; INSERT INTO session_message VALUES ({values})");
    connection.execute_batch(&text).unwrap();
    drop(connection);
    let what: Vec<_> = unread_content(&path).into_iter().map(|it| (it.what, it.count)).collect();
    assert_eq!(what, [("table `session_message`".to_owned(), 1)]);
}

#[test]
fn a_database_of_version_2_with_other_columns_is_reported_and_not_called_foreign() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let connection = Connection::open(&path).unwrap();
    let text = "CREATE TABLE session_v2 (id text, title text); \
                INSERT INTO session_v2 VALUES ('ses_1', 'x')";
    connection.execute_batch(text).unwrap();
    drop(connection);
    let found = Discovery::of_folder(folder.path(), &InputOptions::default());
    assert!(found.sessions.is_empty());
    let what: Vec<_> = found.unread.iter().map(|it| (it.what.as_str(), it.count)).collect();
    assert_eq!(what.len(), 1, "{what:?}");
    assert!(what[0].0.starts_with("table `session_v2` (without `session_v2.parent_id`"));
}

//! A server of OpenCode 2, played from a recording: its password, its pages, and its interruptions.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use threadfold_convert::opencode;
use threadfold_core::SessionId;
use threadfold_engine::ServerError;
use threadfold_engine::agents::opencode::OpencodeServer;
use threadfold_fold::{SessionFile, StoredRecord, parse_transcript};
use threadfold_store::{Limit, MemoryStore, Store};
use threadfold_testkit::opencode::database::recording;
use threadfold_testkit::story::show;

use crate::recordings::open;

const LIMIT: Duration = Duration::from_secs(30);
/// `opencode:s3cret`, in the lower case that all headers are compared in.
const AUTHORIZATION: &str = "authorization: basic b3blbmnvzgu6cznjcmv0";

/// A recorded session, as a server has it.
struct Recorded {
    exports: Vec<Value>,
    events: Vec<String>,
    /// After how many events each connection ends.
    cuts: Vec<usize>,
    connections: AtomicUsize,
    asked: Mutex<Vec<String>>,
}

impl Recorded {
    fn read(name: &str, cuts: Vec<usize>) -> Self {
        let folder = recording(name);
        let read = |file: &str| fs::read(folder.join(file)).ok();
        let exports = ["export.json", "export.child1.json"].iter().filter_map(|file| read(file));
        let exports =
            exports.map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap()["data"].take());
        let events = String::from_utf8(read("events.sse.jsonl").unwrap()).unwrap();
        let events = events.lines().map(|line| {
            let record: Value = serde_json::from_str(line).unwrap();
            format!("data: {}\n\n", record["data"])
        });
        Self {
            exports: exports.collect(),
            events: events.collect(),
            cuts,
            connections: AtomicUsize::new(0),
            asked: Mutex::default(),
        }
    }

    fn root(&self) -> String {
        self.exports[0]["info"]["id"].as_str().unwrap().to_owned()
    }

    /// Returns the status, the type and the body of an answer.
    fn answer(&self, path: &str, query: &str) -> (&'static str, &'static str, String) {
        let json = |value: Value| ("200 OK", "application/json", value.to_string());
        let list = |all: Vec<Value>| {
            // Two objects a page; the next page is asked for by its number.
            let page = query.split('&').find_map(|it| it.strip_prefix("cursor="));
            let page: usize = page.map_or(0, |it| it.parse().unwrap());
            let data: Vec<_> = all.into_iter().skip(page * 2).take(2).collect();
            json(json!({"data": data, "cursor": {"next": (page + 1).to_string()}}))
        };
        let session = |id: &str| self.exports.iter().find(|it| it["info"]["id"] == *id);
        match path.strip_prefix("/api/session").map(|it| it.trim_start_matches('/')) {
            None if path == "/api/info" => json(json!({"version": "2.0.15", "pid": 1})),
            None => ("200 OK", "text/html", "<html>".to_owned()),
            Some("") => {
                let parent = query.split('&').find_map(|it| it.strip_prefix("parentID="));
                let is_asked = |it: &&Value| match parent {
                    Some("null") => it["info"]["parentID"].is_null(),
                    Some(id) => it["info"]["parentID"] == *id,
                    None => true,
                };
                list(self.exports.iter().filter(is_asked).map(|it| it["info"].clone()).collect())
            }
            Some(rest) => {
                match (session(rest.trim_end_matches("/message")), rest.ends_with("/message")) {
                    (Some(found), true) => list(found["messages"].as_array().unwrap().clone()),
                    (Some(found), false) => json(json!({"data": found["info"]})),
                    (None, _) => ("404 Not Found", "application/json", "{}".to_owned()),
                }
            }
        }
    }

    fn speak(&self, mut client: TcpStream) {
        let mut lines = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
        let Some(first) = lines.next() else { return };
        let headers: Vec<String> =
            lines.take_while(|line| !line.is_empty()).map(|it| it.to_lowercase()).collect();
        let target = first.split(' ').nth(1).unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        self.asked.lock().unwrap().push(path.to_owned());
        let is_allowed = headers.iter().any(|it| it == AUTHORIZATION);
        if !is_allowed {
            let refusal = "HTTP/1.1 401 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            drop(client.write_all(refusal.as_bytes()));
            return;
        }
        if path == "/api/event" {
            let number = self.connections.fetch_add(1, Ordering::SeqCst);
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            drop(client.write_all(head.as_bytes()));
            let cut = self.cuts.get(number).copied().unwrap_or(0);
            for event in &self.events[..cut] {
                drop(client.write_all(event.as_bytes()));
            }
            if number >= self.cuts.len() {
                drop(client.write_all(b": heartbeat\n\n"));
                thread::sleep(LIMIT);
            }
            return;
        }
        let (status, kind, body) = self.answer(path, query);
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        drop(client.write_all(format!("{head}{body}").as_bytes()));
    }
}

fn serve(recorded: &Arc<Recorded>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let recorded = recorded.clone();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let recorded = recorded.clone();
            thread::spawn(move || recorded.speak(client));
        }
    });
    format!("127.0.0.1:{}", address.port())
}

#[tokio::test]
async fn a_server_is_recognized_by_its_answer_and_wants_its_password() {
    let recorded = Arc::new(Recorded::read("subagent@2.0.15", Vec::new()));
    let address = serve(&recorded);
    let without = OpencodeServer::new(&format!("http://{address}")).unwrap();
    let error = without.sessions().await.unwrap_err();
    assert!(matches!(error, ServerError::Unauthorized { has_password: false, .. }), "{error}");
    let wrong = without.clone().with_password(Some("other".to_owned()));
    let error = wrong.sessions().await.unwrap_err();
    assert!(matches!(error, ServerError::Unauthorized { has_password: true, .. }), "{error}");
    let server = without.with_password(Some("s3cret".to_owned()));
    let sessions = server.sessions().await.unwrap();
    let ids: Vec<_> = sessions.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(ids, [recorded.root()]);
    assert_eq!(sessions[0].directory, "/home/dev/project");
    let missing = server.session("ses_none").await.unwrap_err();
    assert!(matches!(missing, ServerError::NoSession { .. }), "{missing}");
    assert!(!format!("{server:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_session_is_complete_wherever_the_connection_is_cut() {
    for name in ["subagent@2.0.15", "tools@2.0.15", "revert@2.0.15"] {
        let count = Recorded::read(name, Vec::new()).events.len();
        for cuts in
            [vec![], vec![count / 3], vec![count / 4, count / 2], vec![count], vec![count, 2]]
        {
            let recorded = Arc::new(Recorded::read(name, cuts.clone()));
            let address = format!("http://opencode:s3cret@{}", serve(&recorded));
            let server = OpencodeServer::new(&address).unwrap();
            let root = recorded.root();
            let of = server.session(&root).await.unwrap();
            let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
            let mut session = open(&store, &SessionId::from(root.as_str())).await;
            let wanted = cuts.len() + 1;
            // A connection is reported once what was missed is stored.
            let (log, id) = (store.clone(), SessionId::from(root.as_str()));
            let stop = async move {
                loop {
                    let records = log.read(&id, 0, Limit::default()).await.unwrap_or_default();
                    let is_ready = |it: &StoredRecord| {
                        String::from_utf8_lossy(&it.bytes).starts_with(r#"{"type":"ee:ready""#)
                    };
                    if records.iter().filter(|it| is_ready(it)).count() >= wanted {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let followed = server.follow(&mut session, &of, stop);
            tokio::time::timeout(LIMIT, followed).await.expect("it stops").unwrap();
            let files: Vec<_> = recorded
                .exports
                .iter()
                .enumerate()
                .map(|(number, export)| (format!("{number}.json"), export.to_string().into_bytes()))
                .collect();
            let files: Vec<_> =
                files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
            let expected = parse_transcript(opencode::AGENT, &files);
            let found = session.fold().settled();
            assert_eq!(show(&found), show(&expected), "{name} {cuts:?}");
            // No record contains the password.
            let records = store.read(&root.as_str().into(), 0, Limit::default()).await.unwrap();
            assert!(
                records.iter().all(|it| !String::from_utf8_lossy(&it.bytes).contains("s3cret"))
            );
        }
    }
}

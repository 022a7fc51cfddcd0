//! Listeners of a host: they continue from any cursor, and all of them get the end.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use threadfold_core::SessionEvent;
use threadfold_engine::{
    Arrival, Delivery, Discovery, EngineError, Frame, FrameListener, Host, InputOptions,
    ListenOptions, Options, PROTOCOL, REDUCER, Session, SessionQuery, holder,
};
use threadfold_fold::Cursor;
use threadfold_sqlite::SqliteStore;
use threadfold_store::{MemoryStore, Store, StoreError};
use threadfold_testkit::{DelegatingStore, StoreCall, StoreHooks};

use crate::frames::{cursor, frames};

const LIMIT: Duration = Duration::from_secs(60);

fn block(id: &str) -> SessionEvent {
    SessionEvent::from_json(&format!(
        r#"{{"type":"block:upsert","payload":{{"block":{{"id":"{id}","type":"assistant_text","content":"{id}","status":"complete"}}}}}}"#
    ))
    .unwrap()
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

fn sqlite(folder: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(folder.join("store.db")).unwrap())
}

async fn open(host: &Host) -> Session {
    host.open(&"s".into(), Options::new(holder("a test"))).await.unwrap()
}

async fn listen(host: &Host, after: Option<Cursor>) -> FrameListener {
    let options = ListenOptions { after, ..ListenOptions::default() };
    host.listen(&"s".into(), options).await.unwrap().continued()
}

async fn next(listener: &mut FrameListener) -> Vec<Frame> {
    frames(&tokio::time::timeout(LIMIT, listener.next_frames()).await.expect("no frames"))
}

const RECORDS: u64 = 3_000;

/// Reads from the beginning to the end, and reconnects with its cursor after every few arrivals.
/// Returns how often it connected.
async fn read_with_reconnects(
    host: Host,
    from: Cursor,
    arrivals: usize,
    progress: Arc<AtomicU64>,
) -> usize {
    let (mut seen, mut connections) = (from, 0);
    loop {
        connections += 1;
        let mut listener = listen(&host, Some(seen.clone())).await;
        for _ in 0..arrivals {
            for frame in next(&mut listener).await {
                let at = cursor(&frame);
                match frame {
                    Frame::Changes { .. } => {
                        assert_eq!((at.seq, &at.log), (seen.seq + 1, &seen.log));
                        progress.store(at.seq, Ordering::Relaxed);
                        seen = at;
                    }
                    Frame::End { .. } => {
                        assert_eq!((at.seq, seen.seq), (RECORDS, RECORDS));
                        return connections;
                    }
                    other => panic!("at {seen}: {other:?}"),
                }
            }
        }
    }
}

/// Writes while clients of another host read and reconnect.
async fn check_reconnects(writing: Host, reading: Host) {
    let mut session = open(&writing).await;
    let from = Cursor { seq: 0, ..session.cursor() };
    let client = |arrivals| {
        let progress = Arc::new(AtomicU64::new(0));
        let host = reading.clone();
        let client = read_with_reconnects(host, from.clone(), arrivals, progress.clone());
        (tokio::spawn(client), progress)
    };
    let clients: Vec<_> = (1..=6).map(client).collect();
    let (mut written, mut late) = (0, Vec::new());
    while written < RECORDS {
        let count = (written % 7 + 1).min(RECORDS - written);
        let events: Vec<_> = (0..count).map(|it| block(&format!("b{}", written + it))).collect();
        session.emit_all(&events).await.unwrap();
        written += count;
        // Whoever is more than 1,024 steps behind while connected gets a gap.
        let slowest = || clients.iter().map(|it| it.1.load(Ordering::Relaxed)).min().unwrap();
        while written > slowest() + 500 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if late.is_empty() && written >= RECORDS - 900 {
            // They begin where nothing is held in memory any more, while more is written.
            late.extend((1..=3).map(client));
        }
    }
    session.close().await.unwrap();
    for (client, _) in clients {
        assert!(client.await.unwrap() > 1, "it never reconnected");
    }
    for (client, _) in late {
        client.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reconnects_misses_nothing_of_a_writer_in_its_process() {
    let host = Host::new(memory());
    check_reconnects(host.clone(), host).await;
    let folder = tempfile::tempdir().unwrap();
    let host = Host::new(sqlite(folder.path()));
    check_reconnects(host.clone(), host).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reconnects_misses_nothing_of_a_writer_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let (writing, reading) = (Host::new(sqlite(folder.path())), Host::new(sqlite(folder.path())));
    check_reconnects(writing, reading).await;
}

#[tokio::test]
async fn every_cursor_of_one_listener_is_a_beginning_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let (writing, reading) = (Host::new(sqlite(folder.path())), Host::new(sqlite(folder.path())));
    let mut session = open(&writing).await;
    let mut first = listen(&writing, Some(Cursor { seq: 0, ..session.cursor() })).await;
    let mut lines: Vec<Arc<str>> = Vec::new();
    for number in 0..40 {
        session.emit(&block(&format!("b{number}"))).await.unwrap();
        lines.extend(first.next_frames().await);
    }
    for host in [&writing, &reading] {
        for (index, frame) in frames(&lines).iter().enumerate() {
            let mut again = listen(host, Some(cursor(frame))).await;
            let mut rest: Vec<Arc<str>> = Vec::new();
            while rest.len() < lines.len() - index - 1 {
                rest.extend(again.next_frames().await);
            }
            assert_eq!(rest, lines[index + 1..]);
        }
    }
    session.close().await.unwrap();
}

#[tokio::test]
async fn steps_missing_from_the_buffer_are_read_from_the_store() {
    let store = memory();
    let mut session = open(&Host::new(store.clone())).await;
    for number in 0..5 {
        session.emit(&block(&format!("b{number}"))).await.unwrap();
    }
    let after = Some(Cursor { seq: 2, ..session.cursor() });
    let mut listener = listen(&Host::new(store), after).await;
    let Arrival::Steps(steps, view) = listener.next().await else { panic!("no steps") };
    let seqs: Vec<u64> = steps.iter().map(|it| it.step.seq).collect();
    assert_eq!((seqs, view.seq), (vec![3, 4, 5], 5));
    assert_eq!(view.conversation, *session.fold().conversation());
    assert_eq!(view.cursor(), session.cursor());
}

#[tokio::test]
async fn a_resumed_stream_states_its_versions_first() {
    let store = memory();
    let writing = Host::new(store.clone());
    let mut session = open(&writing).await;
    for number in 0..3 {
        session.emit(&block(&format!("b{number}"))).await.unwrap();
    }
    let own = session.cursor();
    for host in [writing, Host::new(store)] {
        for seq in [1, 3] {
            let after = Cursor { seq, ..own.clone() };
            let options = ListenOptions { after: Some(after.clone()), ..ListenOptions::default() };
            let mut listener = host.listen(&"s".into(), options).await.unwrap();
            let first = next(&mut listener).await;
            let [Frame::Resume { protocol, reducer, then, .. }] = &first[..] else {
                panic!("{after}: {first:?}")
            };
            assert_eq!((*protocol, *reducer, *then), (PROTOCOL, REDUCER, Delivery::Changes));
            assert_eq!(cursor(&first[0]), after);
            if seq == 1 {
                let rest = next(&mut listener).await;
                assert!(matches!(rest[..], [Frame::Changes { .. }, Frame::Changes { .. }]));
            }
        }
    }
}

#[tokio::test]
async fn a_cursor_that_does_not_match_gets_a_gap_and_a_snapshot() {
    let store = memory();
    let writing = Host::new(store.clone());
    let mut session = open(&writing).await;
    for number in 0..3 {
        session.emit(&block(&format!("b{number}"))).await.unwrap();
    }
    let own = session.cursor();
    let foreign = [
        (Cursor { log: "another".into(), ..own.clone() }, "of another log"),
        (Cursor { log: "another".into(), seq: 1, ..own.clone() }, "of another log"),
        (Cursor { generation: own.generation + 1, seq: 1, ..own.clone() }, "of another generation"),
        (Cursor { generation: own.generation - 1, ..own.clone() }, "of another generation"),
        (Cursor { seq: 4, ..own.clone() }, "beyond the end"),
        (Cursor { seq: u64::MAX, ..own.clone() }, "beyond the end"),
    ];
    for host in [writing, Host::new(store)] {
        for (after, wanted) in &foreign {
            let mut listener = listen(&host, Some(after.clone())).await;
            let frames = next(&mut listener).await;
            let [gap @ Frame::Gap { reason, .. }, snapshot @ Frame::Snapshot { .. }] = &frames[..]
            else {
                panic!("{after}: {frames:?}")
            };
            assert!(reason.contains(wanted), "{after}: {reason}");
            assert_eq!(cursor(gap), *after, "whoever sees only the gap gets it again");
            assert_eq!(cursor(snapshot), own, "{after}");
        }
    }
}

#[tokio::test]
async fn a_client_with_another_reducer_is_notified_and_gets_changes() {
    let host = Host::new(memory());
    let mut session = open(&host).await;
    session.emit(&block("a")).await.unwrap();
    for after in [None, Some(session.cursor())] {
        let (delivery, reducer) = (Delivery::Events, Some(REDUCER + 1));
        let options = ListenOptions { after, delivery, reducer };
        let mut listener = host.listen(&"s".into(), options).await.unwrap();
        let first = next(&mut listener).await;
        let [Frame::Snapshot { notice, then, state, snapshot, reducer, .. }] = &first[..] else {
            panic!("{first:?}")
        };
        let notice = notice.as_ref().unwrap();
        assert!(notice.contains(&format!("reducer {}", REDUCER + 1)), "{notice}");
        assert_eq!((*then, *reducer), (Delivery::Changes, REDUCER));
        assert!(state.is_some() && snapshot.is_none());
        session.emit(&block("b")).await.unwrap();
        let following = next(&mut listener).await;
        assert!(matches!(following[..], [Frame::Changes { .. }]), "{following:?}");
    }
}

#[tokio::test]
async fn a_frame_is_serialized_once_for_all_listeners() {
    let store = memory();
    let (writing, reading) = (Host::new(store.clone()), Host::new(store));
    let mut session = open(&writing).await;
    for host in [writing, reading] {
        let (mut one, mut other) = (listen(&host, None).await, listen(&host, None).await);
        let options = ListenOptions { delivery: Delivery::Events, ..ListenOptions::default() };
        let mut events = host.listen(&"s".into(), options).await.unwrap();
        for listener in [&mut one, &mut other, &mut events] {
            next(listener).await;
        }
        session.emit(&block("a")).await.unwrap();
        let (one, other) = (one.next_frames().await, other.next_frames().await);
        assert_eq!(one.len(), 1);
        assert!(Arc::ptr_eq(&one[0], &other[0]), "each has a line of its own");
        assert_ne!(one[0], events.next_frames().await[0]);
    }
}

#[tokio::test]
async fn all_listeners_get_the_end_after_all_steps() {
    let folder = tempfile::tempdir().unwrap();
    for is_dropped in [false, true] {
        let (writing, reading) =
            (Host::new(sqlite(folder.path())), Host::new(sqlite(folder.path())));
        let mut session = open(&writing).await;
        session.emit(&block("first")).await.unwrap();
        let mut listeners = Vec::new();
        for host in [&writing, &writing, &reading, &reading] {
            listeners.push(listen(host, None).await);
        }
        let at = session.cursor();
        session.emit(&block("last")).await.unwrap();
        let last = session.cursor();
        match is_dropped {
            true => drop(session),
            false => drop(session.close().await.unwrap()),
        }
        listeners.push(listen(&writing, Some(at)).await);
        for mut listener in listeners {
            let mut seen = 0;
            loop {
                for frame in next(&mut listener).await {
                    seen = seen.max(cursor(&frame).seq);
                    if let Frame::End { .. } = frame {
                        assert_eq!((cursor(&frame), seen), (last.clone(), last.seq));
                        seen = u64::MAX;
                    }
                }
                if seen == u64::MAX {
                    break;
                }
            }
            let again = next(&mut listener).await;
            assert!(matches!(again[..], [Frame::End { .. }]), "{again:?}");
        }
    }
}

#[tokio::test]
async fn a_heartbeat_has_the_cursor_of_what_was_sent() {
    let host = Host::new(memory());
    let mut session = open(&host).await;
    session.emit(&block("a")).await.unwrap();
    let mut listener = listen(&host, None).await;
    assert_eq!(cursor(&listener.heartbeat()).seq, 0, "the snapshot was not sent");
    next(&mut listener).await;
    session.emit(&block("b")).await.unwrap();
    assert_eq!(cursor(&listener.heartbeat()).seq, 1);
    next(&mut listener).await;
    assert_eq!(cursor(&listener.heartbeat()), session.cursor());
}

#[tokio::test]
async fn listeners_of_a_writer_that_another_one_replaced_get_the_end() {
    let store = memory();
    let host = Host::new(store.clone());
    let mut replaced = open(&host).await;
    let mut listener = listen(&host, None).await;
    next(&mut listener).await;
    let epoch = store.head(&"s".into()).await.unwrap().unwrap().epoch;
    store.release(&"s".into(), epoch).await.unwrap();
    let mut other = open(&Host::new(store)).await;
    other.emit(&block("other")).await.unwrap();
    let error = replaced.emit(&block("replaced")).await.unwrap_err();
    assert!(matches!(error, EngineError::Store(StoreError::Fenced { .. })), "{error}");
    let end = next(&mut listener).await;
    assert!(matches!(end[..], [Frame::End { .. }]), "{end:?}");

    let mut again = listen(&host, Some(cursor(&end[0]))).await;
    assert!(matches!(next(&mut again).await[..], [Frame::Changes { .. }]));
    other.emit(&block("more")).await.unwrap();
    assert!(matches!(next(&mut again).await[..], [Frame::Changes { .. }]));
}

/// A store that does not report that a session was added to.
struct SilentStore;

#[async_trait]
impl StoreHooks for SilentStore {
    type Ticket = ();

    async fn before(&self, call: StoreCall) -> Result<(), StoreError> {
        match call {
            StoreCall::Changed => std::future::pending().await,
            _ => Ok(()),
        }
    }

    async fn after(&self, _: StoreCall, (): ()) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_cursor_that_was_seen_elsewhere_first_is_waited_for() {
    let store = memory();
    let writing = Host::new(store.clone());
    let reading = Host::new(Arc::new(DelegatingStore::new(store, SilentStore)));
    let mut session = open(&writing).await;
    session.emit(&block("a")).await.unwrap();
    let mut early = listen(&reading, None).await;
    assert_eq!(cursor(&next(&mut early).await[0]).seq, 1);
    session.emit(&block("b")).await.unwrap();
    let after = session.cursor();
    let mut listener = listen(&reading, Some(after.clone())).await;
    session.emit(&block("c")).await.unwrap();
    let following = next(&mut listener).await;
    assert!(matches!(following[..], [Frame::Changes { .. }]), "{following:?}");
    assert_eq!(cursor(&following[0]).seq, after.seq + 1);
}

fn transcript(folder: &Path, id: &str, session: &str) {
    let line = format!(
        r#"{{"type":"user","uuid":"u","sessionId":"{session}","message":{{"role":"user","content":"x"}}}}"#
    );
    fs::write(folder.join(format!("{id}.jsonl")), line + "\n").unwrap();
}

async fn store_session(store: &Arc<dyn Store>, folder: &Path, id: &str) {
    transcript(folder, id, id);
    let found =
        threadfold_engine::open_one(&folder.join(format!("{id}.jsonl")), &InputOptions::default());
    let options = Options::new(holder("a test"));
    let mut session = Session::open(store.clone(), &id.into(), options).await.unwrap();
    found.unwrap().read_into(&mut session, &mut |_| {}).await.unwrap();
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_list_unites_stored_and_found_sessions_page_by_page() {
    let (elsewhere, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = memory();
    for id in ["a1", "a2", "b1"] {
        store_session(&store, elsewhere.path(), id).await;
    }
    for id in ["a2", "a3", "b2"] {
        transcript(folder.path(), id, id);
    }
    let opencode = r#"{"info":{"id":"a1","directory":"/"},"messages":[]}"#;
    fs::write(folder.path().join("export.json"), opencode).unwrap();
    let found = Discovery::of_folder(folder.path(), &InputOptions::default());
    assert_eq!(found.sessions.len(), 4);
    let host = Host::new(store);
    let mut session = host.open(&"b3".into(), Options::new(holder("a test"))).await.unwrap();
    session.emit(&block("x")).await.unwrap();

    let list = async |query: SessionQuery| host.list(&query, &found).await.unwrap();
    let ids_of = async |query: SessionQuery| {
        let page = list(query).await;
        page.sessions.iter().map(|it| it.id.to_string()).collect::<Vec<_>>()
    };
    let all = ["a1", "a1-2", "a2", "a3", "b1", "b2", "b3"];
    assert_eq!(ids_of(SessionQuery::default()).await, all, "`a1` of OpenCode is another session");
    let whole = list(SessionQuery::default()).await;
    assert_eq!(whole.next, None);
    let places: Vec<(bool, bool)> =
        whole.sessions.iter().map(|it| (it.stored.is_some(), it.found.is_some())).collect();
    let (stored, found_only, both) = ((true, false), (false, true), (true, true));
    assert_eq!(places, [stored, found_only, both, found_only, stored, found_only, stored]);
    let live: Vec<&str> =
        whole.sessions.iter().filter(|it| it.is_live).map(|it| it.id.as_str()).collect();
    assert_eq!(live, ["b3"]);

    let prefix = "b".to_owned();
    let query = SessionQuery { prefix, ..SessionQuery::default() };
    assert_eq!(ids_of(query).await, ["b1", "b2", "b3"]);
    for (agent, expected) in [
        ("claude", vec!["a1", "a2", "a3", "b1", "b2"]),
        ("opencode", vec!["a1-2"]),
        ("nobody", vec![]),
    ] {
        let agent = Some(agent.to_owned());
        assert_eq!(ids_of(SessionQuery { agent, ..SessionQuery::default() }).await, expected);
    }

    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let limit = Some(3);
        let page = list(SessionQuery { after, limit, ..SessionQuery::default() }).await;
        pages.push(page.sessions.iter().map(|it| it.id.to_string()).collect::<Vec<_>>());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [all[..3].to_vec(), all[3..6].to_vec(), all[6..].to_vec()]);
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_session_that_is_written_and_found_is_listed_with_its_agent() {
    let folder = tempfile::tempdir().unwrap();
    transcript(folder.path(), "a", "a");
    let found = Discovery::of_folder(folder.path(), &InputOptions::default());
    let host = Host::new(memory());
    let mut session = host.open(&"a".into(), Options::new(holder("a test"))).await.unwrap();
    found.sessions[0].read_into(&mut session, &mut |_| {}).await.unwrap();
    let query = SessionQuery { agent: Some("claude".into()), ..SessionQuery::default() };
    let page = host.list(&query, &found).await.unwrap();
    let facts =
        page.sessions.iter().map(|it| (it.stored.is_some(), it.found.is_some(), it.is_live));
    assert_eq!(facts.collect::<Vec<_>>(), [(true, true, true)]);
}

#[tokio::test]
async fn readers_of_a_writer_that_was_replaced_see_what_the_next_one_writes() {
    let store = memory();
    let (host, other) = (Host::new(store.clone()), Host::new(store.clone()));
    let lease = Duration::from_millis(300);
    let options = Options { lease, ..Options::new(holder("a writer that is cut off")) };
    let mut replaced = host.open(&"s".into(), options).await.unwrap();
    replaced.emit(&block("a")).await.unwrap();
    let mut listener = listen(&host, Some(replaced.cursor())).await;
    // Another process takes over, and this one neither writes nor closes.
    let epoch = store.head(&"s".into()).await.unwrap().unwrap().epoch;
    let next_holder = threadfold_store::Holder { what: "another".into(), ..Default::default() };
    let lease = store.take_over(&"s".into(), &next_holder, LIMIT, epoch).await.unwrap();
    store.release(&"s".into(), lease.epoch).await.unwrap();
    let mut writer = open(&other).await;
    writer.emit(&block("b")).await.unwrap();
    let ended = next(&mut listener).await;
    assert!(matches!(ended[..], [Frame::End { .. }]), "{ended:?}");
    let mut listener = listen(&host, Some(replaced.cursor())).await;
    let frames = next(&mut listener).await;
    assert!(matches!(frames[..], [Frame::Changes { .. }]), "{frames:?}");
    assert_eq!(cursor(&frames[0]), writer.cursor());
}

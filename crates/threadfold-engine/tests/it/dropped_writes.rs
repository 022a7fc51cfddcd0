//! Writers that are dropped, and writes that are dropped or not acknowledged.

use std::sync::Arc;

use threadfold_convert::claude;
use threadfold_core::SessionEvent;
use threadfold_engine::{EngineError, InputOptions, Options, Session, Update, holder, open_path};
use threadfold_fold::{Record, RecordKind, SourceRole, SourceSpec};
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Limit, MemoryStore, Store, StoreError};
use threadfold_testkit::big_session::{TranscriptFile, write_transcript_file};

use crate::unreliable::{Fault, Unreliable, unreliable};

async fn open(store: &Arc<dyn Store>) -> Result<Session, EngineError> {
    Session::open(store.clone(), &"s".into(), Options::new(holder("a test"))).await
}

fn said(text: &str) -> SessionEvent {
    SessionEvent::from_json(&format!(
        r#"{{"type":"block:upsert","payload":{{"block":{{"id":"{text}","type":"assistant_text","content":"{text}","status":"complete"}}}}}}"#
    ))
    .unwrap()
}

/// Returns the names of all blocks, as the session has them and as its log gives them.
async fn blocks(session: &Session, store: &Arc<dyn Store>) -> Vec<String> {
    let names = |fold: &threadfold_fold::Fold| -> Vec<String> {
        fold.conversation().blocks().iter().map(|block| block.id.to_string()).collect()
    };
    let loaded = threadfold_engine::load(store, session.id(), u64::MAX, Default::default());
    let shown = names(session.fold());
    assert_eq!(names(&loaded.await.unwrap().fold), shown);
    shown
}

#[tokio::test]
async fn a_session_whose_writer_was_dropped_can_be_opened_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let in_a_file: Arc<dyn Store> =
        Arc::new(SqliteStore::open(folder.path().join("store.db")).unwrap());
    for store in [Arc::new(MemoryStore::default()), in_a_file] {
        let mut session = open(&store).await.unwrap();
        session.emit(&said("a")).await.unwrap();
        drop(session);
        let session = open(&store).await.unwrap();
        assert_eq!(blocks(&session, &store).await, ["a"]);
    }
}

#[tokio::test]
async fn a_second_writer_in_the_same_process_is_refused() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut session = open(&store).await.unwrap();
    let second = open(&store).await.err().unwrap();
    assert!(matches!(second, EngineError::Store(StoreError::Held { .. })), "{second}");
    session.emit(&said("a")).await.unwrap();
}

#[tokio::test]
async fn a_replaced_writer_releases_nothing() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let old = open(&store).await.unwrap();
    let epoch = store.head(&"s".into()).await.unwrap().unwrap().epoch;
    store.release(&"s".into(), epoch).await.unwrap();
    let mut new = open(&store).await.unwrap();
    drop(old);
    assert!(open(&store).await.is_err());
    new.emit(&said("a")).await.unwrap();
}

/// Accepts what hangs, and drops that.
async fn drop_while_it_hangs(session: &mut Session, store: &Unreliable, fault: Fault) {
    store.hooks().next([fault]);
    let event = said("dropped");
    tokio::select! {
        biased;
        accepted = session.emit(&event) => panic!("{fault:?}: {accepted:?}"),
        () = store.hooks().hangs.notified() => {}
    }
}

#[tokio::test]
async fn the_next_write_resolves_a_dropped_one() {
    for (fault, expected) in [
        (Fault::HangsBefore, vec!["before", "after"]),
        (Fault::HangsAfter, vec!["before", "dropped", "after"]),
    ] {
        let unreliable = unreliable(Arc::new(MemoryStore::default()));
        let store: Arc<dyn Store> = unreliable.clone();
        let mut session = open(&store).await.unwrap();
        let mut listener = session.handle().listen(&session.handle().cursor_at(0));
        session.emit(&said("before")).await.unwrap();
        drop_while_it_hangs(&mut session, &unreliable, fault).await;
        let steps = session.emit(&said("after")).await.unwrap();
        assert_eq!(steps.len(), 1, "{fault:?}");
        assert_eq!(blocks(&session, &store).await, expected, "{fault:?}");
        let Update::Steps(steps, view) = listener.next().await else { panic!("no steps") };
        let seqs: Vec<u64> = steps.iter().map(|it| it.step.seq).collect();
        assert_eq!(view.seq, expected.len() as u64, "{fault:?}");
        assert_eq!(seqs, (1..=expected.len() as u64).collect::<Vec<_>>(), "{fault:?}");
    }
}

/// The store performs it anyway, possibly after the next write has checked.
#[tokio::test]
async fn a_dropped_write_to_a_file_is_resolved_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(folder.path().join("store.db")).unwrap());
    let mut session = open(&store).await.unwrap();
    let (mut expected, mut dropped_writes) = (Vec::new(), 0);
    for number in 0..20 {
        let (dropped, kept) = (format!("dropped {number}"), format!("kept {number}"));
        let event = said(&dropped);
        let is_done = tokio::select! {
            biased;
            accepted = session.emit(&event) => accepted.is_ok(),
            () = std::future::ready(()) => false,
        };
        // On a fast disk a write may be done before anybody could drop it.
        dropped_writes += usize::from(!is_done);
        session.emit(&said(&kept)).await.unwrap();
        expected.extend([dropped, kept]);
    }
    assert_eq!(blocks(&session, &store).await, expected);
    assert!(dropped_writes > 0);
}

#[tokio::test]
async fn lines_that_are_appended_again_are_stored_once() {
    let unreliable = unreliable(Arc::new(MemoryStore::default()));
    let store: Arc<dyn Store> = unreliable.clone();
    let mut session = open(&store).await.unwrap();
    let spec = SourceSpec::of_events("events.jsonl");
    let source = session.source(&spec).await.unwrap();
    let mut position = 0;
    let lines: Vec<Record> = ["a", "b", "c"]
        .map(|text| {
            let bytes = format!("{}\n", threadfold_core::Json::of(&said(text)).as_str());
            let line = Record::new(RecordKind::Line, source, position, bytes);
            position += line.bytes.len() as u64;
            line
        })
        .into();
    unreliable.hooks().next([Fault::HangsAfter]);
    tokio::select! {
        biased;
        accepted = session.accept(lines[..2].to_vec()) => panic!("{accepted:?}"),
        () = unreliable.hooks().hangs.notified() => {}
    }
    let steps = session.accept(lines).await.unwrap();
    assert_eq!(steps.len(), 3);
    assert_eq!(blocks(&session, &store).await, ["a", "b", "c"]);
    assert_eq!(session.cursor().seq, 4);
}

/// While one part of a file is folded, the next one is appended.
#[tokio::test]
async fn an_import_that_was_dropped_between_two_appends_continues() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("5e551014-0000-4000-8000-000000000001.jsonl");
    let (session, subagent) = ("5e551014-0000-4000-8000-000000000001", None);
    let mut bytes = Vec::new();
    write_transcript_file(&TranscriptFile { seed: 1, session, subagent }, 3_500_000, &mut bytes)
        .unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let lines = bytes.iter().filter(|it| **it == b'\n').count() as u64;
    let found = open_path(&path, &InputOptions::default()).unwrap().remove(0);
    for fault in [Fault::HangsBefore, Fault::HangsAfter] {
        let unreliable = unreliable(Arc::new(MemoryStore::default()));
        let store: Arc<dyn Store> = unreliable.clone();
        let mut session = open(&store).await.unwrap();
        unreliable.hooks().next([Fault::None, fault]);
        let mut progress = |_| {};
        tokio::select! {
            biased;
            read = found.read_into(&mut session, &mut progress) => panic!("{fault:?}: {read:?}"),
            () = unreliable.hooks().hangs.notified() => {}
        }
        let stored = store.head(session.id()).await.unwrap().unwrap().seq;
        assert!(stored > 1 && stored < lines, "{fault:?}: {stored} of {lines}");
        found.read_into(&mut session, &mut progress).await.unwrap();
        // One record declares the source.
        assert_eq!(session.cursor().seq, lines + 1, "{fault:?}");
        let (mut read, mut last) = (Vec::new(), 1);
        while last < session.cursor().seq {
            let records = store.read(session.id(), last, Limit::default()).await.unwrap();
            last = records.last().unwrap().seq;
            records.iter().for_each(|it| read.extend_from_slice(&it.bytes));
        }
        assert!(read == bytes, "{fault:?}");
    }
}

#[tokio::test]
async fn a_source_declared_by_a_dropped_write_keeps_its_number() {
    let unreliable = unreliable(Arc::new(MemoryStore::default()));
    let store: Arc<dyn Store> = unreliable.clone();
    let mut session = open(&store).await.unwrap();
    let [one, other] =
        ["one", "other"].map(|name| SourceSpec::new(claude::AGENT, SourceRole::Stream, name));
    unreliable.hooks().next([Fault::HangsAfter]);
    tokio::select! {
        biased;
        told = session.source(&one) => panic!("{told:?}"),
        () = unreliable.hooks().hangs.notified() => {}
    }
    assert_eq!(session.source(&other).await.unwrap(), 2);
    assert_eq!(session.source(&one).await.unwrap(), 1);
}

#[tokio::test]
async fn a_session_continues_after_a_failed_write() {
    let unreliable = unreliable(Arc::new(MemoryStore::default()));
    let store: Arc<dyn Store> = unreliable.clone();
    let mut session = open(&store).await.unwrap();
    unreliable.hooks().next([Fault::Unwritable]);
    let failed = session.emit(&said("failed")).await.unwrap_err();
    assert!(matches!(failed, EngineError::Store(StoreError::Unwritable { .. })), "{failed}");
    session.emit(&said("again")).await.unwrap();
    assert_eq!(blocks(&session, &store).await, ["again"]);
}

#[tokio::test]
async fn a_busy_store_is_waited_for() {
    let unreliable = unreliable(Arc::new(MemoryStore::default()));
    let store: Arc<dyn Store> = unreliable.clone();
    let mut session = open(&store).await.unwrap();
    unreliable.hooks().next([Fault::Unreachable; 4]);
    session.emit(&said("a")).await.unwrap();
    unreliable.hooks().next([Fault::AcknowledgementLost, Fault::Unreachable, Fault::Unreachable]);
    session.emit(&said("b")).await.unwrap();
    assert_eq!(blocks(&session, &store).await, ["a", "b"]);
    assert_eq!(session.cursor().seq, 2);
}

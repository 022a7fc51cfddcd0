//! What only a follower observes: the state of a server, and changes of a transcript.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use threadfold_core::{Json, SessionEvent};
use threadfold_engine::{
    EngineError, FolderFollower, Follow, Frame, Host, InputOptions, ListenOptions,
    ObservedFollower, Options, Session, holder, load, open_one, originals,
};
use threadfold_fold::{
    EnvironmentState, QueryState, Record, RecordKind, SliceChange, Slices, StoredRecord,
    TranscriptState,
};
use threadfold_store::{Append, BatchId, Limit, MemoryStore, Store};

use crate::frames::frames;
use crate::recordings::open;

fn event(json: &str) -> SessionEvent {
    SessionEvent::from_json(json).unwrap()
}

fn status(kind: &str, status: &str) -> SessionEvent {
    event(&format!(r#"{{"type":"{kind}","payload":{{"status":"{status}"}}}}"#))
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

async fn records(store: &Arc<dyn Store>) -> Vec<StoredRecord> {
    store.read(&"s".into(), 0, Limit::default()).await.unwrap()
}

async fn observed(store: &Arc<dyn Store>) -> usize {
    records(store).await.iter().filter(|it| it.kind == RecordKind::Observation).count()
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    let line = format!(
        r#"{{"type":"user","uuid":"{text}","sessionId":"s","message":{{"role":"user","content":"{text}"}}}}"#
    );
    writeln!(file, "{line}").unwrap();
}

/// A transcript that is followed.
struct FollowedFile {
    path: PathBuf,
    store: Arc<dyn Store>,
    session: Session,
    follower: ObservedFollower,
    _folder: tempfile::TempDir,
}

impl FollowedFile {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        append(&path, "first");
        let found = open_one(&path, &InputOptions::default()).unwrap();
        let follower = ObservedFollower::new(found.content.follower());
        let store = store();
        let session = open(&store, &"s".into()).await;
        Self { path, store, session, follower, _folder: folder }
    }

    async fn poll(&mut self) {
        self.follower.poll(&mut self.session, &mut |_| {}).await.unwrap();
    }

    fn positions(&self) -> Vec<(String, String)> {
        let items = self.session.query::<TranscriptState>().unwrap();
        let state = |it: &TranscriptState| {
            let name = Path::new(it.file.as_deref().unwrap()).file_name().unwrap();
            let position = it.position.as_ref().map_or("-".to_owned(), Json::to_string);
            (name.to_str().unwrap().to_owned(), position)
        };
        items.all().map(state).collect()
    }
}

#[tokio::test]
async fn changes_of_a_transcript_are_coalesced_and_the_last_one_is_recorded() {
    let mut followed = FollowedFile::new().await;
    followed.poll().await;
    assert_eq!(observed(&followed.store).await, 0, "what was there already has not changed");
    for number in 0..40 {
        append(&followed.path, &format!("line{number}"));
        followed.poll().await;
    }
    let recorded = observed(&followed.store).await;
    assert!((1..=3).contains(&recorded), "{recorded} records for 40 changes in a moment");
    assert!(followed.follower.deadline().is_some(), "the last change is due");
    followed.follower.record_pending(&mut followed.session).await.unwrap();
    assert!(followed.follower.deadline().is_none());
    let length = followed.path.metadata().unwrap().len();
    assert_eq!(followed.positions(), [("s.jsonl".to_owned(), length.to_string())]);
    assert_eq!(observed(&followed.store).await, recorded + 1);

    followed.poll().await;
    followed.follower.flush_unterminated(&mut followed.session).await.unwrap();
    assert_eq!(observed(&followed.store).await, recorded + 1, "nothing changed since");
}

#[tokio::test]
async fn growth_while_nobody_followed_is_a_change_once_it_is_read() {
    let mut followed = FollowedFile::new().await;
    followed.poll().await;
    followed.session.leave().await.unwrap();
    append(&followed.path, "later");
    followed.session = open(&followed.store, &"s".into()).await;
    let found = open_one(&followed.path, &InputOptions::default()).unwrap();
    followed.follower = ObservedFollower::new(found.content.follower());
    followed.poll().await;
    assert_eq!(observed(&followed.store).await, 1);
}

#[tokio::test]
async fn a_followed_folder_records_the_last_change_although_nothing_follows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    append(&path, "first");
    let store = store();
    let host = Host::new(store.clone());
    let mut follower = FolderFollower::new(host, folder.path(), || Options::new(holder("a test")));
    let wait = |length: usize| {
        let store = store.clone();
        async move {
            let head = store.head(&"s".into()).await.unwrap();
            head.is_some_and(|head| head.seq as usize >= length)
        }
    };
    for (number, text) in ["two", "three", "four"].into_iter().enumerate() {
        while !wait(2 + number).await {
            follower.poll().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        append(&path, text);
    }
    let length = path.metadata().unwrap().len();
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let loaded = load(&store, &"s".into(), u64::MAX, Slices::default()).await.unwrap();
        let items = loaded.fold.items::<TranscriptState>().unwrap();
        let position = items.latest().and_then(|it| it.position.clone());
        if position == Some(Json::of(&length)) {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "the last change was not recorded");
        tokio::time::timeout(Duration::from_millis(200), follower.changed()).await.ok();
        follower.poll().await;
    }
    follower.close().await.unwrap();
}

#[tokio::test]
async fn the_same_state_of_a_server_is_recorded_once() {
    let store = store();
    let mut session = open(&store, &"s".into()).await;
    for kind in ["ee:ready", "ee:ready", "ee:error", "ee:error", "ee:terminated", "ee:ready"] {
        session.record_observations(&[status(kind, "x")]).await.unwrap();
    }
    let told: Vec<_> = records(&store).await.iter().map(|it| it.kind).collect();
    assert_eq!(told, [RecordKind::Observation; 4]);
    let environment = session.query::<EnvironmentState>().unwrap().latest().unwrap();
    assert_eq!(environment.event, "ee:ready");
}

#[tokio::test]
async fn observations_are_in_no_hash_and_in_no_original_file() {
    let mut followed = FollowedFile::new().await;
    followed.poll().await;
    let before = followed.session.fold().conversation().hash();
    let summary = followed.session.fold().summary();
    let observations = [
        status("ee:ready", "x"),
        event(r#"{"type":"transcript:changed","payload":{"file":"f","position":1}}"#),
    ];
    followed.session.record_observations(&observations).await.unwrap();
    assert_eq!(observed(&followed.store).await, 2);
    assert_eq!(followed.session.fold().conversation().hash(), before);
    assert_eq!(followed.session.fold().settled().hash(), before);
    assert_eq!(Json::of(&followed.session.fold().summary()), Json::of(&summary));
    let mut bytes = Vec::new();
    originals(&*followed.store, &"s".into(), |_, position, added| {
        bytes.truncate(usize::try_from(position).unwrap());
        bytes.extend_from_slice(added);
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(bytes, std::fs::read(&followed.path).unwrap());
}

#[tokio::test]
async fn time_travel_includes_what_was_observed_and_what_records_report() {
    let store = store();
    let mut session = open(&store, &"s".into()).await;
    session.emit(&event(r#"{"type":"query:started"}"#)).await.unwrap();
    session.record_observations(&[status("ee:ready", "x")]).await.unwrap();
    session.emit(&event(r#"{"type":"query:completed"}"#)).await.unwrap();
    session.record_observations(&[status("ee:terminated", "x")]).await.unwrap();
    session.close().await.unwrap();
    let mut told = Vec::new();
    for seq in 1..=4 {
        let fold = load(&store, &"s".into(), seq, Slices::default()).await.unwrap().fold;
        let query = fold.items::<QueryState>().unwrap().latest().map(|it| Json::of(&it.status));
        let environment = fold.items::<EnvironmentState>().unwrap().latest();
        told.push((query.unwrap().to_string(), environment.map(|it| it.event.clone())));
    }
    let ready = Some("ee:ready".to_owned());
    assert_eq!(
        told,
        [
            (r#""running""#.to_owned(), None),
            (r#""running""#.to_owned(), ready.clone()),
            (r#""idle""#.to_owned(), ready),
            (r#""idle""#.to_owned(), Some("ee:terminated".to_owned())),
        ]
    );
}

#[tokio::test]
async fn nobody_but_a_follower_records_an_observation() {
    let store = store();
    let mut session = open(&store, &"s".into()).await;
    let record = Record::new(RecordKind::Observation, 0, 0, r#"{"type":"ee:ready"}"#);
    let refused = session.accept(vec![record]).await.unwrap_err();
    assert!(matches!(refused, EngineError::NotAnObservation { .. }), "{refused}");
    for kind in ["session:idle", "log", "options:update"] {
        let event = event(&format!(r#"{{"type":"{kind}"}}"#));
        let refused = session.record_observations(&[event]).await.unwrap_err();
        assert!(matches!(refused, EngineError::NotAnObservation { .. }), "{refused}");
    }
    assert_eq!(records(&store).await.len(), 0);
}

/// A store from elsewhere can contain any bytes under any kind.
#[tokio::test]
async fn a_forged_observation_makes_no_ledger_and_no_conversation() {
    forge(&[]).await;
    // Nor does it add anything to the ledger of a run.
    let turn = r#"{"type":"turn:started","payload":{"turn":1,"evaluationId":"e","provider":"p","model":"m","prefixHash":"00"}}"#;
    forge(&[turn]).await;
}

/// Appends forged observations to a log of the loop.
async fn forge(ledger: &[&str]) {
    let store = store();
    let mut session = open(&store, &"s".into()).await;
    for event in ledger {
        let record = Record::of_loop(RecordKind::Loop, *event, None);
        session.append_ledger(vec![record]).await.unwrap();
    }
    let (turns, hash) = (session.fold().turns().clone(), session.fold().conversation().hash());
    let oddities = session.fold().oddities();
    session.close().await.unwrap();
    let lease =
        store.acquire(&"s".into(), &holder("a test"), Duration::from_secs(9)).await.unwrap();
    let forged = [
        r#"{"type":"turn:started","payload":{"turn":1,"evaluationId":"e","provider":"p","model":"m","prefixHash":"00"}}"#,
        r#"{"type":"tool:requested","payload":{"callId":"c","key":"k","name":"shell","arguments":"{}"}}"#,
        r#"{"type":"options:update","payload":{"options":{"run":{}}}}"#,
        r#"{"type":"block:upsert","payload":{"block":{"id":"b","type":"assistant_text","content":"x","status":"complete"}}}"#,
        "not JSON",
    ];
    let records: Vec<_> =
        forged.map(|it| Record::new(RecordKind::Observation, 0, 0, it)).into_iter().collect();
    let append = Append {
        session: "s".into(),
        epoch: lease.epoch,
        after: ledger.len() as u64,
        batch: BatchId([1; 16]),
        records,
    };
    store.append(append).await.unwrap();
    let fold = load(&store, &"s".into(), u64::MAX, Slices::default()).await.unwrap().fold;
    assert_eq!((fold.turns(), fold.reported_turns()), (&turns, &turns));
    assert_eq!(fold.conversation().hash(), hash);
    assert_eq!(fold.is_run(), !ledger.is_empty());
    assert_eq!(fold.oddities() - oddities, forged.len() as u64, "each is reported");
}

#[tokio::test]
async fn a_run_takes_no_observations() {
    let store = store();
    let mut session = open(&store, &"s".into()).await;
    let started = r#"{"type":"turn:started","payload":{"turn":1,"evaluationId":"e","provider":"p","model":"m","prefixHash":"00"}}"#;
    let record = Record::of_loop(RecordKind::Loop, started, None);
    session.append_ledger(vec![record]).await.unwrap();
    assert!(session.fold().is_run());
    let refused = session.record_observations(&[status("ee:ready", "x")]).await.unwrap_err();
    assert!(matches!(refused, EngineError::IsRun { .. }), "{refused}");
}

#[tokio::test]
async fn listeners_without_a_reducer_are_sent_the_slices() {
    let host = Host::new(store());
    let mut session = host.open(&"s".into(), Options::new(holder("a test"))).await.unwrap();
    session.emit(&event(r#"{"type":"file:created","payload":{"path":"/a"}}"#)).await.unwrap();
    let mut listener = host.listen(&"s".into(), ListenOptions::default()).await.unwrap();
    let first = frames(&listener.next_frames().await).remove(0);
    let Frame::Snapshot { slices: Some(slices), .. } = first else { panic!("{first:?}") };
    assert_eq!(slices, Json::of(&session.fold().shown_slices()));
    assert!(slices.as_str().contains(r#""files":[{"path":"/a""#), "{slices}");

    session.record_observations(&[status("ee:ready", "x")]).await.unwrap();
    let next = frames(&listener.next_frames().await).remove(0);
    let Frame::Changes { changes, slices, .. } = next else { panic!("{next:?}") };
    let item = Json::parse(r#"{"event":"ee:ready","status":"x"}"#).unwrap();
    let expected = SliceChange::ItemSet { slice: "environment".to_owned(), index: 0, item };
    assert_eq!((changes.len(), slices), (0, vec![expected]));
}

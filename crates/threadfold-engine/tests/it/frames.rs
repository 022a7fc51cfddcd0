//! A client rebuilds the writer's state from frames, starting at any record.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use threadfold_core::{ConversationState, Json, SessionId, apply_changes};
use threadfold_engine::{
    Delivery, Frame, FrameListener, Host, InputOptions, ListenOptions, Options, REDUCER, holder,
    open_one, records_of,
};
use threadfold_fold::{Cursor, Record, SliceChange, Snapshot};
use threadfold_store::MemoryStore;
use threadfold_testkit::opencode::database::{DatabaseContent, fill, recording};

use crate::recordings::claude_recordings;

/// Returns the id and the records of a recorded session of Claude Code.
pub(crate) async fn claude_records(name: &str) -> (SessionId, Vec<Record>) {
    let recordings = claude_recordings();
    let recording = recordings.iter().find(|it| it.name == name).unwrap();
    let found = open_one(&recording.main, &InputOptions::default()).unwrap();
    (found.id.clone(), records_of(&found.id, std::slice::from_ref(&found)).await.unwrap())
}

async fn opencode_records(name: &str, filled: DatabaseContent) -> (SessionId, Vec<Record>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    fill(&path, &recording(name), filled);
    let found = open_one(&path, &InputOptions::default()).unwrap();
    (found.id.clone(), records_of(&found.id, std::slice::from_ref(&found)).await.unwrap())
}

/// Returns the frames in some lines.
pub(crate) fn frames(lines: &[Arc<str>]) -> Vec<Frame> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the cursor of a frame.
pub(crate) fn cursor(frame: &Frame) -> Cursor {
    let (Frame::Snapshot { cursor, .. }
    | Frame::Resume { cursor, .. }
    | Frame::Events { cursor, .. }
    | Frame::Changes { cursor, .. }
    | Frame::Gap { cursor, .. }
    | Frame::Heartbeat { cursor, .. }
    | Frame::End { cursor, .. }) = frame
    else {
        panic!("{frame:?}")
    };
    cursor.parse().unwrap()
}

/// A client with a reducer of its own.
struct ReducingClient {
    listener: FrameListener,
    state: ConversationState,
    seq: u64,
}

impl ReducingClient {
    async fn begin(host: &Host, id: &SessionId) -> Self {
        let (delivery, reducer) = (Delivery::Events, Some(REDUCER));
        let options = ListenOptions { delivery, reducer, after: None };
        let mut listener = host.listen(id, options).await.unwrap();
        let first = frames(&listener.next_frames().await).remove(0);
        let seq = cursor(&first).seq;
        let Frame::Snapshot { snapshot: Some(snapshot), state: None, notice: None, .. } = first
        else {
            panic!("{first:?}")
        };
        let snapshot = Snapshot::from_json(snapshot.as_str()).unwrap();
        assert_eq!(snapshot.seq, seq);
        let items = &snapshot.slice("conversation").unwrap().items;
        let conversation = serde_json::from_str(items[0].as_str()).unwrap();
        let state = ConversationState::restore(&conversation).unwrap();
        assert_eq!(state.hash().to_string(), snapshot.state_hash);
        Self { listener, state, seq }
    }

    async fn follow(&mut self, end: u64) {
        while self.seq < end {
            for frame in frames(&self.listener.next_frames().await) {
                assert_eq!(cursor(&frame).seq, self.seq + 1, "{frame:?}");
                let Frame::Events { events, .. } = frame else { panic!("{frame:?}") };
                self.state.extend(&events);
                self.seq += 1;
            }
        }
    }
}

/// A client that only makes changes to what it was shown.
struct ShowingClient {
    listener: FrameListener,
    state: ConversationState,
    slices: BTreeMap<String, Vec<Value>>,
    seq: u64,
}

impl ShowingClient {
    /// The frame has the state as JSON. It is compared with the writer's, which is used then.
    async fn begin(host: &Host, id: &SessionId, writer: &ConversationState) -> Self {
        let mut listener = host.listen(id, ListenOptions::default()).await.unwrap();
        let first = frames(&listener.next_frames().await).remove(0);
        let seq = cursor(&first).seq;
        let Frame::Snapshot { state: Some(state), slices: Some(slices), snapshot: None, .. } =
            first
        else {
            panic!("{first:?}")
        };
        assert_eq!(state.as_str(), Json::of(writer).as_str());
        let slices = serde_json::from_str(slices.as_str()).unwrap();
        Self { listener, state: writer.clone(), slices, seq }
    }

    async fn follow(&mut self, end: u64) {
        while self.seq < end {
            for frame in frames(&self.listener.next_frames().await) {
                assert_eq!(cursor(&frame).seq, self.seq + 1, "{frame:?}");
                let Frame::Changes { changes, slices, .. } = frame else { panic!("{frame:?}") };
                self.state = apply_changes(&self.state, &changes);
                slices.into_iter().for_each(|change| self.apply(change));
                self.seq += 1;
            }
        }
    }

    fn apply(&mut self, change: SliceChange) {
        match change {
            SliceChange::ItemSet { slice, index, item } => {
                let items = self.slices.get_mut(&slice).unwrap();
                let item = serde_json::from_str(item.as_str()).unwrap();
                match items.get_mut(index) {
                    Some(known) => *known = item,
                    None => items.push(item),
                }
            }
            SliceChange::SliceCleared { slice } => self.slices.get_mut(&slice).unwrap().clear(),
            other => panic!("{other:?}"),
        }
    }
}

/// Removes the times of the session, which change with every record and are sent with the rest of
/// the metadata.
fn without_times(mut slices: BTreeMap<String, Vec<Value>>) -> BTreeMap<String, Vec<Value>> {
    let metadata = slices.get_mut("metadata").unwrap()[0].as_object_mut().unwrap();
    metadata.retain(|name, _| !matches!(name.as_str(), "startedAt" | "endedAt" | "sessionId"));
    slices
}

/// Writes a session record by record, with new clients after every `step` records.
async fn check(name: &str, (id, records): (SessionId, Vec<Record>), step: usize) {
    assert!(records.len() < 1_000, "{name}: all steps are held");
    let host = Host::new(Arc::new(MemoryStore::default()));
    let mut session = host.open(&id, Options::new(holder("a test"))).await.unwrap();
    let (mut reducing, mut showing) = (Vec::new(), Vec::new());
    for (index, record) in records.into_iter().enumerate() {
        if index % step == 0 {
            reducing.push(ReducingClient::begin(&host, &id).await);
            let state = session.fold().conversation().clone();
            showing.push(ShowingClient::begin(&host, &id, &state).await);
        }
        session.accept(vec![record]).await.unwrap();
    }
    let (end, state) = (session.cursor().seq, session.fold().conversation());
    assert!(!state.blocks().is_empty(), "{name}");
    for client in &mut reducing {
        let begin = client.seq;
        client.follow(end).await;
        assert_eq!(client.state.hash(), state.hash(), "{name}: events from record {begin} on");
    }
    for client in &mut showing {
        let begin = client.seq;
        client.follow(end).await;
        assert_eq!(client.state, *state, "{name}: changes from record {begin} on");
        let shown = Json::of(&session.fold().shown_slices());
        let slices = without_times(serde_json::from_str(shown.as_str()).unwrap());
        assert_eq!(without_times(client.slices.clone()), slices, "{name}: from record {begin} on");
        assert_eq!(Json::of(&client.state), Json::of(state), "{name}: from record {begin} on");
    }
}

#[tokio::test]
async fn a_snapshot_and_what_follows_give_the_state_from_every_record_on() {
    check("nested", claude_records("nested").await, 1).await;
    check("subagent", opencode_records("subagent", DatabaseContent::RowsOnly).await, 1).await;
}

#[tokio::test]
async fn a_snapshot_and_what_follows_give_the_state_of_many_recordings() {
    let mut names: Vec<String> = claude_recordings().into_iter().map(|it| it.name).collect();
    names.dedup();
    for name in names.iter().filter(|it| !it.contains('@')) {
        check(name, claude_records(name).await, 7).await;
    }
    for name in ["text", "tools", "nested", "abort_text"] {
        for filled in [DatabaseContent::All, DatabaseContent::RowsOnly] {
            check(name, opencode_records(name, filled).await, 7).await;
        }
    }
}

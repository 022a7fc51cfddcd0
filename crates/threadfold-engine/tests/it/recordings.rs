//! Recorded sessions of real agents, and ways to bring them into a store.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use threadfold_convert::claude;
use threadfold_core::{SessionId, StateHash};
use threadfold_engine::agents::claude::claude_files;
use threadfold_engine::{Options, Session, holder, load, read_files};
use threadfold_fold::{SessionFile, Slices, parse_transcript};
use threadfold_store::Store;

/// A recorded session of Claude Code.
pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) id: SessionId,
    pub(crate) main: PathBuf,
    pub(crate) stream: Option<PathBuf>,
}

/// Returns every main file of every recording.
pub(crate) fn claude_recordings() -> Vec<Recording> {
    let data =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data/claude");
    let mut found = Vec::new();
    for case in folders(&data) {
        let stream = Some(case.join("stream.jsonl")).filter(|it| it.exists());
        for project in folders(&case.join("transcript")) {
            let mut files: Vec<PathBuf> =
                fs::read_dir(&project).unwrap().map(|it| it.unwrap().path()).collect();
            files.retain(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                name.ends_with(".jsonl") && !name.starts_with("agent-")
            });
            files.sort();
            found.extend(files.into_iter().map(|main| Recording {
                name: case.file_name().unwrap().to_string_lossy().into_owned(),
                id: SessionId::from(main.file_stem().unwrap().to_str().unwrap()),
                main,
                stream: stream.clone(),
            }));
        }
    }
    assert!(found.len() > 50, "the recordings are there");
    found
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<_> = entries.map(|it| it.unwrap().path()).filter(|it| it.is_dir()).collect();
    found.sort();
    found
}

pub(crate) async fn open(store: &Arc<dyn Store>, id: &SessionId) -> Session {
    Session::open(store.clone(), id, Options::new(holder("a test"))).await.unwrap()
}

/// Reads the session's files into the store.
pub(crate) async fn import(store: &Arc<dyn Store>, recording: &Recording) {
    let mut session = open(store, &recording.id).await;
    let files = claude_files(&recording.main).unwrap();
    read_files(&mut session, &files).await.unwrap();
    assert_eq!(session.close().await.unwrap(), Vec::<String>::new());
}

/// Returns the hash of the conversation as it is when all sources are at their end.
pub(crate) async fn settled_hash(store: &Arc<dyn Store>, id: &SessionId) -> StateHash {
    let loaded = load(store, id, u64::MAX, Slices::default()).await.unwrap();
    loaded.fold.settled().hash()
}

/// Returns the hash of the conversation folded directly from the files.
pub(crate) fn parsed_hash(recording: &Recording) -> StateHash {
    let files = claude_files(&recording.main).unwrap();
    let read: Vec<(String, Vec<u8>)> =
        files.iter().map(|it| (it.spec.name.clone(), fs::read(&it.path).unwrap())).collect();
    let files: Vec<_> = read.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
    parse_transcript(claude::AGENT, &files).hash()
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

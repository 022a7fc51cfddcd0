//! Real sessions of five versions of Claude Code: the stream and the transcript of each run.

use std::fs;
use std::path::{Path, PathBuf};

use threadfold_convert::claude;
use threadfold_convert::lines::lines;
use threadfold_convert::{Agent, Feed, FeedKind, Record, convert_all};
use threadfold_core::{Anomaly, ConversationState, fold};
use threadfold_fold::{SessionFile, parse_transcript};

/// A recorded run.
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) stream: Vec<u8>,
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl Run {
    pub(crate) fn session_files(&self) -> Vec<SessionFile<'_>> {
        self.files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect()
    }

    pub(crate) fn transcript_state(&self) -> ConversationState {
        parse_transcript(claude::AGENT, &self.session_files())
    }

    pub(crate) fn stream_records<'a>(&'a self, feed: &'a Feed) -> Vec<Record<'a>> {
        lines(&self.stream)
            .map(|line| FeedLine { feed, number: line.number, bytes: line.bytes })
            .collect()
    }

    pub(crate) fn stream_state(&self) -> ConversationState {
        let feed = stream_feed();
        fold(&convert_all(claude::AGENT, self.stream_records(&feed)))
    }

    /// Returns what was odd about the stream's events.
    pub(crate) fn stream_anomalies(&self) -> Vec<Anomaly> {
        let feed = stream_feed();
        let mut state = ConversationState::default();
        convert_all(claude::AGENT, self.stream_records(&feed))
            .iter()
            .filter_map(|event| state.apply(event).anomaly().cloned())
            .collect()
    }
}

pub(crate) fn stream_feed() -> Feed {
    Feed::new(claude::AGENT, FeedKind::Stream, "stream")
}

/// Returns all recorded runs, by name.
pub(crate) fn runs() -> Vec<Run> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/claude");
    let mut runs: Vec<_> = fs::read_dir(root)
        .expect("the recordings are part of the tests")
        .map(|entry| read(&entry.expect("a folder can be listed").path()))
        .collect();
    runs.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(runs.len() > 80, "only {} recordings were found", runs.len());
    runs
}

/// Returns one recorded run.
pub(crate) fn run(name: &str) -> Run {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/claude").join(name))
}

fn read(folder: &Path) -> Run {
    let mut files = Vec::new();
    walk(&folder.join("transcript"), &mut files);
    files.sort();
    Run {
        name: folder.file_name().expect("it has a name").to_string_lossy().into_owned(),
        stream: fs::read(folder.join("stream.jsonl")).expect("every run has a stream"),
        folder: folder.to_owned(),
        files,
    }
}

fn walk(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("a recording can be listed") {
        let path = entry.expect("a recording can be listed").path();
        if path.is_dir() {
            walk(&path, files);
        } else {
            let bytes = fs::read(&path).expect("a recording can be read");
            files.push((path.to_string_lossy().into_owned(), bytes));
        }
    }
}

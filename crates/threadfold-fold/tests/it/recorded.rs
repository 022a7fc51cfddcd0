//! Real sessions of five versions of Claude Code: the stream and the transcript of each run.

use std::fs;
use std::path::{Path, PathBuf};

use threadfold_convert::claude;
use threadfold_core::{ConversationState, SessionId};
use threadfold_fold::{
    Fold, Oddity, Record, SessionFile, Slices, Step, file_records, parse_transcript, stream_records,
};

use threadfold_testkit::parity_pairs::{RecordedPair, read_pairs};

/// The number of the source that a stream is.
const STREAM: u32 = 1;

/// A recorded run.
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) stream: Vec<u8>,
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

impl Run {
    /// Returns both sides as a pair.
    pub(crate) fn pair(&self) -> RecordedPair {
        RecordedPair {
            name: self.name.clone(),
            agent: claude::AGENT,
            session: SessionId::from(""),
            stream: self.stream.clone(),
            files: self.files.clone(),
        }
    }

    pub(crate) fn session_files(&self) -> Vec<SessionFile<'_>> {
        self.files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect()
    }

    pub(crate) fn transcript_state(&self) -> ConversationState {
        parse_transcript(claude::AGENT, &self.session_files())
    }

    /// Returns the records of the stream.
    pub(crate) fn stream_records(&self) -> Vec<Record> {
        stream_records(claude::AGENT, STREAM, &self.stream)
    }

    /// Returns the records of the files, for a log that has the stream as well.
    pub(crate) fn file_records(&self) -> Vec<Record> {
        file_records(claude::AGENT, STREAM + 1, &self.session_files())
    }

    pub(crate) fn stream_state(&self) -> ConversationState {
        let mut fold = empty_fold();
        push_all(&mut fold, self.stream_records());
        fold.conversation().clone()
    }

    /// Returns what was odd about the stream's events.
    pub(crate) fn stream_oddities(&self) -> Vec<Oddity> {
        let steps = push_all(&mut empty_fold(), self.stream_records());
        steps.into_iter().flat_map(|step| step.oddities).collect()
    }
}

/// Returns the fold of a session whose id is in its records.
pub(crate) fn empty_fold() -> Fold {
    Fold::new(SessionId::from(""), Slices::default())
}

/// Pushes records, and returns what each meant.
pub(crate) fn push_all(fold: &mut Fold, records: Vec<Record>) -> Vec<Step> {
    let push = |record: Record| {
        let seq = fold.seq() + 1;
        fold.push(&record.at(seq))
    };
    records.into_iter().map(push).collect()
}

/// Returns the folder of the recordings.
pub(crate) fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data")
}

/// Returns all recorded runs, by name.
pub(crate) fn runs() -> Vec<Run> {
    let root = recordings().join("claude");
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
    read(&recordings().join("claude").join(name))
}

fn read(folder: &Path) -> Run {
    let mut pairs = read_pairs(folder).expect("a recording can be read");
    let RecordedPair { name, stream, files, .. } = pairs.remove(0);
    assert!(pairs.is_empty(), "{name} is one run");
    Run { name, folder: folder.to_owned(), stream, files }
}

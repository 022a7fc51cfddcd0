//! Verifies a recording: the stream and the transcript must fold to one state.

use std::{collections::BTreeSet, fs, io, path::Path};

use serde_json::Value;
use threadfold_convert::Agent;
use threadfold_core::SessionId;
use threadfold_fold::parity::{
    Comparison, Replay, RunGap, SideState, Verdict, compare_sides, replay,
};
use threadfold_fold::{Record, SessionFile, file_records, stream_records};

use super::{INFO, STREAM, TRANSCRIPT};
use crate::{TestkitError, sessions_on_disk::read_sessions};

/// The result of verifying a recording.
#[derive(Debug)]
pub struct Verification {
    /// The scenario.
    pub scenario: String,
    comparison: Comparison,
    replay: Replay,
    /// Why it cannot be equal, beside the differences.
    problems: Vec<String>,
    /// What the scenario waited for in vain.
    missed: Vec<String>,
}

impl Verification {
    /// Returns the verdict; a lack that the scenario does not bring about is a difference.
    pub fn verdict(&self) -> Verdict {
        match self.problems.is_empty() && self.replay.holds() {
            true => self.comparison.verdict(),
            false => Verdict::Different,
        }
    }

    /// Returns how many blocks both sides have.
    pub fn blocks(&self) -> usize {
        self.comparison.blocks
    }

    /// Returns what led to the verdict, one line each.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = self.problems.clone();
        let lacking = self.comparison.lacking.iter();
        reasons.extend(lacking.map(|(lack, count)| format!("{} ({count})", lack.description())));
        let early = self.comparison.early_lines.iter();
        reasons.extend(early.map(|it| format!("in `{}`: {} lines", it.file, it.lines)));
        for difference in &self.comparison.differences {
            let block = difference.block.as_ref().map_or("-", |it| it.as_str());
            let place = format!("{} {block} {}", difference.conversation, difference.field);
            let side = |it: &Option<threadfold_core::Json>| {
                it.as_ref().map_or("nothing".to_owned(), |it| cut(it.as_str()))
            };
            let [stream, transcript] = [&difference.stream, &difference.transcript].map(side);
            reasons.push(format!("{place}: stream {stream}, transcript {transcript}"));
        }
        if !self.replay.holds() {
            let Replay { tried, astray, out_of_order, lost, .. } = &self.replay;
            reasons.push(format!(
                "merge: {} of {tried} interleavings astray (first at {:?}), {} conversations out \
                 of order, {} blocks lost",
                astray.len(),
                astray.first(),
                out_of_order.len(),
                lost.len()
            ));
        }
        reasons.extend(self.missed.iter().map(|it| format!("note: {it} did not happen")));
        reasons
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Verifies the recording in `folder`.
pub fn verify(agent: Agent, folder: &Path) -> Result<Verification, TestkitError> {
    verify_files(agent, folder)
        .map_err(TestkitError::io(format!("verify the recording `{}`", folder.display())))
}

fn verify_files(agent: Agent, folder: &Path) -> io::Result<Verification> {
    let info: Value = serde_json::from_slice(&fs::read(folder.join(INFO))?)?;
    let stream = fs::read(folder.join(STREAM))?;
    let words = |key: &str| -> Vec<String> {
        let all = info[key].as_array().into_iter().flatten();
        all.filter_map(|it| it.as_str().map(str::to_owned)).collect()
    };
    let mut problems = Vec::new();

    let named = info["session"].as_str().map(str::to_owned);
    let sessions = named.map_or_else(|| sessions_of(&stream), |it| vec![it]);
    let session = sessions.first().cloned().unwrap_or_default();
    let mut stored = Vec::new();
    for session in &sessions {
        let found = transcript_of(agent, session, &folder.join(TRANSCRIPT))?;
        if found.is_empty() {
            problems.push(format!("there is no transcript of session `{session}`"));
        }
        let files = found.iter().map(|(path, bytes)| SessionFile { path, bytes });
        let next_source = stored.iter().map(|it: &Record| it.source).max().unwrap_or(1) + 1;
        stored.extend(file_records(agent, next_source, &files.collect::<Vec<_>>()));
    }

    let session = SessionId::from(session);
    let streamed = stream_records(agent, 1, &stream);
    // An agent that could not start leaves two empty sides, which are equal.
    if stream.trim_ascii().is_empty() {
        problems.push("the stream is empty".to_owned());
    }
    let sides = [
        SideState::fold_stream(agent, &session, &streamed, &stored),
        SideState::fold(agent, &session, &stored),
    ];
    let comparison = compare_sides(agent, &sides[0], &sides[1]);
    let may_lack: BTreeSet<String> = words("mayLack").into_iter().collect();
    // Any run on a busy machine may have files out of order, or exit early; the files show it.
    let expected = |lack: &&RunGap| !matches!(lack, RunGap::FileOrder | RunGap::UnwrittenSubagent);
    for lack in comparison.lacking.keys().filter(expected) {
        let name = serde_json::to_value(lack)?;
        if !name.as_str().is_some_and(|it| may_lack.contains(it)) {
            problems.push(format!("nothing in this run explains that {}", lack.description()));
        }
    }
    Ok(Verification {
        scenario: info["scenario"].as_str().unwrap_or_default().to_owned(),
        replay: replay(&session, &streamed, &stored),
        comparison,
        problems,
        missed: words("missed"),
    })
}

/// Returns path and content of a session's files.
fn transcript_of(agent: Agent, session: &str, folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    if agent.has_one_main_file() {
        let mut sessions = read_sessions(folder)?.into_iter();
        let files = sessions.find(|it| !session.is_empty() && it.name.contains(session));
        return Ok(files.map_or_else(Vec::new, |it| it.files));
    }
    let mut files = Vec::new();
    read_files(folder, &mut files)?;
    files.sort();
    Ok(files)
}

fn read_files(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_files(&path, files)?;
        } else {
            files.push((path.to_string_lossy().into_owned(), fs::read(&path)?));
        }
    }
    Ok(())
}

/// Returns the sessions that the stream names, in their order: a command may begin another one.
fn sessions_of(stream: &[u8]) -> Vec<String> {
    let lines = stream.split(|it| *it == b'\n');
    let records = lines.filter_map(|it| serde_json::from_slice::<Value>(it).ok());
    let mut sessions: Vec<String> = Vec::new();
    for session in records.filter_map(|it| it["session_id"].as_str().map(str::to_owned)) {
        if !sessions.contains(&session) {
            sessions.push(session);
        }
    }
    sessions
}

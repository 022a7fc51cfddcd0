//! Sessions in a folder, of any agent, for checks over many of them.

use std::fs;
use std::io;
use std::path::Path;

use threadfold_convert::claude::layout::{belongs_to, sessions};
use threadfold_convert::lines::lines;
use threadfold_convert::{Agent, claude};
use threadfold_core::{SessionEvent, SessionId};
use threadfold_fold::{Fold, HEAD_BYTES, SessionFile, Slices, detect, fold_files, stream_records};

mod codex;
mod opencode;

/// A session's files, with their content.
#[derive(Clone, Debug)]
pub struct SessionOnDisk {
    /// Its agent.
    pub agent: Agent,
    /// Its main file, or its stream.
    pub name: String,
    /// Path and content of each file.
    pub files: Vec<(String, Vec<u8>)>,
    /// It is a stream, not a transcript.
    pub is_stream: bool,
    /// The session id, for files that may contain several.
    pub root: Option<String>,
}

impl SessionOnDisk {
    /// Returns the session's events, including those at its end.
    pub fn events(&self) -> Vec<SessionEvent> {
        let session = SessionId::from(self.root.as_deref().unwrap_or_default());
        let mut fold = Fold::new(session, Slices::default()).once();
        let mut all = Vec::new();
        if self.is_stream {
            for (_, bytes) in &self.files {
                for record in stream_records(self.agent, fold.next_source(), bytes) {
                    let seq = fold.seq() + 1;
                    all.append(&mut fold.push(&record.at(seq)).events);
                }
            }
        } else {
            let files: Vec<_> =
                self.files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
            fold_files(&mut fold, self.agent, &files, |step| all.extend_from_slice(&step.events));
        }
        all
    }
}

/// Reads the sessions below a folder: transcripts, and streams, detected by content. Files of
/// unknown agents are left out.
pub fn read_sessions(folder: &Path) -> io::Result<Vec<SessionOnDisk>> {
    let mut paths = Vec::new();
    walk(folder, &mut paths)?;
    paths.sort();
    let mut found = opencode::take_sessions(&mut paths)?;
    found.append(&mut codex::take_sessions(&mut paths)?);
    for session in sessions(&paths) {
        let main = fs::read(&session.main)?;
        // Files of agents that are not known have no sessions to check.
        if detect(&main[..main.len().min(HEAD_BYTES)]).and_then(|it| it.agent)
            != Some(claude::AGENT)
        {
            continue;
        }
        if is_stream(&main) {
            found.push(SessionOnDisk {
                agent: claude::AGENT,
                name: session.main.clone(),
                files: vec![(session.main, main)],
                is_stream: true,
                root: None,
            });
            continue;
        }
        let mut files = vec![(session.main.clone(), main)];
        for subagent in session.subagents {
            let bytes = fs::read(&subagent.path)?;
            let first = lines(&bytes).next();
            if first.is_some_and(|line| !belongs_to(line.bytes, &session.session)) {
                continue;
            }
            if let Some(meta) = subagent.meta {
                files.push((meta.clone(), fs::read(&meta)?));
            }
            files.push((subagent.path, bytes));
        }
        found.push(SessionOnDisk {
            agent: claude::AGENT,
            name: session.main,
            files,
            is_stream: false,
            root: None,
        });
    }
    Ok(found)
}

/// Returns whether bytes look like a Claude Code stream.
fn is_stream(bytes: &[u8]) -> bool {
    lines(bytes).take(5).any(|line| {
        let text = String::from_utf8_lossy(line.bytes);
        text.contains("\"session_id\"") && !text.contains("\"sessionId\"")
    })
}

fn walk(folder: &Path, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, paths)?;
        } else if let Some(path) = path.to_str() {
            paths.push(path.to_owned());
        }
    }
    Ok(())
}

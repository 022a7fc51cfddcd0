//! Sessions in a folder, whichever agent's: for checks over many of them.

use std::fs;
use std::io;
use std::path::Path;

use threadfold_convert::claude::layout::{belongs_to, sessions};
use threadfold_convert::lines::lines;
use threadfold_convert::{Agent, claude};
use threadfold_core::{SessionEvent, SessionId};
use threadfold_fold::{Fold, SessionFile, Slices, fold_files, stream_records};

mod opencode;

/// A session's files, read.
#[derive(Clone, Debug)]
pub struct SessionOnDisk {
    /// Whose it is.
    pub agent: Agent,
    /// Its main file, or its stream.
    pub name: String,
    /// Path and content of each file.
    pub files: Vec<(String, Vec<u8>)>,
    /// It is a stream and not a transcript.
    pub is_stream: bool,
    /// Which session it is, where files may hold several.
    pub root: Option<String>,
}

impl SessionOnDisk {
    /// Returns the session's events, those of its end included.
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
            fold_files(&mut fold, self.agent, &files, |mut step| all.append(&mut step.events));
        }
        all
    }
}

/// Reads the sessions below a folder: transcripts, and streams by their content. What is not
/// OpenCode's is taken for Claude Code's.
pub fn read_sessions(folder: &Path) -> io::Result<Vec<SessionOnDisk>> {
    let mut paths = Vec::new();
    walk(folder, &mut paths)?;
    paths.sort();
    let mut found = opencode::take_sessions(&mut paths)?;
    for session in sessions(&paths) {
        let main = fs::read(&session.main)?;
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

/// Says whether bytes look like what Claude Code streams.
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

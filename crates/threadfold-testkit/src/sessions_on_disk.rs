//! Sessions in a folder, whichever agent's: for checks over many of them.

use std::fs;
use std::io;
use std::path::Path;

use threadfold_convert::claude::layout::{belongs_to, sessions};
use threadfold_convert::lines::lines;
use threadfold_convert::{Agent, Feed, FeedKind, Record, SessionFile, convert_files, converter};
use threadfold_core::SessionEvent;

/// A session's files, read.
#[derive(Clone, Debug)]
pub struct SessionOnDisk {
    /// Its main file, or its stream.
    pub name: String,
    /// Path and content of each file.
    pub files: Vec<(String, Vec<u8>)>,
    /// It is a stream and not a transcript.
    pub is_stream: bool,
}

impl SessionOnDisk {
    /// Returns the session's events.
    pub fn events(&self) -> Vec<SessionEvent> {
        let files: Vec<_> = self
            .files
            .iter()
            .map(|(path, bytes)| SessionFile { path, bytes: bytes.as_slice() })
            .collect();
        let mut converter = converter(Agent::Claude);
        let mut all = Vec::new();
        if self.is_stream {
            let feed = Feed::new(Agent::Claude, FeedKind::Stream, &self.name);
            for line in files.iter().flat_map(|file| lines(file.bytes)) {
                let record = Record { feed: &feed, line: line.number, bytes: line.bytes };
                converter.push(&record, &mut all);
            }
            converter.finish(&feed, &mut all);
        } else {
            convert_files(Agent::Claude, converter.as_mut(), &files, |events| all.append(events));
        }
        all
    }
}

/// Reads the Claude Code sessions below a folder: transcripts, and streams by their content.
pub fn read_sessions(folder: &Path) -> io::Result<Vec<SessionOnDisk>> {
    let mut paths = Vec::new();
    walk(folder, &mut paths)?;
    paths.sort();
    let mut found = Vec::new();
    for session in sessions(&paths) {
        let main = fs::read(&session.main)?;
        if is_stream(&main) {
            found.push(SessionOnDisk {
                name: session.main.clone(),
                files: vec![(session.main, main)],
                is_stream: true,
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
        found.push(SessionOnDisk { name: session.main, files, is_stream: false });
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

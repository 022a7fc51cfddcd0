//! A temporary home folder for an agent.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::TestkitError;

const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A temporary home folder with a project folder in it, removed on drop.
///
/// Runs that share a home can resume each other's sessions.
#[derive(Debug)]
pub struct AgentHome {
    home: PathBuf,
    /// Removes the folder on drop.
    _folder: TempDir,
}

impl AgentHome {
    /// Creates an empty home.
    pub fn new() -> Result<Self, TestkitError> {
        Self::make().map_err(TestkitError::io("make a home for an agent"))
    }

    fn make() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("threadfold-").tempdir()?;
        // The agent writes the canonical path into its transcripts, so that one is used.
        let home = folder.path().canonicalize()?;
        fs::create_dir(home.join("project"))?;
        fs::create_dir(home.join("tmp"))?;
        Ok(Self { home, _folder: folder })
    }

    /// Returns the home folder.
    pub fn path(&self) -> &Path {
        &self.home
    }

    /// Returns the agent's working directory.
    pub fn project(&self) -> PathBuf {
        self.home.join("project")
    }

    /// Returns the folder for the agent's temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.home.join("tmp")
    }

    /// Returns the folder under which Claude Code writes its transcripts.
    pub fn transcript_root(&self) -> PathBuf {
        self.home.join(".claude").join("projects")
    }

    /// Returns the folder of Codex, with its configuration and its sessions.
    pub fn codex(&self) -> PathBuf {
        self.home.join(".codex")
    }

    /// Returns the transcripts (`*.jsonl`) of all sessions and their subagents, sorted.
    pub fn transcripts(&self) -> Result<Vec<PathBuf>, TestkitError> {
        self.files_below(&self.transcript_root())
    }

    /// Returns the files (`*.jsonl`) below a folder of the home, sorted.
    pub(crate) fn files_below(&self, root: &Path) -> Result<Vec<PathBuf>, TestkitError> {
        let mut found = Vec::new();
        collect(root, &mut found)
            .map_err(TestkitError::io(format!("list `{}`", root.display())))?;
        found.sort();
        Ok(found)
    }

    /// Waits until a transcript contains `text`.
    ///
    /// Claude Code writes its transcript some time after the stream, so a test that kills it to
    /// check the transcript must first wait for a write.
    pub fn wait_for_transcript(&self, text: &str, limit: Duration) -> Result<(), TestkitError> {
        let start = Instant::now();
        while start.elapsed() < limit {
            for path in self.transcripts()? {
                let bytes = fs::read(&path)
                    .map_err(TestkitError::io(format!("read `{}`", path.display())))?;
                if String::from_utf8_lossy(&bytes).contains(text) {
                    return Ok(());
                }
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        let what = format!("a transcript with `{text}`");
        Err(TestkitError::TimedOut { what, limit })
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|it| it == "jsonl") {
            found.push(path);
        }
    }
    Ok(())
}

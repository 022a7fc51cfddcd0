//! Records runs of real agents, scenario by scenario, and verifies each recording.
//!
//! ```text
//! Scenario ─► real agent + ScriptedModel ─► Recording ─► folder ─► verify ─► Verification
//! ```
//!
//! A recording is a folder: `stream.jsonl` is what the agent emitted, `transcript/` what it wrote,
//! and `info.json` how it was run. What an agent's maker wrote (prompts, descriptions of tools) is
//! shortened before it is written, so that a recording can be committed. Verification reads the
//! folder, so an old recording can be verified with new code.

mod abridge;
pub mod claude;
pub mod codex;
pub mod opencode;
mod table;
mod verify;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use threadfold_fold::parity::RunGap;

pub use self::{
    table::table,
    verify::{Verification, verify},
};
use crate::TestkitError;

/// The file with the stream.
const STREAM: &str = "stream.jsonl";
/// The folder with the transcripts.
const TRANSCRIPT: &str = "transcript";
/// The file that describes the run.
const INFO: &str = "info.json";

/// A run that was recorded, before it is written.
#[derive(Debug)]
pub struct Recording {
    scenario: String,
    version: String,
    arguments: Vec<String>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    stderr: String,
    /// What the scenario waited for in vain.
    missed: Vec<String>,
    /// What one side may lack in a run like this.
    may_lack: Vec<RunGap>,
    /// The session; without it, the one that the stream names first.
    session: Option<String>,
    lines: Vec<Vec<u8>>,
    /// Where the agent wrote its transcripts.
    transcripts: PathBuf,
}

impl Recording {
    /// Returns the name of the scenario.
    pub fn scenario(&self) -> &str {
        &self.scenario
    }

    /// Writes the recording, abridged; an earlier one at this place is replaced.
    pub fn write(&self, folder: &Path) -> Result<(), TestkitError> {
        self.write_files(folder)
            .map_err(TestkitError::io(format!("write a recording to `{}`", folder.display())))
    }

    fn write_files(&self, folder: &Path) -> io::Result<()> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder.join(TRANSCRIPT))?;
        let stream: Vec<u8> =
            self.lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect();
        fs::write(folder.join(STREAM), stream)?;
        if self.transcripts.exists() {
            copy_abridged(&self.transcripts, &folder.join(TRANSCRIPT))?;
        }
        let info = serde_json::to_string_pretty(&self.info())?;
        fs::write(folder.join(INFO), format!("{info}\n"))
    }

    fn info(&self) -> Value {
        json!({
            "scenario": self.scenario,
            "version": self.version,
            "arguments": self.arguments,
            "exitCode": self.exit_code,
            "signal": self.signal,
            "stderr": self.stderr,
            "missed": self.missed,
            "mayLack": self.may_lack,
            "session": self.session,
        })
    }
}

fn copy_abridged(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            fs::create_dir_all(&target)?;
            copy_abridged(&path, &target)?;
        } else if path.extension().is_some_and(|it| it == "jsonl") {
            fs::write(target, abridge::abridge(&fs::read(&path)?))?;
        } else {
            fs::copy(&path, target)?;
        }
    }
    Ok(())
}

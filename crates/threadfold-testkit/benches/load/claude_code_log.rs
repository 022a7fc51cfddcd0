//! Python's `claude-code-log`, a program that many use, beside ours in the table.
//!
//! It is installed into the target folder the first time. Where that cannot be done, the row
//! reports that, and nothing else changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::child::Measurement;
use crate::table;

const TITLE: &str = "claude-code-log 1.7.0 (Python)";
const PACKAGE: &str = "claude-code-log==1.7.0";

/// Loads once and prints what it cost; only the loading is timed, not the start of Python.
const SCRIPT: &str = r#"
import json, pathlib, resource, sys, time
from claude_code_log.converter import load_transcript
start = time.process_time()
entries = load_transcript(pathlib.Path(sys.argv[1]), silent=True)
spent = time.process_time() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"nanoseconds": int(spent * 1e9), "peak": peak, "entries": len(entries)}))
"#;

/// Prints the row of the file at `path`.
pub(crate) fn print_row(folder: &Path, path: &Path, bytes: u64) {
    match measure(folder, path) {
        Ok(row) => table::print_row(TITLE, bytes, &row),
        Err(why) => println!("{TITLE:<34} not measured: {why}"),
    }
}

fn measure(folder: &Path, path: &Path) -> Result<Measurement, &'static str> {
    let python = install(&folder.join("claude-code-log"))?;
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .arg(path)
        .output()
        .map_err(|_| "its Python cannot be started")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().last().unwrap_or("");
    let figures: Value = serde_json::from_str(last).map_err(|_| "it could not load the file")?;
    let nanoseconds = figures["nanoseconds"].as_u64().ok_or("it gave no figures")?;
    Ok(Measurement { nanoseconds, peak: figures["peak"].as_u64(), blocks: BTreeMap::new() })
}

/// Returns a Python that has the package, installed into `folder` if need be.
fn install(folder: &Path) -> Result<PathBuf, &'static str> {
    let python = folder.join("bin/python");
    if succeeds(Command::new(&python).args(["-c", "import claude_code_log"])) {
        return Ok(python);
    }
    if !succeeds(Command::new("python3").args(["-m", "venv"]).arg(folder)) {
        return Err("there is no Python with `venv`");
    }
    let install = ["-m", "pip", "install", "--quiet", PACKAGE];
    if !succeeds(Command::new(&python).args(install)) {
        return Err("`pip` cannot install it");
    }
    Ok(python)
}

fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

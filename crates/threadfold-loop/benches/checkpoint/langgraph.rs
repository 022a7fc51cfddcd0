//! LangGraph's `SqliteSaver`, measured in the same way, if it can be installed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{AROUND, Cost, middle};

const SCRIPT: &str = include_str!("langgraph.py");

/// Returns the cost of a checkpoint at each turn; `None` if LangGraph is not available.
pub(crate) fn measure(turns: &[u64]) -> Option<Vec<Cost>> {
    let folder = tempfile::tempdir().ok()?;
    let python = install(folder.path())?;
    let list: Vec<_> = turns.iter().map(u64::to_string).collect();
    eprintln!("measuring LangGraph …");
    let measured = Command::new(python)
        .args(["-c", SCRIPT, &AROUND.to_string(), &list.join(",")])
        .current_dir(folder.path())
        .output()
        .ok()?;
    if !measured.status.success() {
        eprintln!("LangGraph: {}", String::from_utf8_lossy(&measured.stderr));
        return None;
    }
    let text = String::from_utf8(measured.stdout).ok()?;
    let lines: Option<Vec<Vec<Cost>>> = text.lines().map(read).collect();
    Some(lines?.into_iter().map(middle).collect())
}

/// Reads the costs around one turn, each as `nanoseconds:bytes`.
fn read(line: &str) -> Option<Vec<Cost>> {
    let cost = |word: &str| {
        let (time, bytes) = word.split_once(':')?;
        Some(Cost { time: Duration::from_nanos(time.parse().ok()?), bytes: bytes.parse().ok()? })
    };
    line.split_whitespace().map(cost).collect()
}

/// Installs LangGraph into a virtual environment, and returns its Python.
fn install(folder: &Path) -> Option<std::path::PathBuf> {
    eprintln!("installing LangGraph's checkpoints …");
    let made =
        Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")).output().ok()?;
    let python = folder.join("venv/bin/python");
    let installed = made.status.success().then(|| {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "langgraph-checkpoint-sqlite"]);
        pip.output().is_ok_and(|it| it.status.success())
    });
    if installed != Some(true) {
        eprintln!("LangGraph is not available, and is skipped");
        return None;
    }
    Some(python)
}

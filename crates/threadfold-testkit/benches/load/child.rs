//! One load in a separate process.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

use cpu_time::ThreadTime;
use serde_json::{Value, json};

use crate::loader::Loader;

/// The argument that makes a process one load.
const FLAG: &str = "--load-once";

/// What one load cost.
#[derive(Clone)]
pub(crate) struct Measurement {
    /// Of the thread's CPU.
    pub(crate) nanoseconds: u64,
    /// The peak memory of the process, including the file's bytes (Linux only).
    pub(crate) peak: Option<u64>,
    /// How many blocks the state has, by type; none if there is no state.
    pub(crate) blocks: BTreeMap<String, usize>,
}

/// Returns the loader and the path if these arguments ask for one load.
pub(crate) fn asked(arguments: &[String]) -> Option<(Loader, &Path)> {
    match arguments {
        [flag, loader, path, ..] if flag == FLAG => Some((Loader::named(loader)?, Path::new(path))),
        _ => None,
    }
}

/// Loads once, and prints what it cost.
pub(crate) fn run((loader, path): (Loader, &Path)) -> io::Result<()> {
    let bytes = std::fs::read(path)?;
    let start = ThreadTime::now();
    let loaded = loader.load(&bytes);
    let nanoseconds = start.elapsed().as_nanos() as u64;
    let peak = peak_memory();
    let blocks = loaded.count();
    println!("{}", json!({ "nanoseconds": nanoseconds, "peak": peak, "blocks": blocks }));
    // The process ends here, and so need not tidy up block by block.
    std::mem::forget(loaded);
    Ok(())
}

/// Starts one load, and returns what it cost.
pub(crate) fn measure(loader: Loader, path: &Path) -> io::Result<Measurement> {
    let own = std::env::current_exe()?;
    let output = Command::new(own).arg(FLAG).arg(loader.name()).arg(path).output()?;
    let damaged = || {
        let said = String::from_utf8_lossy(&output.stderr);
        io::Error::other(format!("`{}` gave no figures: {said}", loader.name()))
    };
    let figures: Value = serde_json::from_slice(&output.stdout).map_err(|_| damaged())?;
    Ok(Measurement {
        nanoseconds: figures["nanoseconds"].as_u64().ok_or_else(damaged)?,
        peak: figures["peak"].as_u64(),
        blocks: serde_json::from_value(figures["blocks"].clone()).map_err(|_| damaged())?,
    })
}

/// Returns the most bytes that this process ever had in memory.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

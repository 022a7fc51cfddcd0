//! The demo: a scripted model, and a tool that counts in a file.
//!
//! The file is outside the store. It proves that nothing is counted twice when the program is
//! killed and the run is resumed.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use schemars::JsonSchema;
use serde::Deserialize;
use threadfold_core::SessionId;
use threadfold_export::file_name;
use threadfold_loop::{Probe, ProviderScript, Tool, ToolContext, ToolError, ToolOutput, tool};
use threadfold_store::Epoch;

use crate::error::CommandError;
use crate::store::OpenStore;

/// How long the tool takes before and after it counts.
const PACE: Duration = Duration::from_millis(500);

const SCRIPT: &str = include_str!("demo/script.json");

pub(super) fn script() -> ProviderScript {
    serde_json::from_str(SCRIPT).expect("our own script can be read")
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    /// The number that is counted.
    number: u64,
}

/// Returns the file that a run counts in.
fn file(store: &OpenStore, session: &SessionId) -> PathBuf {
    let name = file_name(session.as_str());
    store.folder().join("demo").join(format!("{name}.txt"))
}

/// Returns the tool that counts.
pub(super) fn count(store: &OpenStore, session: &SessionId) -> Result<Arc<dyn Tool>, CommandError> {
    let path = file(store, session);
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .with_context(|| format!("`{}` cannot be created", folder.display()))
        .map_err(|error| CommandError::new(error, "use another folder with `--store`"))?;
    let probed = path.clone();
    let count = tool("count", "Counts a number in a file", move |count: Count, context| {
        write_down(path.clone(), count, context)
    });
    Ok(Arc::new(count.probe(move |count: Count, context| {
        let happened = has_counted(&probed, &context);
        async move {
            Ok(match happened? {
                true => Probe::Happened(ToolOutput::text(format!("counted {}", count.number))),
                false => Probe::DidNotHappen,
            })
        }
    })))
}

async fn write_down(
    path: PathBuf,
    count: Count,
    context: ToolContext,
) -> Result<ToolOutput, ToolError> {
    tokio::time::sleep(PACE).await;
    if written_since(&path, context.epoch)? {
        return Err(ToolError::failed("another process took over the session"));
    }
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    let line = format!("{} {} {}\n", count.number, context.epoch.0, context.key);
    file.write_all(line.as_bytes())?;
    tokio::time::sleep(PACE).await;
    Ok(ToolOutput::text(format!("counted {}", count.number)))
}

/// Returns true if a process with a later lease has counted. The store fences only its own log, so
/// the tool must check its file itself.
fn written_since(path: &Path, epoch: Epoch) -> Result<bool, ToolError> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        read => read?,
    };
    let epochs = text.lines().filter_map(|line| line.split(' ').nth(1)?.parse().ok());
    Ok(epochs.max().is_some_and(|latest: u64| latest > epoch.0))
}

fn has_counted(path: &Path, context: &ToolContext) -> Result<bool, ToolError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().any(|line| line.ends_with(context.key.as_str()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the file that a run counted in, and the numbers in it.
pub(crate) fn counted(store: &OpenStore, session: &SessionId) -> (PathBuf, Vec<String>) {
    let path = file(store, session);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let numbers = text.lines().filter_map(|line| line.split(' ').next());
    (path, numbers.map(str::to_owned).collect())
}

//! Tool calls, as the loop makes them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_core::{CallId, CallKey, SessionId};
use threadfold_loop::{
    ErrorOutcome, Folder, Probe, Tool, ToolContext, ToolError, ToolOutput, builtin_tool,
};
use threadfold_store::Epoch;
use tokio_util::sync::CancellationToken;

/// Returns the context of the first attempt of a call.
pub(crate) fn context(key: &str) -> ToolContext {
    ToolContext {
        call_id: CallId::from("call"),
        key: CallKey::from(key),
        attempt: 1,
        is_resume: false,
        session: SessionId::from("session"),
        epoch: Epoch(1),
        deadline: None,
        cancel: CancellationToken::new(),
    }
}

/// Returns a context with a deadline in this many milliseconds.
pub(crate) fn within(key: &str, milliseconds: u64) -> ToolContext {
    let deadline = Some(Instant::now() + Duration::from_millis(milliseconds));
    ToolContext { deadline, ..context(key) }
}

/// A folder with its tools, and another folder beside it that they must not reach.
pub(crate) struct Place {
    _root: tempfile::TempDir,
    pub(crate) path: std::path::PathBuf,
    pub(crate) outside: std::path::PathBuf,
    pub(crate) folder: Folder,
}

impl Place {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let (path, outside) = (root.path().join("inside"), root.path().join("outside"));
        fs::create_dir(&path).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "the secret").unwrap();
        for (name, content) in files {
            put(&path.join(name), content);
        }
        let folder = Folder::open(&path).unwrap();
        Self { _root: root, path, outside, folder }
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        builtin_tool(&self.folder, name).unwrap()
    }

    /// Calls a tool, and returns the output for the model.
    pub(crate) async fn call(&self, name: &str, arguments: &str) -> String {
        self.call_as(name, arguments, "key").await
    }

    /// Calls a tool with this idempotency key.
    pub(crate) async fn call_as(&self, name: &str, arguments: &str, key: &str) -> String {
        describe(self.tool(name).call(arguments, &context(key)).await)
    }

    pub(crate) async fn probe(&self, arguments: &str, key: &str) -> String {
        match self.tool("edit").probe(arguments, &context(key)).await.unwrap() {
            Probe::Happened(output) => format!("happened: {}", output.to_text()),
            Probe::DidNotHappen => "did not".to_owned(),
            Probe::Unknown => "cannot tell".to_owned(),
        }
    }

    pub(crate) fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap()
    }
}

fn put(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Returns the output for the model.
pub(crate) fn describe(result: Result<ToolOutput, ToolError>) -> String {
    match result {
        Ok(output) if output.is_error => format!("error: {}", output.to_text()),
        Ok(output) => output.to_text(),
        Err(ToolError { message, outcome: ErrorOutcome::Failed }) => format!("failed: {message}"),
        Err(ToolError { message, outcome: ErrorOutcome::Unknown }) => format!("unknown: {message}"),
    }
}

/// Waits until a condition holds that other processes bring about.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(30), "it does not come about");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

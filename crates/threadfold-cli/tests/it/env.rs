//! A temporary folder to run the program in.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A temporary folder to run the program in.
pub(crate) struct TestEnv {
    folder: TempDir,
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Returns a folder with one file, `events.jsonl`.
    pub(crate) fn with_events(content: impl AsRef<[u8]>) -> Self {
        let env = Self::new();
        env.write("events.jsonl", content);
        env
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Returns where `name` is in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the program with arguments, to be run in the folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_threadfold"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        // The help would be as wide as the terminal of whoever runs the tests.
        command.env_remove("COLUMNS");
        // The sessions, the time zone and the colours would be theirs as well.
        command.env("CLAUDE_CONFIG_DIR", self.path("claude")).env("HOME", self.folder.path());
        command.env_remove("XDG_DATA_HOME").env_remove("THREADFOLD_STORE");
        command.env_remove("CODEX_HOME");
        command.env("TZ", "UTC").env_remove("NO_COLOR").env_remove("PAGER");
        command
    }

    /// Runs the program, and returns all that can be seen of it.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        seen(&self.command(arguments).output().unwrap())
    }

    /// Runs the program, and returns what it printed; it must have done what it was asked.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", seen(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns what can be seen of the program, with the folder's own name left out.
    pub(crate) fn told(&self, arguments: &[&str]) -> String {
        self.run(arguments).replace(&self.folder.path().display().to_string(), "<home>")
    }

    /// Runs the program with `events.jsonl` as its standard input.
    pub(crate) fn run_piped(&self, arguments: &[&str]) -> String {
        let file = File::open(self.folder.path().join("events.jsonl")).unwrap();
        seen(&self.command(arguments).stdin(file).output().unwrap())
    }
}

/// Returns exit code, stdout and stderr as one text.
pub(crate) fn seen(output: &Output) -> String {
    let code = output.status.code().map_or("none".to_owned(), |code| code.to_string());
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    format!("exit {code}\n--- stdout\n{stdout}--- stderr\n{stderr}")
}

//! `cargo xtask soak schemathesis`: requests to a real server, generated from its OpenAPI.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};

use super::{commit, write_report};
use crate::shell;

const PACKAGE: &str = "schemathesis==4.32.5";
/// How many requests are wanted at least.
const WANTED: usize = 5_000;
/// For each operation, in the phase that generates at random.
const EXAMPLES: &str = "500";
const HOOKS: &str = include_str!("schemathesis_hooks.py");
/// Recorded sessions that the server has.
const RECORDINGS: [&str; 3] = ["tools", "manytext", "error_retry"];

const TITLE: &str = "\
# Requests generated from the OpenAPI

What `cargo xtask soak schemathesis` found: requests to a real `threadfold serve` with recorded sessions, valid and invalid ones, generated from `/v1/openapi.json`.
Half of those that name a session name one that exists.
No answer may have a status of 5xx, or one that the OpenAPI does not list.
A method that the OpenAPI does not list for a path is answered with 405, which is no answer of an operation.
";

pub(super) fn run() -> Result<ExitCode> {
    let folder = shell::target()?.join("schemathesis");
    let tool = install(&folder)?;
    shell::run(&mut shell::command("cargo build --locked --package threadfold"))?;
    let home = folder.join("home");
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    let sessions = write_sessions(&home)?;
    let server = RunningServer::start(&home)?;
    let (hooks, found) = (folder.join("soak_hooks.py"), folder.join("report.txt"));
    fs::write(&hooks, HOOKS)?;
    if found.exists() {
        fs::remove_file(&found)?;
    }
    let mut command = Command::new(tool);
    command
        .args(["run", &format!("{}/v1/openapi.json", server.address)])
        .args(["--header", &format!("Authorization: Bearer {}", server.token)])
        .args(["--checks", "not_a_server_error,status_code_conformance"])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES])
        .args(["--seed", "15", "--request-timeout", "20", "--continue-on-failure", "--no-color"])
        .args(["--suppress-health-check", "all"])
        .env("SCHEMATHESIS_HOOKS", "soak_hooks")
        .env("PYTHONPATH", &folder)
        .env("SOAK_SESSIONS", serde_json::to_string(&sessions)?)
        .env("SOAK_REPORT", &found)
        .current_dir(&folder);
    let (code, output) = shell::output(&mut command)?;
    print!("{output}");
    let counted = fs::read_to_string(&found).context("no request was counted")?;
    let total = counted.split(' ').next().and_then(|it| it.parse::<usize>().ok()).unwrap_or(0);
    let (verdict, code) = match (code, total >= WANTED) {
        (0, true) => ("No status of 5xx, and none that is not documented.".to_owned(), 0),
        (0, false) => (format!("Fewer than {WANTED} requests were sent."), 1),
        (code, _) => (format!("It failed:\n\n{output}"), code),
    };
    let report = format!(
        "{TITLE}\nRun on {}, with {PACKAGE}.\n\n```text\n{counted}\n{verdict}\n```\n",
        commit()?
    );
    write_report("docs/schemathesis-report.md", &report)?;
    Ok(ExitCode::from(code))
}

/// Installs the tool below a folder, unless that was done before, and returns it.
fn install(folder: &Path) -> Result<PathBuf> {
    let tool = folder.join("bin/schemathesis");
    let pip = folder.join("bin/pip");
    if !pip.exists() {
        shell::run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    shell::run(Command::new(pip).args(["install", "--quiet", PACKAGE]))?;
    Ok(tool)
}

/// Writes recorded sessions where an agent would, and returns their ids.
fn write_sessions(home: &Path) -> Result<Vec<String>> {
    let projects = home.join(".claude/projects/-home-dev-project");
    fs::create_dir_all(&projects)?;
    let mut ids = Vec::new();
    for name in RECORDINGS {
        let recorded = format!(
            "crates/threadfold-convert/tests/data/claude/{name}/transcript/-home-dev-project"
        );
        for entry in fs::read_dir(shell::root().join(recorded))? {
            let path = entry?.path();
            let (Some(file), true) = (path.file_name(), path.is_file()) else { continue };
            fs::copy(&path, projects.join(file))?;
            ids.extend(path.file_stem().map(|it| it.to_string_lossy().into_owned()));
        }
    }
    ensure!(!ids.is_empty(), "there is no recorded session");
    Ok(ids)
}

/// `threadfold serve`, until it is dropped.
struct RunningServer {
    process: Child,
    address: String,
    token: String,
}

impl RunningServer {
    fn start(home: &Path) -> Result<Self> {
        let token = home.join("token");
        let mut command = Command::new(shell::target()?.join("debug/threadfold"));
        command.env_clear().env("HOME", home).env("RUST_BACKTRACE", "1");
        command.args(["serve", "--bind", "127.0.0.1:0", "--log", "warn", "--store"]);
        command.arg(home.join("store.db")).arg("--token-file").arg(&token);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let stdout = process.stdout.take().context("the server has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").map(str::to_owned);
        let address = address.with_context(|| format!("the server printed {line:?}"))?;
        let token = fs::read_to_string(&token)?.trim().to_owned();
        Ok(Self { process, address, token })
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

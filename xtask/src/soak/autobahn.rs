//! `cargo xtask soak autobahn`: the cases of the Autobahn test suite over our WebSocket frames.
//!
//! The suite needs Python 2.7; without it, `cargo xtask fuzz websocket_frame` is what there is.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::{commit, write_report};
use crate::shell;

const PACKAGE: &str = "autobahntestsuite==0.8.2";
/// Texts, pings, reserved bits, kinds, fragments, UTF-8, closing, and long messages in parts. Binary
/// messages (1.2) are refused with 1003, messages are limited to 64 KiB (9), and compression is not
/// agreed on (12, 13).
const CASES: [&str; 8] = ["1.1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"];
/// The modules share a namespace, which only a folder of packages can.
const START: &str = "\
import os, site
site.addsitedir(os.environ['MODULES'])
from autobahntestsuite.wstest import run
run()";
/// A text that is not UTF-8 may be refused at its end.
const PASSED: [&str; 3] = ["OK", "NON-STRICT", "INFORMATIONAL"];

const TITLE: &str = "\
# The cases of the Autobahn test suite

What `cargo xtask soak autobahn` found: the suite's client sends valid and invalid frames to an echo server with the reader and the frames of `threadfold-server`.
Left out are binary messages (1.2), which the server refuses with 1003, messages above its limit of 64 KiB (9), and compression (12, 13), which it does not agree on.
";

pub(super) fn run() -> Result<ExitCode> {
    let folder = shell::target()?.join("autobahn");
    let modules = install(&folder)?;
    shell::run(&mut shell::command(
        "cargo build --locked --package threadfold-server --example websocket_echo",
    ))?;
    let echo = shell::target()?.join("debug/examples/websocket_echo");
    let mut echo = Command::new(echo).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let ran = run_suite(&modules, &folder, &mut echo);
    echo.kill()?;
    echo.wait()?;
    let verdicts = ran?;
    let (mut counts, mut failed) = (BTreeMap::<String, usize>::new(), String::new());
    for (case, verdict) in verdicts.as_object().context("there is no verdict")? {
        for kind in ["behavior", "behaviorClose"] {
            let found = verdict[kind].as_str().unwrap_or("none");
            *counts.entry(format!("{kind}: {found}")).or_default() += 1;
            if !PASSED.contains(&found) {
                failed += &format!("case {case}, {kind}: {found}\n");
            }
        }
    }
    let mut found = format!("cases {}\n\n", CASES.join(", "));
    counts.iter().for_each(|(kind, count)| found += &format!("{count:>5} {kind}\n"));
    print!("{found}{failed}");
    let report =
        format!("{TITLE}\nRun on {}, with {PACKAGE}.\n\n```text\n{found}{failed}```\n", commit()?);
    write_report("docs/autobahn-report.md", &report)?;
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// Runs the suite, and returns its verdict on each case.
fn run_suite(modules: &Path, folder: &Path, echo: &mut std::process::Child) -> Result<Value> {
    let mut line = String::new();
    let stdout = echo.stdout.take().context("the echo server has no output")?;
    BufReader::new(stdout).read_line(&mut line)?;
    let address = line.trim().strip_prefix("listening on ").context("it does not listen")?;
    let spec = json!({
        "outdir": folder.join("report"),
        "servers": [{"agent": "threadfold", "url": address}],
        "cases": CASES,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    });
    let file = folder.join("spec.json");
    fs::write(&file, spec.to_string())?;
    let mut command = Command::new(python().context("Python 2.7 is gone")?);
    command.args(["-c", START, "-m", "fuzzingclient", "-s"]).arg(file);
    shell::run(command.env("MODULES", modules).stdout(Stdio::null()))?;
    let index: Value = serde_json::from_slice(&fs::read(folder.join("report/index.json"))?)?;
    Ok(index["threadfold"].clone())
}

/// Installs the suite below a folder, unless that was done before, and returns where its modules are.
fn install(folder: &Path) -> Result<PathBuf> {
    let modules = folder.join("modules");
    if modules.join("autobahntestsuite").exists() {
        return Ok(modules);
    }
    let Some(python) = python() else {
        bail!(
            "the Autobahn test suite needs Python 2.7; `cargo xtask fuzz websocket_frame` does not"
        )
    };
    shell::run(
        Command::new(python)
            .args(["-m", "pip", "install", "--quiet", PACKAGE, "--target"])
            .arg(&modules),
    )?;
    Ok(modules)
}

/// Returns Python 2.7, from the path or from pyenv.
fn python() -> Option<PathBuf> {
    let versions = std::env::home_dir()?.join(".pyenv/versions");
    let of_pyenv = fs::read_dir(versions).into_iter().flatten().filter_map(Result::ok);
    let of_pyenv = of_pyenv.map(|it| it.path().join("bin/python2.7"));
    let mut all = std::iter::once(PathBuf::from("python2.7")).chain(of_pyenv);
    all.find(|it| shell::succeeds(Command::new(it).arg("--version")))
}

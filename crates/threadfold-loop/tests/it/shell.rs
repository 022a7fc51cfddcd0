//! Commands: their output, and that no process is left behind.

use std::env;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;
use threadfold_core::CallKey;
use threadfold_loop::{CALL_VARIABLE, Folder, ToolContext, builtin_tool, end_leftovers};

use crate::calls::{Place, context, describe, until, within};

/// The variable with the folder of the process to kill.
const VICTIM: &str = "THREADFOLD_TEST_VICTIM";

fn run(command: &str) -> String {
    json!({ "command": command }).to_string()
}

async fn call(command: &str, context: &ToolContext) -> String {
    let place = Place::new(&[]);
    describe(place.tool("shell").call(&run(command), context).await)
}

#[tokio::test]
async fn a_command_returns_its_output_verbatim_and_its_exit_code() {
    let key = context("shell-output");
    assert_eq!(
        call("echo out; echo err >&2; echo out", &key).await,
        "out\nerr\nout\n[exit code 0]"
    );
    assert_eq!(call("printf x; exit 3", &key).await, "error: x\n[exit code 3]");
    assert_eq!(call("kill -SEGV $$", &key).await, "error: [killed by signal 11]");
    assert_eq!(call("cat; wc -c <&0", &key).await, "0\n[exit code 0]");
    assert_eq!(call("echo $THREADFOLD_CALL", &key).await, "shell-output\n[exit code 0]");
    assert_eq!(call("(exec 2>/dev/null; : <&3) && echo open", &key).await, "error: [exit code 2]");
    assert_eq!(call("printf '\\377'", &key).await, "\u{fffd}\n[exit code 0]");

    let place = Place::new(&[("here", "")]);
    assert_eq!(place.call("shell", &run("ls")).await, "here\n[exit code 0]");
}

#[tokio::test]
async fn a_command_that_cannot_start_reports_why() {
    let long = "x".repeat(3_000_000);
    let output = call(&format!("echo {long}"), &context("shell-long")).await;
    assert_eq!(
        output,
        "failed: the command is too long for the system; `write` it to a file and run that"
    );
    let output = call("echo \0", &context("shell-nul")).await;
    assert_eq!(output, "failed: a command cannot contain a NUL character");

    let place = Place::new(&[]);
    fs::remove_dir_all(&place.path).unwrap();
    let output = place.call("shell", &run("true")).await;
    assert!(output.starts_with("failed: the command could not be started"), "{output}");
}

#[tokio::test]
async fn long_output_keeps_both_ends() {
    let command = "echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last";
    let before = memory();
    let output = call(command, &context("shell-much")).await;
    let (head, tail) = output.split_once("\n[… 99934476 bytes omitted …]\n").unwrap();
    assert_eq!((head.len(), tail.len()), (32 * 1024, 32 * 1024 + "[exit code 0]".len()));
    assert!(head.starts_with("first\nxxx") && tail.ends_with("xxx\nlast\n[exit code 0]"));
    assert!(memory() < before + 20_000, "{before} {}", memory());
}

/// Returns the peak memory of this process, in kilobytes.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|it| it.starts_with("VmHWM")).unwrap_or("0 0");
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn processes_started_by_a_command_end_with_it() {
    let command = "sleep 1000 & setsid sh -c 'echo > left; sleep 1000' & \
                   while [ ! -e left ]; do :; done; echo begun";
    let output = call(command, &context("shell-after")).await;
    assert_eq!(output, "begun\n[exit code 0]");
    assert_eq!(alive("shell-after"), Vec::<String>::new());
}

#[tokio::test]
async fn a_command_and_its_processes_are_stopped_at_the_deadline() {
    let command = "trap 'echo bye; exit 9' TERM; sleep 1000 & echo begun; wait";
    let output = call(command, &within("shell-late", 300)).await;
    assert!(output.starts_with("error: begun\nbye\n[stopped: timed out"), "{output}");
    assert!(output.contains("exit code 9"), "{output}");
    assert_eq!(alive("shell-late"), Vec::<String>::new());

    let command = r#"{"command":"trap '' TERM; sleep 1000; sleep 1000","timeout_seconds":1}"#;
    let place = Place::new(&[]);
    let output = describe_call(&place, command, "shell-stubborn").await;
    assert!(output.starts_with("error: [stopped: timed out after at most 1 seconds; killed"));
    assert_eq!(alive("shell-stubborn"), Vec::<String>::new());
}

async fn describe_call(place: &Place, arguments: &str, key: &str) -> String {
    describe(place.tool("shell").call(arguments, &context(key)).await)
}

#[tokio::test]
async fn a_command_is_stopped_when_it_is_cancelled() {
    let context = context("shell-cancel");
    let cancel = context.cancel.clone();
    let waiting = tokio::spawn(async move { call("echo begun; sleep 1000", &context).await });
    until(|| alive("shell-cancel").iter().any(|it| it == "sleep")).await;
    cancel.cancel();
    let output = waiting.await.unwrap();
    assert_eq!(output, "error: begun\n[stopped: cancelled; killed by signal 15]");
    assert_eq!(alive("shell-cancel"), Vec::<String>::new());
}

#[tokio::test]
async fn dropping_a_call_ends_its_process_group() {
    let waiting = tokio::spawn(async { call("sleep 1000", &context("shell-drop")).await });
    until(|| alive("shell-drop").iter().any(|it| it == "sleep")).await;
    waiting.abort();
    until(|| alive("shell-drop").is_empty()).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_retry_first_ends_leftover_processes() {
    let mut left = Command::new("sleep").arg("1000").env(CALL_VARIABLE, "shell-again").spawn();
    let left = left.as_mut().unwrap();
    let resumed = ToolContext { is_resume: true, ..context("shell-again") };
    assert_eq!(call("echo again", &resumed).await, "again\n[exit code 0]");
    assert!(left.wait().unwrap().code().is_none());

    let mut other = Command::new("sleep").arg("1000").env(CALL_VARIABLE, "shell-agains").spawn();
    assert_eq!(end_leftovers(&CallKey::from("shell-again")).await, Ok(0));
    other.as_mut().unwrap().kill().unwrap();
    other.unwrap().wait().unwrap();
}

/// Not a test, but a process that another test kills.
#[tokio::test]
async fn process_to_kill() {
    let Some(folder) = env::var_os(VICTIM) else { return };
    let shell = builtin_tool(&Folder::open(folder).unwrap(), "shell").unwrap();
    let command = "sleep 1000 & setsid sleep 1000 & wait";
    shell.call(&run(command), &context("shell-killed")).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_dies_with_its_killed_parent() {
    let place = Place::new(&[]);
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["--exact", "shell::process_to_kill"])
        .env(VICTIM, &place.path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The command's shell, the watcher and two processes.
    let count = |name: &str| alive("shell-killed").iter().filter(|it| *it == name).count();
    until(|| count("sh") == 2 && count("sleep") == 2).await;

    victim.kill().unwrap();
    victim.wait().unwrap();
    until(|| count("sh") == 0 && count("sleep") == 1).await;

    assert_eq!(end_leftovers(&CallKey::from("shell-killed")).await, Ok(1));
    assert_eq!(alive("shell-killed"), Vec::<String>::new());
}

/// Returns the names of the processes that have this key and have not ended.
fn alive(key: &str) -> Vec<String> {
    let mark = format!("{CALL_VARIABLE}={key}");
    let mut names = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let variables = fs::read(entry.path().join("environ")).unwrap_or_default();
        if variables.split(|it| *it == 0).any(|it| it == mark.as_bytes()) {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            names.push(name.trim().to_owned());
        }
    }
    names
}

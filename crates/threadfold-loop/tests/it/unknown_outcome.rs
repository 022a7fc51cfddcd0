//! What is reported and decided when the outcome of a command cannot be determined.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::Command;

use serde_json::json;
use threadfold_loop::{Decision, Effect, Folder, LoopError, Resume, builtin_tool};

use crate::calls::{Place, context, describe, until};
use crate::resuming::killed_after_start;
use crate::support::{self, CountingTool, Model, agent_loop, answer_calls, answer_text, store};

/// The variable with the folder of a separate process.
const VICTIM: &str = "THREADFOLD_TEST_BLIND";
/// Starts a process with a low limit of open files.
const FEW_FILES: [&str; 4] = ["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"];

fn run(command: &str) -> String {
    json!({ "command": command }).to_string()
}

/// Runs a test of this file in a separate process, started by `wrapper`.
fn in_a_process(wrapper: &[&str], name: &str) {
    let place = Place::new(&[("wait", "")]);
    let ended = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg(env::current_exe().unwrap())
        .args(["--exact", &format!("unknown_outcome::{name}"), "--nocapture"])
        .env(VICTIM, &place.path)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// Not a test, but a process whose children nobody waits for.
#[tokio::test]
async fn process_that_ignores_its_children() {
    let Some(folder) = env::var_os(VICTIM) else { return };
    let shell = builtin_tool(&Folder::open(folder).unwrap(), "shell").unwrap();
    let output = describe(shell.call(&run("echo paid"), &context("shell-ignored")).await);
    assert!(
        output.starts_with("unknown: paid\n[the exit status of the command is unavailable"),
        "{output}"
    );
}

#[tokio::test]
async fn a_command_without_a_status_has_an_unknown_outcome_and_its_output() {
    in_a_process(&["env", "--ignore-signal=CHLD"], "process_that_ignores_its_children");
}

/// Opens as many files as this process may.
fn take_all_files() -> Vec<fs::File> {
    std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect()
}

/// Not a test, but a process that can open no files, not even those of `/proc`.
#[tokio::test]
async fn process_without_file_descriptors() {
    let Some(folder) = env::var_os(VICTIM) else { return };
    let folder = std::path::PathBuf::from(folder);
    let shell = builtin_tool(&Folder::open(&folder).unwrap(), "shell").unwrap();
    let command =
        run("echo begun; echo > ready; while [ ! -e go ]; do sleep 0.01; done; echo paid");
    let running = tokio::spawn(async move { shell.call(&command, &context("shell-blind")).await });
    until(|| folder.join("ready").exists()).await;
    let files = take_all_files();
    fs::rename(folder.join("wait"), folder.join("go")).unwrap();
    let output = describe(running.await.unwrap());
    drop(files);
    assert!(
        output.starts_with("begun\npaid\n[exit code 0]\n[processes of this call may be left"),
        "{output}"
    );
}

#[tokio::test]
async fn output_is_reported_even_if_leftovers_cannot_be_checked() {
    in_a_process(&FEW_FILES, "process_without_file_descriptors");
}

/// Not a test, but a process that cannot check for leftover processes.
#[tokio::test]
async fn process_that_resumes_without_proc() {
    if env::var_os(VICTIM).is_none() {
        return;
    }
    let decisions = [
        (Decision::Result("paid then".into()), "tool: paid then"),
        (
            Decision::GiveUp,
            "tool: (error) the call was given up; its outcome is unknown; processes",
        ),
        (Decision::Retry, "processes of this call may be left"),
    ];
    for (decision, words) in decisions {
        let store = store();
        let model = Model::new(vec![answer_calls(&[]), answer_text("done")]);
        let deed = CountingTool::new("deed", Effect::Unsafe);
        let agent_loop = agent_loop(&store, &model).tools([deed.clone() as _]);
        killed_after_start(&agent_loop, &store, &[("c1", Effect::Unsafe)]).await;
        let decisions = BTreeMap::from([("c1".into(), decision)]);
        let files = take_all_files();
        let resumed =
            agent_loop.resume(&"s1".into(), Resume { decisions, ..Resume::default() }).await;
        drop(files);
        let received = match resumed {
            Ok(finished) => support::describe(&finished.history[2..3]),
            Err(LoopError::StillRunning { source, .. }) => source.to_string(),
            Err(error) => panic!("{error:?}"),
        };
        assert!(received.starts_with(words), "{received}");
        assert_eq!(deed.count(), 0);
    }
}

#[tokio::test]
async fn only_a_retry_requires_that_no_process_is_left() {
    in_a_process(&FEW_FILES, "process_that_resumes_without_proc");
}

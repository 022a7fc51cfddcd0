//! What is told and decided when it cannot be found out what became of a command.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::Command;

use serde_json::json;
use threadfold_loop::{Decision, Effect, Folder, LoopError, Resume, builtin_tool};

use crate::calls::{Place, context, told, until};
use crate::resuming::killed_after_start;
use crate::support::{self, Counting, Model, agent_loop, asks, says, store};

/// Where a process of its own finds its folder.
const VICTIM: &str = "THREADFOLD_TEST_BLIND";
/// Begins a process that may open few files.
const FEW_FILES: [&str; 4] = ["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"];

fn run(command: &str) -> String {
    json!({ "command": command }).to_string()
}

/// Runs a test of this file in a process of its own, begun by `wrapper`.
fn in_a_process(wrapper: &[&str], name: &str) {
    let place = Place::new(&[("wait", "")]);
    let ended = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg(env::current_exe().unwrap())
        .args(["--exact", &format!("blind::{name}"), "--nocapture"])
        .env(VICTIM, &place.path)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// Not a test but a process whose children are waited for by nobody.
#[tokio::test]
async fn the_process_that_ignores_its_children() {
    let Some(folder) = env::var_os(VICTIM) else { return };
    let shell = builtin_tool(&Folder::open(folder).unwrap(), "shell").unwrap();
    let told = told(shell.call(&run("echo paid"), &context("shell-ignored")).await);
    assert!(
        told.starts_with("unknown: paid\n[how the command ended cannot be found out"),
        "{told}"
    );
}

#[tokio::test]
async fn of_a_command_that_ran_the_outcome_is_unknown_and_its_output_is_told() {
    in_a_process(&["env", "--ignore-signal=CHLD"], "the_process_that_ignores_its_children");
}

/// Takes all the files that this process may open.
fn take_all_files() -> Vec<fs::File> {
    std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect()
}

/// Not a test but a process that can open no files, not even those of `/proc`.
#[tokio::test]
async fn the_process_that_can_open_nothing() {
    let Some(folder) = env::var_os(VICTIM) else { return };
    let folder = std::path::PathBuf::from(folder);
    let shell = builtin_tool(&Folder::open(&folder).unwrap(), "shell").unwrap();
    let command =
        run("echo begun; echo > ready; while [ ! -e go ]; do sleep 0.01; done; echo paid");
    let running = tokio::spawn(async move { shell.call(&command, &context("shell-blind")).await });
    until(|| folder.join("ready").exists()).await;
    let files = take_all_files();
    fs::rename(folder.join("wait"), folder.join("go")).unwrap();
    let told = told(running.await.unwrap());
    drop(files);
    assert!(told.starts_with("begun\npaid\n[exit code 0]\n[whether processes"), "{told}");
}

#[tokio::test]
async fn output_is_told_though_it_cannot_be_seen_whether_processes_are_left() {
    in_a_process(&FEW_FILES, "the_process_that_can_open_nothing");
}

/// Not a test but a process that cannot see whether something is left of a call.
#[tokio::test]
async fn the_process_that_resumes_blindly() {
    if env::var_os(VICTIM).is_none() {
        return;
    }
    let decisions = [
        (Decision::Result("paid then".into()), "tool: paid then"),
        (
            Decision::GiveUp,
            "tool: (error) the call was given up; its outcome is not known; whether",
        ),
        (Decision::Retry, "whether processes of this call are left cannot be told"),
    ];
    for (decision, words) in decisions {
        let store = store();
        let model = Model::new(vec![asks(&[]), says("done")]);
        let deed = Counting::new("deed", Effect::Unsafe);
        let agent_loop = agent_loop(&store, &model).tools([deed.clone() as _]);
        killed_after_start(&agent_loop, &store, &[("c1", Effect::Unsafe)]).await;
        let decisions = BTreeMap::from([("c1".into(), decision)]);
        let files = take_all_files();
        let resumed =
            agent_loop.resume(&"s1".into(), Resume { decisions, ..Resume::default() }).await;
        drop(files);
        let said = match resumed {
            Ok(finished) => support::told(&finished.history[2..3]),
            Err(LoopError::StillRunning { source, .. }) => source.to_string(),
            Err(error) => panic!("{error:?}"),
        };
        assert!(said.starts_with(words), "{said}");
        assert_eq!(deed.count(), 0);
    }
}

#[tokio::test]
async fn only_a_retry_needs_that_nothing_is_left_of_a_call() {
    in_a_process(&FEW_FILES, "the_process_that_resumes_blindly");
}

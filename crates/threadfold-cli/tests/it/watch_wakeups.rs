//! `threadfold watch` waits for notifications: it does not poll.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::env::TestEnv;
use crate::watch::{WatchProcess, append, find, line};

/// How long an idle program is observed.
const OBSERVED: Duration = Duration::from_millis(1_500);

fn of(session: &str, number: usize, text: &str) -> String {
    line(number, "user", text).replace("\"s1\"", &format!("\"{session}\""))
}

/// Returns how often the threads of a process waited for something. A thread that makes no system
/// call and is not woken does not wait again.
#[cfg(target_os = "linux")]
fn waits(watching: &WatchProcess) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", watching.process_id())).unwrap();
    let waits_of = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    tasks.map(|task| waits_of(task.unwrap())).sum()
}

/// Waits until a process is idle: what it did before takes some time to end.
#[cfg(target_os = "linux")]
fn idle_waits(watching: &WatchProcess) -> u64 {
    let mut last = waits(watching);
    for _ in 0..20 {
        thread::sleep(OBSERVED);
        let now = waits(watching);
        if now == last {
            return now;
        }
        last = now;
    }
    panic!("it is never idle");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_in_which_nothing_happens_costs_nothing() {
    let env = TestEnv::new();
    for session in 0..200 {
        let name = format!("idle{session}");
        env.write(&format!("projects/p{}/{name}.jsonl", session % 7), of(&name, 1, "a question"));
    }
    let watching = WatchProcess::new(&env, &["projects"]);
    find(&watching.said, "watching");
    let before = idle_waits(&watching);
    thread::sleep(OBSERVED);
    assert_eq!(waits(&watching), before, "it was woken although nothing changed");
    append(&env, "projects/p3/idle3.jsonl", &of("idle3", 2, "one more"));
    watching.wait_for("idle3");
    assert_eq!(watching.end().0, Some(0));
}

#[test]
fn a_folder_that_is_created_removed_and_created_again_is_watched() {
    let env = TestEnv::new();
    env.write("projects/p/first.jsonl", of("first", 1, "a question"));
    let watching = WatchProcess::new(&env, &["projects", "--json"]);
    find(&watching.said, "watching");
    for session in ["second", "third"] {
        fs::create_dir_all(env.path("projects/late/deep")).unwrap();
        append(&env, &format!("projects/late/deep/{session}.jsonl"), &of(session, 1, "new"));
        watching.wait_for(&format!(r#""sessionId":"{session}""#));
        append(&env, &format!("projects/late/deep/{session}.jsonl"), &of(session, 2, "more"));
        watching.wait_for("more");
        fs::remove_dir_all(env.path("projects/late")).unwrap();
    }
    assert_eq!(watching.end().0, Some(0));
}

#[test]
fn subagents_files_that_appear_late_are_noticed_although_the_main_file_does_not_change() {
    let env = TestEnv::new();
    env.write("s1.jsonl", line(1, "user", "a question"));
    let watching = WatchProcess::new(&env, &["s1.jsonl", "--json"]);
    watching.wait_for("a question");
    for (number, folder) in ["s1/subagents", "s1/subagents/workflows/wf_1"].iter().enumerate() {
        fs::create_dir_all(env.path(folder)).unwrap();
        let name = format!("{folder}/agent-a{number}.jsonl");
        let words = format!("words of subagent {number}");
        let own = format!(r#""agentId":"a{number}","isSidechain":true,"type""#);
        append(&env, &name, &line(7 + number, "assistant", &words).replacen(r#""type""#, &own, 1));
        watching.wait_for(&words);
        let more = format!("more of subagent {number}");
        append(&env, &name, &line(17 + number, "assistant", &more).replacen(r#""type""#, &own, 1));
        watching.wait_for(&more);
    }
    assert_eq!(watching.end().0, Some(0));
}

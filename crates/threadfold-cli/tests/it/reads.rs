//! Counts what a run of the program reads and writes (Linux only).
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;

/// What a run of the program read and wrote.
pub(crate) struct Work {
    /// The bytes that it read, from files and pipes.
    pub(crate) read: u64,
    /// How often it read.
    pub(crate) reads: u64,
    /// The bytes that it wrote to files and pipes.
    pub(crate) written: u64,
    pub(crate) stdout: String,
}

/// Runs the program to its end, and returns what it read and wrote.
pub(crate) fn work(command: &Command) -> Work {
    work_with(command, r#""$@" > "$out""#)
}

/// Runs the program until it has printed a screen, and returns what it read and wrote.
pub(crate) fn work_of_screen(command: &Command) -> Work {
    work_with(command, r#""$@" | head -n 50 > "$out""#)
}

/// Runs the program by a line of shell script, and returns what it read and wrote.
fn work_with(command: &Command, line: &str) -> Work {
    let folder = tempfile::tempdir().unwrap();
    let [out, counters] = ["out", "counters"].map(|name| folder.path().join(name));
    // The counters of a shell include those of a program that it has waited for.
    let script = format!(
        r#"out=$1; counters=$2; shift 2; {line}; code=$?
        cat /proc/$$/io > "$counters"; exit $code"#
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh"]).args([&out, &counters]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let output = shell.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    let counters = fs::read_to_string(counters).unwrap();
    let counter = |name: &str| -> u64 {
        let value = counters.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap().trim().parse().unwrap()
    };
    Work {
        read: counter("rchar:"),
        reads: counter("syscr:"),
        written: counter("wchar:"),
        stdout: fs::read_to_string(out).unwrap(),
    }
}

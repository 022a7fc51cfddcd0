//! Output to a terminal: colours, width, and the pager.

#![cfg(unix)]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::claude::Transcript;
use crate::env::TestEnv;

/// Runs a command in a terminal of 50 by 10, and returns what the terminal was sent.
pub(crate) fn in_terminal(command: Command) -> String {
    type_in_terminal(command, None)
}

/// Runs a command in a terminal, types a text if there is one, and returns what the terminal was
/// sent.
pub(crate) fn type_in_terminal(mut command: Command, text: Option<&str>) -> String {
    let (controller, terminal) = open_terminal();
    command.stdin(match text {
        Some(_) => Stdio::from(terminal.try_clone().unwrap()),
        None => Stdio::null(),
    });
    run_in(controller, terminal, command, |controller, _| {
        let mut typed = controller;
        typed.write_all(text.unwrap_or_default().as_bytes()).unwrap();
        Watching::Done
    })
}

/// Runs a command in a terminal, and ends it with Ctrl-C once `is_seen` is true of what the
/// terminal was sent so far; returns all of it.
pub(crate) fn interrupted_in_terminal(
    mut command: Command,
    mut is_seen: impl FnMut(&str) -> bool,
) -> String {
    let (controller, terminal) = open_terminal();
    command.stdin(Stdio::null());
    run_in(controller, terminal, command, |_, sent| match is_seen(sent) {
        true => Watching::Interrupt,
        false => Watching::Continue,
    })
}

/// What to do after something was sent to a terminal.
#[derive(PartialEq)]
enum Watching {
    /// Ask again.
    Continue,
    /// Wait for the end.
    Done,
    /// End the command with Ctrl-C, and wait for the end.
    Interrupt,
}

/// Returns both sides of a terminal of 50 by 10.
fn open_terminal() -> (File, File) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let size = Winsize { ws_row: 10, ws_col: 50, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&controller, size).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
    let terminal = OpenOptions::new().read(true).write(true).open(name).unwrap();
    (File::from(controller), terminal)
}

/// Runs a command until it ends; `watch` is asked at first, and after everything that was sent.
fn run_in(
    mut controller: File,
    terminal: File,
    mut command: Command,
    mut watch: impl FnMut(&File, &str) -> Watching,
) -> String {
    command.stdout(terminal.try_clone().unwrap()).stderr(terminal);
    let mut child = command.spawn().unwrap();
    // The terminal is closed once its other side is dropped.
    drop(command);
    let (mut sent, mut chunk) = (Vec::new(), [0; 4096]);
    let mut watching = Watching::Continue;
    loop {
        if watching == Watching::Continue {
            watching = watch(&controller, &String::from_utf8_lossy(&sent));
            if watching == Watching::Interrupt {
                kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            }
        }
        match controller.read(&mut chunk) {
            Ok(count @ 1..) => sent.extend_from_slice(&chunk[..count]),
            _ => break,
        }
    }
    let code = child.wait().unwrap().code();
    format!("exit {code:?}\n{}", String::from_utf8_lossy(&sent).replace("\r\n", "\n"))
}

fn command(env: &TestEnv, arguments: &[&str], pager: &str) -> Command {
    let mut command = env.command(arguments);
    command.env("PAGER", pager).env("TERM", "xterm");
    command
}

fn long_session() -> TestEnv {
    let env = TestEnv::new();
    Transcript::new("long").prompt("word ".repeat(200)).keep(&env, "p");
    Transcript::new("short").prompt("word").keep(&env, "p");
    env
}

#[test]
fn long_output_is_paged_and_short_output_is_not() {
    let env = long_session();
    let long = in_terminal(command(&env, &["view", "long"], "sed s/^/paged:/"));
    assert!(
        long.contains("paged:") && long.lines().skip(1).all(|it| it.starts_with("paged:")),
        "{long}"
    );
    assert!(long.contains("\u{1b}[1m"), "colours go to the pager: {long}");
    let short = in_terminal(command(&env, &["view", "short"], "sed s/^/paged:/"));
    assert!(short.contains("word") && !short.contains("paged:"), "{short}");
    let never = in_terminal(command(&env, &["view", "long", "--no-pager"], "sed s/^/paged:/"));
    assert!(never.contains("word") && !never.contains("paged:"), "{never}");
}

#[test]
fn a_pager_that_is_closed_early_is_no_error() {
    let env = long_session();
    Transcript::new("huge").prompt("word\n".repeat(100_000)).keep(&env, "p");
    assert_eq!(in_terminal(command(&env, &["view", "huge"], "true")), "exit Some(0)\n");
}

#[test]
fn without_a_pager_everything_is_printed() {
    let env = long_session();
    for pager in ["", "no-such-pager"] {
        let shown = in_terminal(command(&env, &["view", "long"], pager));
        assert!(shown.starts_with("exit Some(0)") && shown.contains("word"), "{shown}");
    }
}

#[test]
fn width_comes_from_the_terminal_and_colours_from_the_environment() {
    let env = long_session();
    let mut plain = command(&env, &["view", "long", "--no-pager"], "");
    plain.env("NO_COLOR", "1");
    let shown = in_terminal(plain);
    assert!(!shown.contains('\u{1b}'), "{shown}");
    let widest = shown.lines().map(|line| line.chars().count()).max();
    assert_eq!(widest, Some(50), "{shown}");
}

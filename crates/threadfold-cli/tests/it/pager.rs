//! What happens in a terminal: colours, its width, and a pager when there is much to read.

#![cfg(unix)]

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::claude::Transcript;
use crate::env::TestEnv;

/// Runs a command in a terminal of 50 by 10, and returns what the terminal was sent.
fn in_terminal(mut command: Command) -> String {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let size = Winsize { ws_row: 10, ws_col: 50, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&controller, size).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
    let terminal = OpenOptions::new().read(true).write(true).open(name).unwrap();
    command.stdin(Stdio::null()).stdout(terminal.try_clone().unwrap()).stderr(terminal);
    let mut child = command.spawn().unwrap();
    // The terminal is closed once nobody holds its other side.
    drop(command);
    let mut sent = Vec::new();
    let mut reader = File::from(controller);
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = reader.read(&mut chunk) {
        sent.extend_from_slice(&chunk[..count]);
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
fn what_is_long_goes_through_the_pager_and_what_is_short_does_not() {
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
fn without_a_pager_all_is_printed() {
    let env = long_session();
    for pager in ["", "no-such-pager"] {
        let shown = in_terminal(command(&env, &["view", "long"], pager));
        assert!(shown.starts_with("exit Some(0)") && shown.contains("word"), "{shown}");
    }
}

#[test]
fn the_terminal_says_how_wide_and_the_person_whether_there_are_colours() {
    let env = long_session();
    let mut plain = command(&env, &["view", "long", "--no-pager"], "");
    plain.env("NO_COLOR", "1");
    let shown = in_terminal(plain);
    assert!(!shown.contains('\u{1b}'), "{shown}");
    let widest = shown.lines().map(|line| line.chars().count()).max();
    assert_eq!(widest, Some(50), "{shown}");
}

//! Runs other programs in the workspace's root, and reports which one failed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Returns the workspace's root folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("`xtask` is a folder of the workspace")
}

/// Returns the folder that cargo builds in.
pub(crate) fn target() -> Result<PathBuf> {
    #[derive(Deserialize)]
    struct Metadata {
        target_directory: PathBuf,
    }
    let json = read(&mut command("cargo metadata --format-version 1 --no-deps --locked"))?;
    let metadata: Metadata =
        serde_json::from_str(&json).context("cannot parse the output of `cargo metadata`")?;
    Ok(metadata.target_directory)
}

/// Returns a command of the words of `line`, to be run in the workspace's root.
///
/// There is no quoting: a word with a space in it is added to the command by the caller.
pub(crate) fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().expect("a command line names a program"));
    command.args(words).current_dir(root());
    command
}

/// Runs a command with inherited stdio.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| unstartable(command))?;
    ensure_success(command, status)
}

/// Runs a command with inherited stdio, and returns its exit code.
///
/// A command killed by a signal has none, which is an error.
pub(crate) fn exit_code(command: &mut Command) -> Result<u8> {
    let status = command.status().with_context(|| unstartable(command))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.with_context(|| format!("`{}` ended with {status}", spelt(command)))
}

/// Runs a command, and returns its exit code and what it wrote to stdout.
pub(crate) fn output(command: &mut Command) -> Result<(u8, String)> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| unstartable(command))?;
    let code = output.status.code().and_then(|code| u8::try_from(code).ok());
    let code =
        code.with_context(|| format!("`{}` ended with {}", spelt(command), output.status))?;
    let text = String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` wrote something other than UTF-8", spelt(command)))?;
    Ok((code, text))
}

/// Runs a command, and returns what it wrote to stdout.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().with_context(|| unstartable(command))?;
    ensure_success(command, output.status)?;
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` wrote something other than UTF-8", spelt(command)))
}

/// Runs a command without output, and returns whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn ensure_success(command: &Command, status: ExitStatus) -> Result<()> {
    ensure!(status.success(), "`{}` ended with {status}", spelt(command));
    Ok(())
}

fn unstartable(command: &Command) -> String {
    format!("`{}` cannot be started", spelt(command))
}

fn spelt(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = run(&mut command("no-such-program --flag")).unwrap_err();
        assert_snapshot!(error, @"`no-such-program --flag` cannot be started");
    }

    #[test]
    fn an_exit_code_is_passed_on() {
        let mut failing = command("cargo no-such-task");
        assert_eq!(exit_code(failing.stderr(Stdio::null())).unwrap(), 101);
    }

    #[test]
    fn a_program_that_fails_is_named_with_its_exit_status() {
        let error = run(command("cargo no-such-task").stderr(Stdio::null())).unwrap_err();
        assert!(error.to_string().starts_with("`cargo no-such-task` ended with exit"));
    }
}

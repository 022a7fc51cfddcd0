//! Brings the pinned package from npm, once.

use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{FlockOperation, flock};

use super::ClaudeCode;
use crate::TestkitError;

/// Returns the path of the binary, or why there is none.
pub(super) fn find(agents: &Path) -> Result<Result<PathBuf, String>, TestkitError> {
    let name = format!("claude-agent-sdk-{}", ClaudeCode::PACKAGE_VERSION);
    let folder = agents.join(&name);
    if let Some(binary) = binary(&folder) {
        return Ok(Ok(binary));
    }

    fs::create_dir_all(agents)
        .map_err(TestkitError::io(format!("create `{}`", agents.display())))?;
    let lock = agents.join(format!("{name}.lock"));
    let _held = lock_file(&lock)
        .map_err(TestkitError::io(format!("take the lock `{}`", lock.display())))?;

    // Another process may have installed it while this one waited.
    if let Some(binary) = binary(&folder) {
        return Ok(Ok(binary));
    }
    install(agents, &folder).map_err(TestkitError::io(format!(
        "install `{}` into `{}`",
        ClaudeCode::PACKAGE,
        folder.display()
    )))
}

/// Returns the binary of whichever platform npm chose.
fn binary(folder: &Path) -> Option<PathBuf> {
    let packages = folder.join("node_modules").join("@anthropic-ai");
    let entries = fs::read_dir(packages).ok()?;
    entries.filter_map(Result::ok).map(|it| it.path().join("claude")).find(|it| it.is_file())
}

/// Takes a lock that the system gives back when the file is closed, even by a crash.
fn lock_file(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Installs beside `folder` and moves it there when it is whole.
fn install(agents: &Path, folder: &Path) -> io::Result<Result<PathBuf, String>> {
    let work = tempfile::Builder::new().prefix(".installing-").tempdir_in(agents)?;
    let package = work.path().join("package");
    fs::create_dir(&package)?;
    fs::write(package.join("package.json"), "{ \"private\": true }\n")?;

    match npm(work.path(), &package).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Err("there is no `npm` on the path".to_owned()));
        }
        Err(error) => return Err(error),
        Ok(output) if !output.status.success() => {
            return Ok(Err(reason(&String::from_utf8_lossy(&output.stderr))));
        }
        Ok(_) => {}
    }
    if binary(&package).is_none() {
        let (os, arch) = (env::consts::OS, env::consts::ARCH);
        return Ok(Err(format!("it has no binary for {os} on {arch}")));
    }

    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::rename(&package, folder)?;
    binary(folder).map(Ok).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns the command that installs into `package`, with nothing of the machine but the path.
///
/// It is run inside the folder, and not with `--prefix`, which would hide npm's own global
/// configuration and with it the certificates of a company's proxy.
fn npm(home: &Path, package: &Path) -> Command {
    let mut command = Command::new("npm");
    command
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .current_dir(package)
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
        .args(["--no-update-notifier", "--loglevel=error"])
        .args(["--fetch-retries=1", "--fetch-retry-mintimeout=1000"])
        .arg(format!("{}@{}", ClaudeCode::PACKAGE, ClaudeCode::PACKAGE_VERSION));
    command
}

/// Returns the lines of npm's complaint that say something, as one.
fn reason(stderr: &str) -> String {
    let lines: Vec<_> = stderr
        .lines()
        .filter_map(|it| it.strip_prefix("npm error "))
        .filter(|it| !it.starts_with("A complete log"))
        .take(3)
        .collect();
    format!("npm cannot install it: {}", lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_what_npm_said_without_the_noise() {
        let stderr = "npm warn something\nnpm error code ENOTFOUND\n\
                      npm error network no such host\nnpm error A complete log of this run\n";
        assert_eq!(reason(stderr), "npm cannot install it: code ENOTFOUND; network no such host");
    }
}

//! Installs a pinned package from npm, once.

use std::{
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::{FlockOperation, flock};

use crate::TestkitError;

/// Whether a real agent can run here.
#[derive(Debug)]
pub enum Availability<A> {
    /// It can run.
    Found(A),
    /// It cannot run, and why: no npm, no registry, no binary for this platform.
    Unavailable(String),
}

/// A package that contains the binary of an agent.
pub(crate) struct Package<'a> {
    /// Its npm name.
    pub(crate) name: &'a str,
    /// Its version.
    pub(crate) version: &'a str,
    /// Its folder, without the version.
    pub(crate) folder: &'a str,
    /// Finds the binary in the module of the platform that npm chose.
    pub(crate) binary: fn(modules: &Path) -> Option<PathBuf>,
}

impl Package<'_> {
    fn binary(&self, folder: &Path) -> Option<PathBuf> {
        (self.binary)(&folder.join("node_modules"))
    }
}

/// Finds the binary of a package under `agents`, or installs it there.
///
/// If several processes call this at once, one installs and the others wait.
pub(crate) fn find(
    package: &Package<'_>,
    agents: &Path,
) -> Result<Availability<PathBuf>, TestkitError> {
    let name = format!("{}-{}", package.folder, package.version);
    let folder = agents.join(&name);
    if let Some(binary) = package.binary(&folder) {
        return Ok(Availability::Found(binary));
    }

    fs::create_dir_all(agents)
        .map_err(TestkitError::io(format!("create `{}`", agents.display())))?;
    let lock = agents.join(format!("{name}.lock"));
    let _held = lock_file(&lock)
        .map_err(TestkitError::io(format!("take the lock `{}`", lock.display())))?;

    // Another process may have installed it while this one waited.
    if let Some(binary) = package.binary(&folder) {
        return Ok(Availability::Found(binary));
    }
    let doing = format!("install `{}` into `{}`", package.name, folder.display());
    install(package, agents, &folder).map_err(TestkitError::io(doing))
}

/// Takes a lock that the system releases when the file is closed, even by a crash.
fn lock_file(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Installs into a temporary folder, and renames it to `folder` when it is complete.
fn install(
    package: &Package<'_>,
    agents: &Path,
    folder: &Path,
) -> io::Result<Availability<PathBuf>> {
    let work = tempfile::Builder::new().prefix(".installing-").tempdir_in(agents)?;
    let made = work.path().join("package");
    fs::create_dir(&made)?;
    fs::write(made.join("package.json"), "{ \"private\": true }\n")?;

    match npm(package, work.path(), &made).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Availability::Unavailable("there is no `npm` on the path".to_owned()));
        }
        Err(error) => return Err(error),
        Ok(output) if !output.status.success() => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Ok(Availability::Unavailable(reason(&stderr)));
        }
        Ok(_) => {}
    }
    if package.binary(&made).is_none() {
        let (os, arch) = (env::consts::OS, env::consts::ARCH);
        return Ok(Availability::Unavailable(format!("it has no binary for {os} on {arch}")));
    }

    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::rename(&made, folder)?;
    package.binary(folder).map(Availability::Found).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns the command that installs into `folder`, with only `PATH` of the machine's environment.
///
/// It runs inside the folder instead of with `--prefix`, which would hide npm's own global
/// configuration, and with it the certificates of a company's proxy.
fn npm(package: &Package<'_>, home: &Path, folder: &Path) -> Command {
    let mut command = Command::new("npm");
    command
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .current_dir(folder)
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
        .args(["--no-update-notifier", "--loglevel=error"])
        .args(["--fetch-retries=1", "--fetch-retry-mintimeout=1000"])
        .arg(format!("{}@{}", package.name, package.version));
    command
}

/// Returns the relevant lines of npm's error, joined.
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
    fn the_reason_is_npms_error_without_log_noise() {
        let stderr = "npm warn something\nnpm error code ENOTFOUND\n\
                      npm error network no such host\nnpm error A complete log of this run\n";
        assert_eq!(reason(stderr), "npm cannot install it: code ENOTFOUND; network no such host");
    }
}

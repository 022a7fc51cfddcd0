//! Programs that do similar work over the same files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::measure::{Cost, Reader, run};
use crate::table::{Row, print_row};

/// The last version without a native program of its own, which the registry may lack.
const CCUSAGE: &str = "ccusage@18.0.11";
const AGENTSVIEW: &str = "agentsview==0.46.1";

/// Returns all files below a folder, with their sizes.
pub(crate) fn files(folder: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut pending = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => pending.push(entry.path()),
                false => files.push((entry.path(), entry.metadata()?.len())),
            }
        }
    }
    files.sort();
    Ok(files)
}

pub(crate) fn ls(folder: &Path) -> Command {
    let mut command = Command::new("ls");
    command.arg("-lR").arg(folder);
    command
}

pub(crate) fn cat(files: &[(PathBuf, u64)]) -> Command {
    let mut command = Command::new("cat");
    command.args(files.iter().map(|it| &it.0));
    command
}

/// Compresses every file, and returns the cost and the size of the result.
pub(crate) fn zstd(files: &[(PathBuf, u64)], folder: &Path) -> io::Result<(Cost, u64)> {
    let out = folder.join("zstd");
    fs::create_dir_all(&out)?;
    let mut command = Command::new("zstd");
    command.args(["-3", "-q", "-f", "-T1", "--output-dir-mirror"]).arg(&out);
    let cost = run(command.args(files.iter().map(|it| &it.0)), Reader::All)?;
    let packed = self::files(&out)?.iter().map(|it| it.1).sum();
    fs::remove_dir_all(out)?;
    Ok((cost, packed))
}

/// Folds every file on its own, without a store.
pub(crate) fn fold(files: &[(PathBuf, u64)]) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--fold-files").args(files.iter().map(|it| &it.0));
    Ok(command)
}

/// Measures programs that people use today, as far as the registries have them.
pub(crate) fn measure_others(folder: &Path, claude: &Path) -> io::Result<()> {
    for (name, cost) in [
        ("ccusage, daily", ccusage(folder, claude)),
        ("agentsview, sync", agentsview(folder, claude)),
    ] {
        match cost {
            Ok(cost) => print_row(&Row::new(name, cost)),
            Err(error) => println!("{name}: not measured: {error}"),
        }
    }
    Ok(())
}

fn ccusage(folder: &Path, claude: &Path) -> io::Result<Cost> {
    let prefix = folder.join("ccusage");
    install(
        Command::new("npm").args(["install", "--silent", "--prefix"]).arg(&prefix).arg(CCUSAGE),
    )?;
    let mut command = Command::new(prefix.join("node_modules/.bin/ccusage"));
    command.args(["daily", "--offline", "--json"]).env("CLAUDE_CONFIG_DIR", claude);
    run(&mut command, Reader::All)
}

fn agentsview(folder: &Path, claude: &Path) -> io::Result<Cost> {
    let venv = folder.join("agentsview");
    install(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    install(Command::new(venv.join("bin/pip")).args(["install", "--quiet", AGENTSVIEW]))?;
    let data = folder.join("agentsview-data");
    if data.exists() {
        fs::remove_dir_all(&data)?;
    }
    let mut command = Command::new(venv.join("bin/agentsview"));
    command.arg("sync").env("CLAUDE_PROJECTS_DIR", claude.join("projects"));
    // Without a server in the background, whose cost would not be counted and which would stay.
    command.env("AGENTSVIEW_NO_DAEMON", "1");
    command.env("AGENTSVIEW_DATA_DIR", data).env("HOME", folder);
    run(&mut command, Reader::All)
}

fn install(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

//! `threadfold restore`: writes a session's files back to the agent's folder.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use threadfold_engine::is_below_session_folder;
use threadfold_fold::{SourceRole, SourceSpec};

use threadfold_export::{SourceWriter, UsedPaths, WrittenFile, below, beside};

use crate::error::{CommandError, print_note};
use crate::export::need_files;
use crate::printable::printable;
use crate::store::StoreArgs;
use crate::surroundings::restorable_folders;
use crate::unfinished::unfinished_path;

/// Restore a session's files to where the agent reads them
///
/// Each file goes back to its original path, if that is in a folder of its agent on this machine, or
/// into the folder given with `--to`. If any existing
/// file differs, nothing is written without `--force`, which keeps the old file as `.bak`.
/// Sessions of an agent's database cannot be written back into it.
#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// Session to restore: its id or a prefix of it
    session: String,
    /// Write the files into this folder instead
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Overwrite files that differ, and keep the old ones as `.bak`
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &RestoreArgs) -> Result<(), CommandError> {
    let store = args.store.open_to_read()?;
    let entry = store.find(&args.session)?;
    need_files(&store, &entry)?;
    let mut taken = UsedPaths::default();
    let listed = store.unfinished_files();
    let mut staged = Vec::new();
    let scribe = SourceWriter::new(|spec| {
        let target = match (&args.to, &spec.path) {
            (Some(folder), _) => below(folder, &spec.name, &mut taken)?,
            (None, None) => {
                let name = &spec.name;
                print_note(format_args!(
                    "skipped `{name}`, which has no original path: use `--to`"
                ));
                return Ok(None);
            }
            (None, Some(path)) => origin(spec, path)?,
        };
        let number = staged.len();
        let unfinished = unfinished_path(&target, Some(number));
        listed.add(&unfinished);
        staged.push((unfinished.clone(), target));
        Ok(Some(unfinished))
    });
    let shared = store.shared();
    let written = store.wait(scribe.write_all(&*shared, &entry.session));
    let written = written.map_err(CommandError::from);
    let restored = written.and_then(|written| match written.is_empty() {
        true => Err(CommandError::new(
            anyhow!("the session was not read from a file"),
            "use `--to FOLDER` to write what was read from a pipe",
        )),
        false => put_in_place(args, &written, &staged),
    });
    for (unfinished, _) in &staged {
        // Files that were moved into place are gone from here.
        fs::remove_file(unfinished).ok();
    }
    restored
}

/// Returns the original path of a file, if it can be restored there.
fn origin(spec: &SourceSpec, path: &str) -> io::Result<PathBuf> {
    let refused = |why: &str| io::Error::new(io::ErrorKind::Unsupported, why.to_owned());
    if spec.kind == SourceRole::Rows {
        return Err(refused(
            "rows cannot be written back into a database; `--to FOLDER` writes them as a file",
        ));
    }
    let path = PathBuf::from(path);
    let is_plain = |it: Component<'_>| !matches!(it, Component::ParentDir | Component::CurDir);
    // A store may come from another machine, so its paths are untrusted.
    let is_agents = is_below_any(&path, &restorable_folders());
    let has_name = path.file_name() == Path::new(&spec.name).file_name();
    let is_known = path.extension().is_some_and(|it| it == "jsonl" || it == "json" || it == "sse");
    let is_kind = is_known || (spec.kind == SourceRole::Attached && is_below_session_folder(&path));
    let is_plain = path.is_absolute() && path.components().all(is_plain);
    if !is_plain || !is_agents || !has_name || !is_kind {
        return Err(refused(
            "its original path is not in an agent's folder on this machine; choose one with `--to FOLDER`",
        ));
    }
    Ok(path)
}

/// Returns whether a path is below one of the folders, also after its links are followed.
fn is_below_any(path: &Path, folders: &[PathBuf]) -> bool {
    // The file and some of its folders may not exist yet; what exists decides where it ends up.
    let existing = path.ancestors().skip(1).find(|it| it.exists());
    let real = existing.and_then(|it| fs::canonicalize(it).ok());
    folders.iter().any(|folder| {
        let is_named = path.starts_with(folder) && path != folder;
        // If the agent's folder does not exist, no link in it can lead elsewhere.
        let is_real = match (&real, fs::canonicalize(folder)) {
            (Some(real), Ok(folder)) => real.starts_with(folder),
            (_, Err(_)) => true,
            (None, Ok(_)) => false,
        };
        is_named && is_real
    })
}

/// What to do with a file.
enum Step {
    Nothing,
    Make,
    Replace,
}

/// Moves all files into place, after checking that each one may be.
fn put_in_place(
    args: &RestoreArgs,
    written: &[WrittenFile],
    staged: &[(PathBuf, PathBuf)],
) -> Result<(), CommandError> {
    let mut steps = Vec::new();
    let mut differing = Vec::new();
    for (index, (file, (_, target))) in written.iter().zip(staged).enumerate() {
        // If two sources have the same path, the later one wins.
        if staged[index + 1..].iter().any(|(_, later)| later == target) {
            continue;
        }
        let step = match compare(&file.path, target).map_err(|error| unwritable(target, error))? {
            None => Step::Make,
            Some(true) => Step::Nothing,
            Some(false) => {
                differing.push(target);
                Step::Replace
            }
        };
        steps.push((step, &file.path, target));
    }
    if let (Some(first), false) = (differing.first(), args.force) {
        return Err(CommandError::new(
            match differing.len() {
                1 => anyhow!("`{}` already exists and differs", first.display()),
                count => {
                    anyhow!("`{}` and {} more already exist and differ", first.display(), count - 1)
                }
            },
            "nothing was changed; use `--force` to overwrite, which keeps the old files as `.bak`",
        ));
    }
    let mut out = io::stdout().lock();
    for (step, unfinished, target) in steps {
        let what = match step {
            Step::Nothing => "unchanged",
            Step::Make => "restored",
            Step::Replace => {
                let backup = back_up(target).map_err(|error| unwritable(target, error))?;
                print_note(format_args!("kept `{}`", backup.display()));
                "replaced"
            }
        };
        if !matches!(step, Step::Nothing) {
            rename(unfinished, target).map_err(|error| unwritable(target, error))?;
        }
        writeln!(out, "{what}  {}", printable(&target.display().to_string()))?;
    }
    Ok(())
}

/// Returns whether two files are equal; `None` if the second does not exist.
fn compare(one: &Path, other: &Path) -> io::Result<Option<bool>> {
    let mut other = match File::open(other) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut one = File::open(one)?;
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(Some(false));
    }
    let (mut left, mut right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(Some(true));
        }
        other.read_exact(&mut right[..count])?;
        if left[..count] != right[..count] {
            return Ok(Some(false));
        }
    }
}

/// Renames a file to an unused name.
fn back_up(target: &Path) -> io::Result<PathBuf> {
    let endings = (1..).map(|number| match number {
        1 => ".bak".to_owned(),
        number => format!(".bak{number}"),
    });
    for ending in endings {
        let backup = beside(target, &ending);
        if fs::symlink_metadata(&backup).is_err() {
            fs::rename(target, &backup)?;
            return Ok(backup);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn rename(unfinished: &Path, target: &Path) -> io::Result<()> {
    fs::rename(unfinished, target)?;
    match target.parent() {
        Some(folder) if cfg!(unix) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

fn unwritable(path: &Path, error: io::Error) -> CommandError {
    let what = format!("`{}` cannot be restored", path.display());
    let hint = "check that the folder is writable, or choose another with `--to`";
    CommandError::new(anyhow::Error::new(error).context(what), hint)
}

//! `threadfold restore`: a session's files back to where the agent finds them.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use threadfold_engine::is_below_session_folder;
use threadfold_fold::{SourceRole, SourceSpec};

use crate::error::{CommandError, say};
use crate::export::{Scribe, Taken, Written, below, beside, need_files};
use crate::printable::printable;
use crate::store::StoreArgs;

/// Put a session's files back where the agent finds them
///
/// Each goes to where it came from, or into a folder that is given. A file that is there and
/// differs is not touched, and then nothing else is, unless `--force` is given; then the old one
/// stays beside it as `.bak`. Sessions of OpenCode's database cannot be put back into it.
#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// Session to restore: its id or the beginning of one
    session: String,
    /// Put the files into this folder instead
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Replace files that differ, and keep the old ones as `.bak`
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &RestoreArgs) -> Result<(), CommandError> {
    let store = args.store.open_to_read()?;
    let entry = store.find(&args.session)?;
    need_files(&store, &entry)?;
    let mut taken = Taken::default();
    let mut staged = Vec::new();
    let scribe = Scribe::new(|spec| {
        let target = match (&args.to, &spec.path) {
            (Some(folder), _) => below(folder, &spec.name, &mut taken)?,
            (None, None) => {
                let name = &spec.name;
                say(format_args!("left out `{name}`, which came from no file: `--to` has it"));
                return Ok(None);
            }
            (None, Some(path)) => origin(spec, path)?,
        };
        let number = staged.len();
        let unfinished = beside(&target, &format!(".{}.{number}.unfinished", std::process::id()));
        staged.push((unfinished.clone(), target));
        Ok(Some(unfinished))
    });
    let written = scribe.write_all(&store, &entry);
    let restored = written.and_then(|written| match written.is_empty() {
        true => Err(CommandError::new(
            anyhow!("nothing of the session came from a file"),
            "`--to FOLDER` writes what came by a pipe",
        )),
        false => put_in_place(args, &written, &staged),
    });
    for (unfinished, _) in &staged {
        // What has its place by now is not there any more.
        fs::remove_file(unfinished).ok();
    }
    restored
}

/// Returns where a file came from, if it can go back there.
fn origin(spec: &SourceSpec, path: &str) -> io::Result<PathBuf> {
    let refused = |why: &str| io::Error::new(io::ErrorKind::Unsupported, why.to_owned());
    if spec.kind == SourceRole::Rows {
        return Err(refused(
            "rows cannot be put back into a database; `--to` writes them as a file",
        ));
    }
    let path = PathBuf::from(path);
    let is_plain = |it: Component<'_>| !matches!(it, Component::ParentDir | Component::CurDir);
    // A store may come from anywhere, and so may the paths in it.
    let has_name = path.file_name() == Path::new(&spec.name).file_name();
    let is_known = path.extension().is_some_and(|it| it == "jsonl" || it == "json" || it == "sse");
    let is_kind = is_known || (spec.kind == SourceRole::Attached && is_below_session_folder(&path));
    if !path.is_absolute() || !path.components().all(is_plain) || !has_name || !is_kind {
        return Err(refused(
            "it came from no place that an agent keeps files in; `--to` says where",
        ));
    }
    Ok(path)
}

/// What is done with a file.
enum Step {
    Nothing,
    Make,
    Replace,
}

/// Gives all files their names, once it is clear that each may have its own.
fn put_in_place(
    args: &RestoreArgs,
    written: &[Written],
    staged: &[(PathBuf, PathBuf)],
) -> Result<(), CommandError> {
    let mut steps = Vec::new();
    let mut differing = Vec::new();
    for (index, (file, (_, target))) in written.iter().zip(staged).enumerate() {
        // Two sources may have come from one place, one after the other: the latter counts.
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
                1 => anyhow!("`{}` is there and differs", first.display()),
                count => {
                    anyhow!("`{}` and {} more are there and differ", first.display(), count - 1)
                }
            },
            "nothing was touched; `--force` replaces it, and keeps the old one as `.bak`",
        ));
    }
    let mut out = io::stdout().lock();
    for (step, unfinished, target) in steps {
        let what = match step {
            Step::Nothing => "unchanged",
            Step::Make => "restored",
            Step::Replace => {
                let backup = keep_aside(target).map_err(|error| unwritable(target, error))?;
                say(format_args!("kept `{}`", backup.display()));
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

/// Says whether two files have the same bytes; nothing if the second is not there.
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

/// Gives a file another name, under which none is there.
fn keep_aside(target: &Path) -> io::Result<PathBuf> {
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
    let hint = "look whether the folder may be written to; `--to` puts the files elsewhere";
    CommandError::new(anyhow::Error::new(error).context(what), hint)
}

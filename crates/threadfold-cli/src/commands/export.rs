//! `threadfold export`: sessions out of the store, as they came or as what they mean.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde::Serialize;
use threadfold_core::{ConversationState, SessionId, SessionMetadata};
use threadfold_engine::{load_within, originals, read_on};
use threadfold_fold::Slices;
use threadfold_store::SessionEntry;

use crate::error::{CommandError, say};
use crate::export::{
    Output, Scribe, Written, file_name, has_files, lone_file, move_into, need_files, write_markdown,
};
use crate::printable::write_json;
use crate::store::{OpenStore, StoreArgs, elsewhere, load_stored, lost_records};
use crate::view::count;

/// Write a session from the store: its files as they were, its events, its state, or Markdown
///
/// Without a session, all of them are written into a folder.
#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Session to export: its id or the beginning of one
    session: Option<String>,
    /// What to write
    #[arg(long, value_name = "FORMAT", default_value = "original")]
    format: ExportFormat,
    /// Write to this file, or into this folder; without, to standard output
    #[arg(long, short, value_name = "FILE|FOLDER", required_unless_present = "session")]
    output: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// Write the files of a damaged session as far as they can be read, and tell what is missing
    #[arg(long, requires = "session", requires = "output")]
    salvage: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// What is written
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// The files that the agent wrote, byte for byte
    Original,
    /// Threadfold's own events, one a line, each with the record it came from
    Events,
    /// The state that they end in: blocks, subagents and metadata
    Json,
    /// A document for people
    Markdown,
}

pub(crate) fn run(args: &ExportArgs) -> Result<(), CommandError> {
    let store = args.store.open_to_read()?;
    match (&args.session, &args.output) {
        (Some(session), output) => {
            let entry = store.find(session)?;
            let lost = lost_records(&entry);
            lost.iter().for_each(say);
            export(args, &store, &entry, output.as_deref())?;
            if lost.is_none() { Ok(()) } else { Err(CommandError::No) }
        }
        (None, Some(folder)) => export_all(args, &store, folder),
        (None, None) => Err(needs_folder("all sessions are more than one file")),
    }
}

fn export_all(args: &ExportArgs, store: &OpenStore, folder: &Path) -> Result<(), CommandError> {
    let entries = store.sessions()?;
    if entries.is_empty() {
        say("the store is empty");
        return Err(CommandError::No);
    }
    let mut failed = Vec::new();
    for entry in &entries {
        if let Some(lost) = lost_records(entry) {
            say(format_args!("session `{}`: {lost}", entry.session));
        }
        match export_one(args, store, entry, folder) {
            Err(CommandError::Failed { error, .. }) => {
                say(format_args!("session `{}`: {error:#}", entry.session));
                failed.push(entry.session.to_string());
            }
            other => other?,
        }
    }
    match (failed.len(), failed.first()) {
        (_, None) => Ok(()),
        (count, Some(first)) => Err(CommandError::new(
            anyhow!("{count} of {} sessions were not exported, `{first}` first", entries.len()),
            "the others are written; `threadfold doctor` tells what is damaged",
        )),
    }
}

fn export_one(
    args: &ExportArgs,
    store: &OpenStore,
    entry: &SessionEntry,
    folder: &Path,
) -> Result<(), CommandError> {
    let name = file_name(entry.session.as_str());
    match args.format {
        ExportFormat::Original if !has_files(store, entry)? => {
            let session = &entry.session;
            say(format_args!("left out `{session}`, which has no files: `--format events` has it"));
            Ok(())
        }
        ExportFormat::Original => export_files(args, store, entry, &folder.join(name)),
        format => {
            let path = folder.join(format!("{name}.{}", format.ending()));
            export_to(store, entry, format, Output::create(&path, args.force)?)?;
            say(format_args!("wrote `{}`", path.display()));
            Ok(())
        }
    }
}

fn export(
    args: &ExportArgs,
    store: &OpenStore,
    entry: &SessionEntry,
    output: Option<&Path>,
) -> Result<(), CommandError> {
    if args.salvage {
        return salvage(args, store, entry, output.unwrap_or(Path::new(".")));
    }
    if args.format == ExportFormat::Original {
        need_files(store, entry)?;
    }
    let is_folder =
        output.is_some_and(|it| it.is_dir() || it.as_os_str().to_string_lossy().ends_with('/'));
    match (args.format, output) {
        (ExportFormat::Original, Some(folder)) if is_folder => {
            export_files(args, store, entry, folder)
        }
        (ExportFormat::Original, output) => match (lone_file(store, entry)?, output) {
            (Some(spec), output) => {
                if spec.part > 1 {
                    let times = count(spec.part as usize - 1, "time", "times");
                    say(format_args!(
                        "its file was written anew {times}; an `--output` that is a folder gets all"
                    ));
                }
                match output {
                    Some(path) => {
                        let mut out = Output::create(path, args.force)?;
                        let written = export_lone(store, entry, spec.part, &mut out);
                        out.finish(written)
                    }
                    None => export_lone(store, entry, spec.part, &mut io::stdout().lock()),
                }
            }
            (None, Some(folder)) => export_files(args, store, entry, folder),
            (None, None) => Err(needs_folder("the session has more than one file")),
        },
        (format, Some(output)) => {
            let name = format!("{}.{}", file_name(entry.session.as_str()), format.ending());
            let path = if is_folder { output.join(name) } else { output.to_owned() };
            export_to(store, entry, format, Output::create(&path, args.force)?)
        }
        (format, None) => write(store, entry, format, &mut BufWriter::new(io::stdout().lock())),
    }
}

fn needs_folder(why: &str) -> CommandError {
    CommandError::new(anyhow!("{why}, and standard output is one"), "`--output FOLDER` takes them")
}

/// Writes all files of a session into a folder.
fn export_files(
    args: &ExportArgs,
    store: &OpenStore,
    entry: &SessionEntry,
    folder: &Path,
) -> Result<(), CommandError> {
    fill(args, folder, |scribe| scribe.write_all(store, entry))
}

/// Writes what can be read of a damaged session into a folder, and tells what cannot.
fn salvage(
    args: &ExportArgs,
    store: &OpenStore,
    entry: &SessionEntry,
    folder: &Path,
) -> Result<(), CommandError> {
    if args.format != ExportFormat::Original {
        return Err(CommandError::new(
            anyhow!("only the files themselves can be salvaged"),
            "leave out `--format`; what is written can be imported into another store",
        ));
    }
    let mut lost = Vec::new();
    fill(args, folder, |scribe| {
        let (written, missed) = scribe.salvage(store, entry)?;
        for file in &written {
            for gap in &file.missing {
                let name = &file.spec.name;
                say(format_args!("bytes {} to {} of `{name}` are missing", gap.start, gap.end));
            }
        }
        lost = missed;
        Ok(written)
    })?;
    for gap in &lost {
        say(format_args!("records {} to {} cannot be read", gap.start(), gap.end()));
    }
    if lost.is_empty() { Ok(()) } else { Err(CommandError::No) }
}

/// Writes files into a folder. What is there is not touched before all is written.
fn fill(
    args: &ExportArgs,
    folder: &Path,
    write: impl FnOnce(Scribe<'_>) -> Result<Vec<Written>, CommandError>,
) -> Result<(), CommandError> {
    fs::create_dir_all(folder).map_err(|error| {
        let what = format!("folder `{}` cannot be made", folder.display());
        CommandError::new(anyhow::Error::new(error).context(what), "give another `--output`")
    })?;
    let staged = folder.join(format!(".{}.unfinished", std::process::id()));
    let moved = write(Scribe::into_folder(&staged)).and_then(|written| {
        let files = written.into_iter().flat_map(|it| [it.older, vec![it.path]].concat());
        let files: Vec<_> = files.collect();
        move_into(folder, &staged, &files, args.force).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    "give a new folder, or let `--force` replace the files that are there"
                }
                _ => "look whether the folder may be written to",
            };
            let what = format!("folder `{}` cannot be filled", folder.display());
            CommandError::new(anyhow::Error::new(error).context(what), hint)
        })
    });
    // What has its place by now is not there any more.
    fs::remove_dir_all(&staged).ok();
    for path in moved? {
        say(format_args!("wrote `{}`", path.display()));
    }
    Ok(())
}

/// Writes the only file of a session, in its latest part.
///
/// The last record is held back: if it was the beginning of a line, the whole line takes its place.
fn export_lone(
    store: &OpenStore,
    entry: &SessionEntry,
    part: u32,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let shared = store.shared();
    let mut out = BufWriter::new(out);
    let mut held: (u64, Vec<u8>) = (0, Vec::new());
    let mut failed = None;
    let written = store.wait(originals(&*shared, &entry.session, |spec, position, bytes| {
        if spec.part != part || bytes.is_empty() {
            return Ok(());
        }
        let end = held.0 + held.1.len() as u64;
        if position == end {
            let told = out.write_all(&held.1);
            failed = told.err().or(failed.take());
        } else if position != held.0 {
            let what = format!("byte {end} was to come, and {position} came");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        held = (position, bytes.to_vec());
        match failed.is_some() {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }));
    if let Some(error) = failed {
        return Err(error.into());
    }
    written?;
    out.write_all(&held.1)?;
    Ok(out.flush()?)
}

fn export_to(
    store: &OpenStore,
    entry: &SessionEntry,
    format: ExportFormat,
    mut out: Output,
) -> Result<(), CommandError> {
    let written = write(store, entry, format, &mut out);
    out.finish(written)
}

fn write(
    store: &OpenStore,
    entry: &SessionEntry,
    format: ExportFormat,
    mut out: &mut dyn Write,
) -> Result<(), CommandError> {
    match format {
        ExportFormat::Events => write_events(store, entry, out)?,
        ExportFormat::Markdown => {
            write_markdown(out, entry.session.as_str(), &load_stored(store, entry, None)?)?;
        }
        ExportFormat::Json | ExportFormat::Original => {
            let loaded = load_stored(store, entry, None)?;
            let state = Exported {
                session_id: &entry.session,
                seq: entry.head.seq,
                state: &loaded.state,
                metadata: &loaded.metadata,
            };
            write_json(&mut out, &state)?;
            writeln!(out)?;
        }
    }
    Ok(out.flush()?)
}

/// What `--format json` prints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Exported<'a> {
    session_id: &'a SessionId,
    seq: u64,
    #[serde(flatten)]
    state: &'a ConversationState,
    metadata: &'a SessionMetadata,
}

/// Writes the events of all records, and those that close what was left open.
fn write_events(
    store: &OpenStore,
    entry: &SessionEntry,
    mut out: &mut dyn Write,
) -> Result<(), CommandError> {
    // The store's own folder may be one where nothing can be written.
    let shared = store.shared();
    let empty = load_within(&*shared, &entry.session, 0, Slices::default(), Some(elsewhere()));
    let mut fold = store.wait(empty)?.fold;
    store.wait(read_on(&*shared, &mut fold, entry.head.seq, |_, step| {
        for event in &step.events {
            write_json(&mut out, event)?;
            writeln!(out)?;
        }
        Ok::<(), CommandError>(())
    }))?;
    for event in &mut fold.settling() {
        event.context.seq = Some(fold.seq());
        write_json(&mut out, event)?;
        writeln!(out)?;
    }
    Ok(())
}

impl ExportFormat {
    fn ending(self) -> &'static str {
        match self {
            Self::Original => "files",
            Self::Events => "events.jsonl",
            Self::Json => "json",
            Self::Markdown => "md",
        }
    }
}

//! `threadfold export`: sessions out of the store, as they came or as what they mean.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde::Serialize;
use threadfold_core::{ConversationState, SessionId, SessionMetadata};
use threadfold_engine::{Fold, Slices, originals, read_on};
use threadfold_store::SessionEntry;

use crate::error::{CommandError, say};
use crate::export::{Scribe, create, file_name, has_files, lone_file, need_files, write_markdown};
use crate::printable::write_json;
use crate::store::{OpenStore, StoreArgs, elsewhere, load_kept};
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
        (Some(session), output) => export(args, &store, &store.find(session)?, output.as_deref()),
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
            export_to(store, entry, format, create(&path, args.force)?)?;
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
                        export_lone(store, entry, spec.part, &mut create(path, args.force)?)
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
            export_to(store, entry, format, create(&path, args.force)?)
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
    fs::create_dir_all(folder).map_err(|error| {
        let what = format!("folder `{}` cannot be made", folder.display());
        CommandError::new(anyhow::Error::new(error).context(what), "give another `--output`")
    })?;
    let written = Scribe::into_folder(folder, args.force).write_all(store, entry);
    let is_there = |error: &anyhow::Error| {
        let cause = error.root_cause().downcast_ref::<io::Error>();
        cause.is_some_and(|it| it.kind() == io::ErrorKind::AlreadyExists)
    };
    let written = written.map_err(|error| match error {
        CommandError::Failed { error, .. } if is_there(&error) => CommandError::Failed {
            error,
            hint: "give a new folder, or let `--force` replace what is there".to_owned(),
        },
        other => other,
    })?;
    for path in written.iter().flat_map(|it| it.older.iter().chain([&it.path])) {
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
    file: File,
) -> Result<(), CommandError> {
    let mut out = BufWriter::new(file);
    write(store, entry, format, &mut out)?;
    Ok(out.get_ref().sync_all()?)
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
            write_markdown(out, entry.session.as_str(), &load_kept(store, entry, None)?)?;
        }
        ExportFormat::Json | ExportFormat::Original => {
            let loaded = load_kept(store, entry, None)?;
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
    let mut fold = Fold::new(entry.session.clone(), Slices::default()).within(elsewhere());
    let shared = store.shared();
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

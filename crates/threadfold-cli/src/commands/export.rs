//! `threadfold export`: writes stored sessions as their original files, or in another format.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use threadfold_export::{
    ExportFormat, LoneFileError, SourceWriter, WrittenFile, file_name, has_files, lone_file,
    move_into, write_export, write_lone_file,
};
use threadfold_store::SessionEntry;

use crate::error::{CommandError, listed, print_note};
use crate::error_hints::engine_error;
use crate::export::{Output, need_files};
use crate::printable::data_output;
use crate::store::{OpenStore, StoreArgs, elsewhere, lost_records};
use crate::unfinished::unfinished_path;
use crate::view::count;

/// Export a session from the store: its original files, its events, its state, or Markdown
///
/// Without a session, exports all sessions into a folder.
#[derive(Args)]
pub(crate) struct ExportArgs {
    /// Session to export: its id or a prefix of it
    session: Option<String>,
    /// The format of the output
    #[arg(long, value_name = "FORMAT", default_value = "original")]
    format: FormatArg,
    /// Write to this file or into this folder; default: standard output
    #[arg(long, short, value_name = "FILE|FOLDER", required_unless_present = "session")]
    output: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    /// Write what can still be read of a corrupt session's files, and report what is missing;
    /// without a session, of all sessions that are found
    #[arg(long, requires = "output")]
    salvage: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// The format of the output
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// The files that the agent wrote, byte for byte
    Original,
    /// Threadfold's own events, one per line, each with its record number
    Events,
    /// The final state: blocks, subagents and metadata
    Json,
    /// A readable document
    Markdown,
}

impl ExportArgs {
    fn format(&self) -> ExportFormat {
        match self.format {
            FormatArg::Original => ExportFormat::Original,
            FormatArg::Events => ExportFormat::Events,
            FormatArg::Json => ExportFormat::Json,
            FormatArg::Markdown => ExportFormat::Markdown,
        }
    }
}

pub(crate) fn run(args: &ExportArgs) -> Result<(), CommandError> {
    if !args.salvage {
        return run_on(args, &args.store.open_to_read()?);
    }
    if args.format() != ExportFormat::Original {
        return Err(CommandError::new(
            anyhow!("only original files can be salvaged"),
            "omit `--format`; the salvaged files can be imported into another store",
        ));
    }
    let opened = args.store.open_to_read();
    let salvaged = opened.and_then(|store| match is_readable(args, &store)? {
        true => run_on(args, &store),
        false => Err(CommandError::new(
            anyhow!("records are damaged or missing"),
            "`threadfold doctor` reports what is corrupt",
        )),
    });
    match salvaged {
        Err(CommandError::Failed { error, hint }) => {
            // What SQLite refuses to read may still be in the file.
            print_note(format_args!("{error:#}: reading the store page by page"));
            let rebuilt = args.store.open_rebuilt()?;
            rebuilt.with(|store| salvage_rebuilt(args, store, CommandError::Failed { error, hint }))
        }
        done => done,
    }
}

/// Returns whether all records of the sessions to be exported can be read. A damaged page costs all
/// records of its row there, but only those on the page where rows are read page by page.
fn is_readable(args: &ExportArgs, store: &OpenStore) -> Result<bool, CommandError> {
    let entries = match &args.session {
        Some(session) => vec![store.find(session)?],
        None => store.sessions()?,
    };
    let shared = store.shared();
    for entry in &entries {
        let lost =
            store.wait(threadfold_engine::salvage(&*shared, &entry.session, |_, _, _| Ok(())));
        if lost_records(entry).is_some() || !lost?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Salvages a session from a rebuilt store; if its name is lost, all sessions without one. Without a
/// session, salvages all of them.
fn salvage_rebuilt(
    args: &ExportArgs,
    store: &OpenStore,
    refused: CommandError,
) -> Result<(), CommandError> {
    let nameless = |it: &SessionEntry| it.session.as_str().starts_with("salvaged-");
    let found = store.sessions()?;
    if found.is_empty() {
        return Err(refused);
    }
    let is_found = args.session.as_ref().is_none_or(|session| store.find(session).is_ok());
    if is_found {
        return run_on(args, store);
    }
    let names = listed(found.iter().map(|it| it.session.to_string()));
    let nameless: Vec<_> = found.into_iter().filter(nameless).collect();
    if nameless.is_empty() {
        let session = args.session.as_deref().unwrap_or_default();
        return Err(CommandError::new(
            anyhow!("session `{session}` is not among the sessions that were found: {names}"),
            "choose one of them; without a session, all of them are written",
        ));
    }
    let folder = args.output.as_deref().unwrap_or(Path::new("."));
    for entry in &nameless {
        let name = &entry.session;
        print_note(format_args!("the name of session `{name}` is lost; it may be the one"));
        match salvage(args, store, entry, &folder.join(file_name(name.as_str()))) {
            Err(CommandError::Failed { error, .. }) => print_note(format_args!("{error:#}")),
            Err(CommandError::No) | Ok(()) => {}
            other => return other,
        }
    }
    Err(CommandError::No)
}

fn run_on(args: &ExportArgs, store: &OpenStore) -> Result<(), CommandError> {
    match (&args.session, &args.output) {
        (Some(session), output) => {
            let entry = store.find(session)?;
            let lost = lost_records(&entry);
            lost.iter().for_each(print_note);
            export(args, store, &entry, output.as_deref())?;
            if lost.is_none() { Ok(()) } else { Err(CommandError::No) }
        }
        (None, Some(folder)) => export_all(args, store, folder),
        (None, None) => Err(needs_folder("all sessions need more than one file")),
    }
}

fn export_all(args: &ExportArgs, store: &OpenStore, folder: &Path) -> Result<(), CommandError> {
    let entries = store.sessions()?;
    if entries.is_empty() {
        print_note("the store is empty");
        return Err(CommandError::No);
    }
    let (mut failed, mut is_whole) = (Vec::new(), true);
    for entry in &entries {
        if let Some(lost) = lost_records(entry) {
            print_note(format_args!("session `{}`: {lost}", entry.session));
            is_whole &= !args.salvage;
        }
        match export_one(args, store, entry, folder) {
            Err(CommandError::Failed { error, .. }) => {
                print_note(format_args!("session `{}`: {error:#}", entry.session));
                failed.push(entry.session.to_string());
            }
            // What is missing was reported, and the others are written as well.
            Err(CommandError::No) if args.salvage => is_whole = false,
            other => other?,
        }
    }
    match (failed.len(), failed.first()) {
        (_, None) if is_whole => Ok(()),
        (_, None) => Err(CommandError::No),
        (count, Some(first)) => Err(CommandError::new(
            anyhow!("{count} of {} sessions were not exported, first `{first}`", entries.len()),
            "the others were exported; `threadfold doctor` reports what is corrupt",
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
    if args.salvage {
        return salvage(args, store, entry, &folder.join(name));
    }
    match args.format() {
        ExportFormat::Original if !store.wait(has_files(&*store.shared(), &entry.session))? => {
            let session = &entry.session;
            print_note(format_args!(
                "skipped `{session}`, which has no files: use `--format events`"
            ));
            Ok(())
        }
        ExportFormat::Original => export_files(args, store, entry, &folder.join(name)),
        format => {
            let path = folder.join(format!("{name}.{}", format.ending()));
            export_to(
                store,
                entry,
                format,
                Output::create(&path, args.force, store.unfinished_files())?,
            )?;
            print_note(format_args!("wrote `{}`", path.display()));
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
    if args.format() == ExportFormat::Original {
        need_files(store, entry)?;
    }
    let is_folder =
        output.is_some_and(|it| it.is_dir() || it.as_os_str().to_string_lossy().ends_with('/'));
    match (args.format(), output) {
        (ExportFormat::Original, Some(folder)) if is_folder => {
            export_files(args, store, entry, folder)
        }
        (ExportFormat::Original, output) => {
            match (store.wait(lone_file(&*store.shared(), &entry.session))?, output) {
                (Some(spec), output) => {
                    if spec.part > 1 {
                        let times = count(spec.part as usize - 1, "time", "times");
                        print_note(format_args!(
                            "its file was rewritten {times}; `--output FOLDER` writes every version"
                        ));
                    }
                    match output {
                        Some(path) => {
                            let mut out =
                                Output::create(path, args.force, store.unfinished_files())?;
                            let written = export_lone(store, entry, spec.part, &mut out);
                            out.finish(written)
                        }
                        None => export_lone(store, entry, spec.part, &mut data_output()),
                    }
                }
                (None, Some(folder)) => export_files(args, store, entry, folder),
                (None, None) => Err(needs_folder("the session has more than one file")),
            }
        }
        (format, Some(output)) => {
            let name = format!("{}.{}", file_name(entry.session.as_str()), format.ending());
            let path = if is_folder { output.join(name) } else { output.to_owned() };
            export_to(
                store,
                entry,
                format,
                Output::create(&path, args.force, store.unfinished_files())?,
            )
        }
        (format, None) => write(store, entry, format, &mut BufWriter::new(data_output())),
    }
}

fn needs_folder(why: &str) -> CommandError {
    CommandError::new(anyhow!("{why}, but stdout is only one"), "use `--output FOLDER`")
}

/// Writes all files of a session into a folder.
fn export_files(
    args: &ExportArgs,
    store: &OpenStore,
    entry: &SessionEntry,
    folder: &Path,
) -> Result<(), CommandError> {
    let shared = store.shared();
    fill(args, store, folder, |scribe| Ok(store.wait(scribe.write_all(&*shared, &entry.session))?))
}

/// Writes what can be read of a corrupt session into a folder, and reports what cannot.
fn salvage(
    args: &ExportArgs,
    store: &OpenStore,
    entry: &SessionEntry,
    folder: &Path,
) -> Result<(), CommandError> {
    let mut lost = Vec::new();
    fill(args, store, folder, |scribe| {
        let shared = store.shared();
        let (written, missed) = store.wait(scribe.salvage(&*shared, &entry.session))?;
        for file in &written {
            for gap in &file.missing {
                let name = &file.spec.name;
                print_note(format_args!(
                    "bytes {} to {} of `{name}` are missing",
                    gap.start, gap.end
                ));
            }
        }
        lost = missed;
        if written.iter().all(|it| it.bytes == 0) {
            return Err(CommandError::new(
                anyhow!("nothing can be read of session `{}`", entry.session),
                "`threadfold doctor` reports what is corrupt",
            ));
        }
        Ok(written)
    })?;
    for gap in &lost {
        print_note(format_args!("records {} to {} cannot be read", gap.start(), gap.end()));
    }
    if lost.is_empty() { Ok(()) } else { Err(CommandError::No) }
}

/// Writes files into a folder. Existing files stay untouched until everything is written.
fn fill(
    args: &ExportArgs,
    store: &OpenStore,
    folder: &Path,
    write: impl FnOnce(SourceWriter<'_>) -> Result<Vec<WrittenFile>, CommandError>,
) -> Result<(), CommandError> {
    fs::create_dir_all(folder).map_err(|error| {
        let what = format!("folder `{}` cannot be created", folder.display());
        CommandError::new(anyhow::Error::new(error).context(what), "choose another `--output`")
    })?;
    let staged = unfinished_path(&folder.join(""), None);
    let listed = store.unfinished_files();
    listed.add(&staged);
    let moved = write(SourceWriter::into_folder(&staged)).and_then(|written| {
        let files = written.into_iter().flat_map(|it| [it.older, vec![it.path]].concat());
        let files: Vec<_> = files.collect();
        move_into(folder, &staged, &files, args.force).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    "choose a new folder, or use `--force` to overwrite existing files"
                }
                _ => "check that the folder is writable",
            };
            let what = format!("folder `{}` cannot be written", folder.display());
            CommandError::new(anyhow::Error::new(error).context(what), hint)
        })
    });
    // Files that were moved into place are gone from here.
    fs::remove_dir_all(&staged).ok();
    for path in moved? {
        print_note(format_args!("wrote `{}`", path.display()));
    }
    Ok(())
}

/// Writes the latest version of a session's only file.
fn export_lone(
    store: &OpenStore,
    entry: &SessionEntry,
    part: u32,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let shared = store.shared();
    store.wait(write_lone_file(&*shared, &entry.session, part, out)).map_err(|error| match error {
        LoneFileError::Output(error) => error.into(),
        LoneFileError::Engine(error) => error.into(),
    })
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
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    // The store's own folder may be read-only.
    let budget = Some(elsewhere());
    let written = write_export(store.runtime(), &store.shared(), entry, format, budget, out);
    written.map_err(|error| match engine_error(error) {
        Ok(error) => error.into(),
        Err(error) => error.into(),
    })
}

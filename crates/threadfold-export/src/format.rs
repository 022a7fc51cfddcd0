//! The formats of an export, and what each writes.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use serde::Serialize;
use threadfold_core::{ConversationState, SessionEvent, SessionId, SessionMetadata};
use threadfold_engine::{Budget, EngineError, advance_fold, load_within, originals};
use threadfold_fold::Slices;
use threadfold_store::{SessionEntry, Store};
use tokio::runtime::Handle;

use crate::markdown::write_markdown;
use crate::printable::write_json;
use crate::session_files::SourceWriter;

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// The files that the agent wrote, byte for byte.
    Original,
    /// Threadfold's own events, one per line, each with its record number.
    Events,
    /// The final state: blocks, subagents and metadata.
    Json,
    /// A readable document.
    Markdown,
}

impl ExportFormat {
    /// Returns the format with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "original" => Some(Self::Original),
            "events" => Some(Self::Events),
            "json" => Some(Self::Json),
            "markdown" => Some(Self::Markdown),
            _ => None,
        }
    }

    /// Returns how the name of a file in this format ends.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Original => "files",
            Self::Events => "events.jsonl",
            Self::Json => "json",
            Self::Markdown => "md",
        }
    }
}

/// The output of [`ExportFormat::Json`].
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StateDocument<'a> {
    session_id: &'a SessionId,
    seq: u64,
    #[serde(flatten)]
    state: &'a ConversationState,
    metadata: &'a SessionMetadata,
}

/// Writes a session as events, JSON or Markdown. Original files are JSON here: they are several, and
/// [`write_original`] writes them.
///
/// An error of the store is the cause of the I/O error.
pub fn write_export(
    runtime: &Handle,
    store: &Arc<dyn Store>,
    entry: &SessionEntry,
    format: ExportFormat,
    budget: Option<Budget>,
    mut out: &mut dyn Write,
) -> io::Result<()> {
    if format == ExportFormat::Events {
        write_events(runtime, store, entry, budget, out)?;
        return out.flush();
    }
    let (session, head) = (&entry.session, entry.head.seq);
    let loaded = load_within(store, session, u64::MAX, Slices::default(), budget);
    let loaded = runtime.block_on(loaded).map_err(io::Error::other)?;
    let (metadata, parts) = (loaded.fold.metadata().clone(), loaded.parts.clone());
    let state = loaded.fold.into_settled();
    match format {
        ExportFormat::Markdown => write_markdown(out, session.as_str(), &state, &metadata)?,
        _ => {
            let (state, metadata) = (&state, &metadata);
            let document = StateDocument { session_id: session, seq: head, state, metadata };
            write_json(&mut out, &document)?;
            writeln!(out)?;
        }
    }
    // What is not in memory was read while it was written.
    parts.check().map_err(io::Error::other)?;
    out.flush()
}

/// Writes the events of all records, and the events that close open blocks.
fn write_events(
    runtime: &Handle,
    store: &Arc<dyn Store>,
    entry: &SessionEntry,
    budget: Option<Budget>,
    mut out: &mut dyn Write,
) -> io::Result<()> {
    let empty = load_within(store, &entry.session, 0, Slices::default(), budget);
    let mut fold = runtime.block_on(empty).map_err(io::Error::other)?.fold;
    let advanced = advance_fold(&**store, &mut fold, entry.head.seq, |_, step| {
        for event in &step.events {
            write_json(&mut out, event).map_err(io::Error::from)?;
            writeln!(out)?;
        }
        Ok(())
    });
    runtime.block_on(advanced).map_err(|error| match error {
        WriteError::Io(error) => error,
        WriteError::Engine(error) => io::Error::other(error),
    })?;
    let mut written = Ok(());
    fold.each_settling(|events| {
        if written.is_ok() {
            written = write_settling(events, fold.seq(), &mut out);
        }
    });
    written
}

/// Writes events that close open blocks, at the last record.
fn write_settling(events: &[SessionEvent], seq: u64, mut out: &mut dyn Write) -> io::Result<()> {
    for event in events {
        let mut event = event.clone();
        event.context.seq = Some(seq);
        write_json(&mut out, &event)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Why events were not written.
enum WriteError {
    Io(io::Error),
    Engine(EngineError),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<EngineError> for WriteError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Writes the latest version of a session's only file.
///
/// The last record is buffered: if it is an unterminated line, the complete line replaces it.
pub async fn write_lone_file(
    store: &dyn Store,
    session: &SessionId,
    part: u32,
    out: &mut dyn Write,
) -> Result<(), LoneFileError> {
    let mut out = BufWriter::new(out);
    let mut held: (u64, Vec<u8>) = (0, Vec::new());
    let mut failed = None;
    let written = originals(store, session, |spec, position, bytes| {
        if spec.part != part || bytes.is_empty() {
            return Ok(());
        }
        let end = held.0 + held.1.len() as u64;
        if position == end {
            let written = out.write_all(&held.1);
            failed = written.err().or(failed.take());
        } else if position != held.0 {
            let what = format!("expected byte {end}, found byte {position}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        held = (position, bytes.to_vec());
        match failed.is_some() {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    })
    .await;
    if let Some(error) = failed {
        return Err(LoneFileError::Output(error));
    }
    written.map_err(LoneFileError::Engine)?;
    out.write_all(&held.1).and_then(|()| out.flush()).map_err(LoneFileError::Output)
}

/// Why a session's only file was not written.
#[derive(Debug)]
pub enum LoneFileError {
    /// The output failed.
    Output(io::Error),
    /// The session could not be read.
    Engine(EngineError),
}

/// Writes all original files of a session as one tar archive, each version of a rewritten file.
///
/// The files are written to a temporary folder first: a line that was complete only later replaces
/// its beginning, and an archive cannot be changed.
pub fn write_original(
    runtime: &Handle,
    store: &dyn Store,
    session: &SessionId,
    out: &mut dyn Write,
) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let writer = SourceWriter::into_folder(folder.path());
    let written = runtime.block_on(writer.write_all(store, session)).map_err(io::Error::other)?;
    let mut archive = tar::Builder::new(out);
    for file in written.into_iter().flat_map(|it| [it.older, vec![it.path]].concat()) {
        let name = file.strip_prefix(folder.path()).map_err(io::Error::other)?;
        archive.append_path_with_name(&file, name)?;
    }
    archive.into_inner()?.flush()
}

//! Matches a file with a session's sources: a known one, at the same path or at another, or a new
//! one.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use threadfold_core::SessionId;
use threadfold_fold::{Fold, RecordKind, Source, SourceRole, SourceSpec};
use threadfold_store::{Limit, Store};

use super::{Form, Identity, InputFile, RECHECKED_BYTES, tail_if_continued};
use crate::error::EngineError;
use crate::session::Session;

/// How a file of lines matches the known sources.
pub(super) enum FileMatch {
    /// It continues this part, after these bytes.
    Continues(Box<Source>, Vec<u8>),
    /// The log already contains all of it; these are its last bytes.
    Contained { number: u32, length: u64, tail: Vec<u8> },
    /// It was rewritten from its beginning.
    Rewritten(SourceSpec),
    /// It is not known yet.
    New(SourceSpec),
}

/// How a document matches the known sources.
pub(super) enum DocumentMatch {
    Known,
    /// It replaces this source's earlier version.
    Replaces(u32),
    New(SourceSpec),
}

/// Matches a file of lines with a source.
pub(super) async fn find(
    (store, fold): (&dyn Store, &Fold),
    file: &InputFile,
    identity: Identity,
    opened: &mut (impl Read + Seek),
) -> Result<FileMatch, EngineError> {
    let unreadable = |source: io::Error| EngineError::File { path: file.path.clone(), source };
    let all = same_files(fold, &file.spec);
    let mut parts = all.clone();
    parts.retain(|it| !it.has_document());
    let own = own_name(&parts, &file.spec);
    let length = opened.seek(SeekFrom::End(0)).map_err(unreadable)?;
    let is_own = |it: &&Source| own.as_ref().is_none_or(|own| *own == it.spec.name);
    for part in parts.iter().filter(is_own) {
        let known = part.line_bytes();
        let is_latest = is_latest(fold, part);
        // Only the latest part may grow; older ones are final.
        let may_be = if is_latest { length >= known } else { length == known };
        if may_be && let Some(tail) = tail_if_continued(opened, part).map_err(unreadable)? {
            if !is_latest || (own.is_none() && length == known) {
                let tail = last_bytes(opened, length).map_err(unreadable)?;
                return Ok(FileMatch::Contained { number: part.number, length, tail });
            }
            if own.is_some() || !is_at_its_path(&part.spec, identity) {
                return Ok(FileMatch::Continues(Box::new(part.clone()), tail));
            }
        }
        if is_latest
            && length < known
            && is_beginning(store, fold, part, (file, opened, length)).await?
        {
            let tail = last_bytes(opened, length).map_err(unreadable)?;
            return Ok(FileMatch::Contained { number: part.number, length, tail });
        }
    }
    if own.is_none() {
        for part in pipes(fold, &file.spec).filter(|it| it.line_bytes() == length && length > 0) {
            if tail_if_continued(opened, part).map_err(unreadable)?.is_some() {
                let tail = last_bytes(opened, length).map_err(unreadable)?;
                return Ok(FileMatch::Contained { number: part.number, length, tail });
            }
        }
    }
    Ok(match own {
        Some(name) => FileMatch::Rewritten(SourceSpec { name, ..file.spec.clone() }),
        None => FileMatch::New(free_name(&all, &file.spec)),
    })
}

/// Matches a document with a source.
pub(super) fn find_document(
    session: &Session,
    spec: &SourceSpec,
    identity: Identity,
    bytes: &[u8],
) -> DocumentMatch {
    let fold = session.fold();
    let all = same_files(fold, spec);
    let mut parts = all.clone();
    parts.retain(|it| it.line_bytes() == 0);
    let own = own_name(&parts, spec);
    let latest = |it: &&Source| is_latest(fold, it);
    let is_own = |it: &&Source| own.as_ref().is_none_or(|own| *own == it.spec.name);
    if parts.iter().filter(latest).filter(is_own).any(|it| it.is_document(bytes)) {
        return DocumentMatch::Known;
    }
    if own.is_none() && pipes(fold, spec).any(|it| it.is_document(bytes)) {
        return DocumentMatch::Known;
    }
    let is_moved = |it: &&Source| !is_at_its_path(&it.spec, identity);
    let replaced = match own {
        Some(_) => parts.iter().filter(latest).find(is_own),
        None => parts.iter().filter(latest).find(is_moved),
    };
    match replaced {
        Some(source) => DocumentMatch::Replaces(source.number),
        None => DocumentMatch::New(free_name(&all, spec)),
    }
}

/// Returns whether a session contains a file: by its path, or by its first bytes.
///
/// A matching file name alone does not count.
pub(crate) async fn has_file(
    store: &dyn Store,
    fold: &Fold,
    file: &InputFile,
) -> Result<bool, EngineError> {
    let parts = same_files(fold, &file.spec);
    if own_name(&parts, &file.spec).is_some() {
        return Ok(true);
    }
    let mut piped = pipes(fold, &file.spec).peekable();
    if parts.is_empty() && piped.peek().is_none() {
        return Ok(false);
    }
    let unreadable = |source: io::Error| EngineError::File { path: file.path.clone(), source };
    if file.form == Form::Document {
        let bytes = fs::read(&file.path).map_err(unreadable)?;
        return Ok(parts.iter().chain(piped).any(|it| it.is_document(&bytes)));
    }
    let mut opened = fs::File::open(&file.path).map_err(unreadable)?;
    let metadata = opened.metadata().map_err(unreadable)?;
    for part in piped.filter(|it| it.line_bytes() == metadata.len() && metadata.len() > 0) {
        if tail_if_continued(&mut opened, part).map_err(unreadable)?.is_some() {
            return Ok(true);
        }
    }
    for part in parts.iter().filter(|it| it.line_bytes() > 0 && metadata.len() > 0) {
        let has_all = metadata.len() >= part.line_bytes();
        if has_all && tail_if_continued(&mut opened, part).map_err(unreadable)?.is_some() {
            return Ok(true);
        }
        let read = (file, &mut opened, metadata.len());
        if !has_all && is_beginning(store, fold, part, read).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a session without an id of its own contains all bytes of a pipe, from a file or
/// from another pipe.
pub(crate) async fn has_bytes(
    (store, fold): (&dyn Store, &Fold),
    spec: &SourceSpec,
    form: Form,
    bytes: &[u8],
) -> Result<bool, EngineError> {
    let all = alike(fold, spec);
    if form == Form::Document {
        return Ok(all.into_iter().any(|it| it.is_document(bytes)));
    }
    let (length, path) = (bytes.len() as u64, PathBuf::from(&spec.name));
    let file = InputFile { spec: spec.clone(), path, form };
    for part in all.into_iter().filter(|it| it.line_bytes() >= length) {
        if is_beginning(store, fold, part, (&file, &mut io::Cursor::new(bytes), length)).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns how long the lines are that a pipe may repeat.
pub(crate) fn longest_lines(fold: &Fold, spec: &SourceSpec) -> u64 {
    alike(fold, spec).into_iter().map(Source::line_bytes).max().unwrap_or_default()
}

/// Returns the sources in the same role as a pipe, under any name; none of a session that its agent
/// named, because there every stream is a separate part.
fn alike<'a>(fold: &'a Fold, spec: &SourceSpec) -> Vec<&'a Source> {
    let is_alike = |it: &&Source| (&it.spec.agent, it.spec.kind) == (&spec.agent, spec.kind);
    match is_named_by_content(fold) {
        false => Vec::new(),
        true => fold.sources().filter(is_alike).collect(),
    }
}

/// Returns whether a session's id is made of its content: an agent, a hash, and perhaps a number; or
/// the name of a part of a session, whose lines have the id of the whole.
fn is_named_by_content(fold: &Fold) -> bool {
    let id = fold.session().as_str();
    let is_hash = |it: &str| it.len() == 12 && it.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_part = |whole: SessionId| !id.starts_with(whole.as_str());
    id.split('-').nth(1).is_some_and(is_hash) || fold.agent_session().is_some_and(is_part)
}

/// Returns the sources that came from a pipe in the role of this file.
fn pipes<'a>(fold: &'a Fold, spec: &SourceSpec) -> impl Iterator<Item = &'a Source> {
    let is_pipe = |it: &&Source| it.spec.path.is_none() && it.spec.kind != SourceRole::Rows;
    alike(fold, spec).into_iter().filter(is_pipe)
}

/// Returns the sources of this name at any path, the latest first.
fn same_files(fold: &Fold, spec: &SourceSpec) -> Vec<Source> {
    fold.same_files(spec).rev().cloned().collect()
}

fn is_latest(fold: &Fold, part: &Source) -> bool {
    fold.source(&part.spec).map(|it| it.number) == Some(part.number)
}

/// Returns the name of the source that was read from this file's path.
fn own_name(parts: &[Source], spec: &SourceSpec) -> Option<String> {
    // Rows have no path of their own: a session is the same in every copy of its database.
    let has_place = |it: &SourceSpec| it.path.is_some() && it.kind != SourceRole::Rows;
    let is_own = |it: &&Source| match has_place(&it.spec) && has_place(spec) {
        true => it.spec.path == spec.path,
        false => it.spec.is_same_source(spec),
    };
    parts.iter().find(is_own).map(|it| it.spec.name.clone())
}

/// Returns the source under a name that none of these parts has.
fn free_name(parts: &[Source], spec: &SourceSpec) -> SourceSpec {
    let is_taken = |name: &str| parts.iter().any(|it| it.spec.name == name);
    let copies = (1..).map(|number| spec.as_copy(number));
    match parts.is_empty() {
        true => spec.clone(),
        false => copies.into_iter().find(|it| !is_taken(&it.name)).unwrap_or(spec.clone()),
    }
}

/// Returns whether another file is now at a source's path. If not, the source's file was moved.
fn is_at_its_path(spec: &SourceSpec, identity: Identity) -> bool {
    let metadata = spec.path.as_ref().and_then(|path| fs::metadata(path).ok());
    metadata.is_some_and(|it| it.is_file() && Identity::of(&it) != identity)
}

/// Returns whether a part begins with the whole file.
async fn is_beginning(
    store: &dyn Store,
    fold: &Fold,
    part: &Source,
    (file, opened, length): (&InputFile, &mut (impl Read + Seek), u64),
) -> Result<bool, EngineError> {
    let unreadable = |source: io::Error| EngineError::File { path: file.path.clone(), source };
    let (mut after, mut compared) = (0, 0);
    while compared < length {
        let records = store.read(fold.session(), after, Limit::default()).await?;
        let Some(last) = records.last() else { return Ok(false) };
        after = last.seq;
        let is_text = |kind: RecordKind| {
            use RecordKind::{LastPiece, Line, Partial, Piece};
            matches!(kind, Line | Partial | Piece | LastPiece)
        };
        for record in records.iter().filter(|it| it.source == part.number && is_text(it.kind)) {
            let rest =
                usize::try_from(length.saturating_sub(record.position)).unwrap_or(usize::MAX);
            let wanted = &record.bytes[..record.bytes.len().min(rest)];
            let mut found = vec![0; wanted.len()];
            opened.seek(SeekFrom::Start(record.position)).map_err(unreadable)?;
            match opened.read_exact(&mut found) {
                Ok(()) if found == wanted => {}
                Ok(()) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                Err(error) => return Err(unreadable(error)),
            }
            compared = compared.max(record.position + wanted.len() as u64);
        }
    }
    Ok(true)
}

fn last_bytes(opened: &mut (impl Read + Seek), length: u64) -> io::Result<Vec<u8>> {
    opened.seek(SeekFrom::Start(length.saturating_sub(RECHECKED_BYTES as u64)))?;
    let mut tail = Vec::new();
    opened.take(length.min(RECHECKED_BYTES as u64)).read_to_end(&mut tail)?;
    Ok(tail)
}

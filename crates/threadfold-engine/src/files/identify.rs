//! Which of a session's sources a file is: one that is known, in the same place or in another, or
//! one of its own.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};

use threadfold_fold::{Fold, RecordKind, Source, SourceRole, SourceSpec};
use threadfold_store::{Limit, Store};

use super::{Form, Identity, InputFile, LOOKED_AT_AGAIN, goes_on};
use crate::error::EngineError;
use crate::session::Session;

/// What a file of lines is to the sources that are known.
pub(super) enum FileMatch {
    /// It goes on where this part ends, behind these bytes.
    Continues(Box<Source>, Vec<u8>),
    /// All of it is in the log already; these are its last bytes.
    Contained { number: u32, length: u64, tail: Vec<u8> },
    /// It was written anew from its beginning.
    Rewritten(SourceSpec),
    /// Nothing of it is known.
    New(SourceSpec),
}

/// What a file that is one record is to the sources that are known.
pub(super) enum DocumentMatch {
    Known,
    /// It replaces what this source was.
    Replaces(u32),
    New(SourceSpec),
}

/// Finds out which source a file of lines is.
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
        // An older part is not added to: what it was is what it stays.
        let may_be = if is_latest { length >= known } else { length == known };
        if may_be && let Some(tail) = goes_on(opened, part).map_err(unreadable)? {
            if !is_latest || (own.is_none() && length == known) {
                let tail = last_bytes(opened, length).map_err(unreadable)?;
                return Ok(FileMatch::Contained { number: part.number, length, tail });
            }
            if own.is_some() || !lies_there(&part.spec, identity) {
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
    Ok(match own {
        Some(name) => FileMatch::Rewritten(SourceSpec { name, ..file.spec.clone() }),
        None => FileMatch::New(free_name(&all, &file.spec)),
    })
}

/// Finds out which source a file is that is one record.
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
    let is_moved = |it: &&Source| !lies_there(&it.spec, identity);
    let replaced = match own {
        Some(_) => parts.iter().filter(latest).find(is_own),
        None => parts.iter().filter(latest).find(is_moved),
    };
    match replaced {
        Some(source) => DocumentMatch::Replaces(source.number),
        None => DocumentMatch::New(free_name(&all, spec)),
    }
}

/// Says whether a session has a file, at the place where it lies or with the beginning that it has.
///
/// Others that only have its name are not meant.
pub(crate) async fn has_file(
    store: &dyn Store,
    fold: &Fold,
    file: &InputFile,
) -> Result<bool, EngineError> {
    let parts = same_files(fold, &file.spec);
    if parts.is_empty() || own_name(&parts, &file.spec).is_some() {
        return Ok(!parts.is_empty());
    }
    let unreadable = |source: io::Error| EngineError::File { path: file.path.clone(), source };
    if file.form == Form::Document {
        let bytes = fs::read(&file.path).map_err(unreadable)?;
        return Ok(parts.iter().any(|it| it.is_document(&bytes)));
    }
    let mut opened = fs::File::open(&file.path).map_err(unreadable)?;
    let metadata = opened.metadata().map_err(unreadable)?;
    for part in parts.iter().filter(|it| it.line_bytes() > 0 && metadata.len() > 0) {
        let has_all = metadata.len() >= part.line_bytes();
        if has_all && goes_on(&mut opened, part).map_err(unreadable)?.is_some() {
            return Ok(true);
        }
        let read = (file, &mut opened, metadata.len());
        if !has_all && is_beginning(store, fold, part, read).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the sources of this name, wherever they lie, the latest first.
fn same_files(fold: &Fold, spec: &SourceSpec) -> Vec<Source> {
    fold.sources().filter(|it| it.spec.may_be_same_file(spec)).rev().cloned().collect()
}

fn is_latest(fold: &Fold, part: &Source) -> bool {
    fold.source(&part.spec).map(|it| it.number) == Some(part.number)
}

/// Returns the name of the source that was read from where the file lies.
fn own_name(parts: &[Source], spec: &SourceSpec) -> Option<String> {
    // Rows have no place of their own: they are what a session is in any database.
    let has_place = |it: &SourceSpec| it.path.is_some() && it.kind != SourceRole::Rows;
    let is_own = |it: &&Source| match has_place(&it.spec) && has_place(spec) {
        true => it.spec.path == spec.path,
        false => it.spec.is_same_source(spec),
    };
    parts.iter().find(is_own).map(|it| it.spec.name.clone())
}

/// Returns the source under a name that tells it from its parts.
fn free_name(parts: &[Source], spec: &SourceSpec) -> SourceSpec {
    let is_taken = |name: &str| parts.iter().any(|it| it.spec.name == name);
    let copies = (1..).map(|number| spec.as_copy(number));
    match parts.is_empty() {
        true => spec.clone(),
        false => copies.into_iter().find(|it| !is_taken(&it.name)).unwrap_or(spec.clone()),
    }
}

/// Says whether another file lies where a source was read from. If not, its file was moved.
fn lies_there(spec: &SourceSpec, identity: Identity) -> bool {
    let metadata = spec.path.as_ref().and_then(|path| fs::metadata(path).ok());
    metadata.is_some_and(|it| it.is_file() && Identity::of(&it) != identity)
}

/// Says whether all of a file is how a part begins.
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
    opened.seek(SeekFrom::Start(length.saturating_sub(LOOKED_AT_AGAIN as u64)))?;
    let mut tail = Vec::new();
    opened.take(length.min(LOOKED_AT_AGAIN as u64)).read_to_end(&mut tail)?;
    Ok(tail)
}

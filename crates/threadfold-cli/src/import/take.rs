//! One session taken into the store.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use threadfold_convert::Agent;
use threadfold_core::SessionId;
use threadfold_engine::{
    EngineError, Form, Incoming, InputFile, OpencodeDbFollower, Options, Session, Source,
    SourceSpec, SpecKind, Taken, holder, take_files,
};
use threadfold_store::RecordKind;

use super::plan::{Content, Planned};
use crate::error::{CommandError, say};
use crate::source::{Database, ShelfFile};
use crate::store::OpenStore;

/// What importing a session brought.
pub(crate) struct Imported {
    /// It was not in the store before.
    pub(crate) is_new: bool,
    /// Nothing was added.
    pub(crate) is_unchanged: bool,
    pub(crate) taken: Taken,
}

/// Takes a session into the store, and counts the bytes that were read.
pub(crate) fn take(
    store: &OpenStore,
    planned: &Planned,
    progress: impl FnMut(u64),
) -> Result<Imported, CommandError> {
    // What cannot be read is told before the session is begun in the store.
    let content = ready(planned)?;
    store.wait(async {
        let id = SessionId::from(planned.id.as_str());
        let options =
            Options { budget: Some(store.budget()), ..Options::new(holder("threadfold import")) };
        let mut session = Session::open(store.shared(), &id, options).await?;
        let before = session.cursor().seq;
        let taken = take_content(&mut session, &content, progress).await;
        let after = session.cursor().seq;
        // The session is left in any case, so that others may write to it.
        let closed = session.close().await;
        let taken = taken?;
        for trouble in closed? {
            say(format_args!("session `{id}`: {trouble}"));
        }
        Ok(Imported { is_new: before == 0, is_unchanged: before == after && before > 0, taken })
    })
}

/// Takes all that a session's place holds and the session does not.
pub(crate) async fn take_new(session: &mut Session, planned: &Planned) -> Result<(), CommandError> {
    take_content(session, &ready(planned)?, |_| {}).await?;
    Ok(())
}

/// What is to be read, found to be there.
enum Ready {
    Files(Vec<InputFile>),
    Documents(Vec<ShelfFile>),
    /// A database, and the session in it.
    Database(PathBuf, String),
}

fn ready(planned: &Planned) -> Result<Ready, CommandError> {
    match &planned.content {
        Content::Files(files) => {
            files.iter().try_for_each(|it| check_readable(&it.path))?;
            Ok(Ready::Files(files.clone()))
        }
        Content::Shelf(shelf) => match shelf.files(&planned.id)? {
            Some(files) => {
                files.iter().try_for_each(|it| check_readable(&it.path))?;
                Ok(Ready::Documents(files))
            }
            None => {
                Database::open(&planned.place)?.family_of(&planned.id)?;
                Ok(Ready::Database(planned.place.clone(), planned.id.clone()))
            }
        },
    }
}

/// Refuses what cannot be read, and what might never end: only a file is a file.
fn check_readable(path: &Path) -> Result<(), EngineError> {
    let found = path.metadata().and_then(|it| match it.is_file() {
        true => File::open(path).map(drop),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    });
    found.map_err(|source| EngineError::File { path: path.to_owned(), source })
}

async fn take_content(
    session: &mut Session,
    content: &Ready,
    progress: impl FnMut(u64),
) -> Result<Taken, CommandError> {
    match content {
        Ready::Files(files) => Ok(take_files(session, files, progress).await?),
        Ready::Documents(files) => take_documents(session, files, progress).await,
        Ready::Database(path, id) => Ok(OpencodeDbFollower::new(path, id).poll(session).await?),
    }
}

/// Takes files that are one record each. Those that come again are said again if anything is new.
async fn take_documents(
    session: &mut Session,
    files: &[ShelfFile],
    mut progress: impl FnMut(u64),
) -> Result<Taken, CommandError> {
    let mut taken = Taken::default();
    for (place, file) in files.iter().enumerate() {
        let at = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
        let kind = if file.is_attached { SpecKind::Attached } else { SpecKind::Main };
        let spec = SourceSpec::new(Agent::Opencode, kind, file.name.as_str());
        let spec = spec.at(at.to_string_lossy());
        if !files[..place].contains(file) {
            let input = InputFile { spec, path: file.path.clone(), form: Form::Document };
            taken.add(take_files(session, &[input], &mut progress).await?);
        } else if taken.records > 0 {
            let read = fs::read(&file.path);
            let bytes = read
                .map_err(|source| EngineError::File { path: file.path.clone(), source })
                .map(Bytes::from)?;
            let is_same = |it: &&Source| it.spec.kind == spec.kind && it.spec.path == spec.path;
            let known = session.fold().sources().rfind(is_same).map(|it| it.number);
            let source = match known {
                Some(known) => known,
                None => session.source(&spec).await?,
            };
            let kind = RecordKind::Document;
            session.accept(vec![Incoming { kind, source, position: 0, bytes }]).await?;
        }
    }
    Ok(taken)
}

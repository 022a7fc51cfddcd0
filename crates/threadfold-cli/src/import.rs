//! What is to be imported: which sessions the arguments stand for.

use std::path::Path;

use anyhow::anyhow;
use threadfold_engine::{
    Discovery, FoundSession, InputError, InputOptions, Intake, Options, Session, SessionNames,
    adopt_children, holder, open_path,
};

use crate::error::{CommandError, say};
use crate::machine::{discover_with_orphans, report_unreadable};
use crate::sessions::{Given, find_given};
use crate::store::OpenStore;
use crate::view::count;

/// Something that is to be imported, or why it cannot be.
pub(crate) struct Candidate {
    /// What it is called in messages.
    pub(crate) name: String,
    pub(crate) session: Result<FoundSession, CommandError>,
}

impl Candidate {
    fn found(session: FoundSession) -> Self {
        Self { name: session.description(), session: Ok(session) }
    }

    fn refused(path: &Path, error: impl Into<CommandError>) -> Self {
        Self { name: format!("`{}`", path.display()), session: Err(error.into()) }
    }
}

/// Returns all that is meant by what a person gave; by nothing, all sessions of all agents.
pub(crate) fn candidates(
    given: &[String],
    options: &InputOptions<'_>,
) -> Result<Vec<Candidate>, CommandError> {
    if given.is_empty() {
        let found = discover_with_orphans();
        return Ok(found.sessions.into_iter().map(Candidate::found).collect());
    }
    let (mut sessions, mut refused) = (Vec::new(), Vec::new());
    for given in given {
        match candidates_of(given, options, &mut refused) {
            Ok(found) => sessions.extend(found),
            Err(error) => {
                refused.push(Candidate { name: format!("`{given}`"), session: Err(error) });
            }
        }
    }
    adopt_children(&mut sessions);
    Ok(sessions.into_iter().map(Candidate::found).chain(refused).collect())
}

fn candidates_of(
    given: &str,
    options: &InputOptions<'_>,
    refused: &mut Vec<Candidate>,
) -> Result<Vec<FoundSession>, CommandError> {
    let is_path = options.format.is_some() || options.session.is_some();
    match if is_path { Given::Input(given.into()) } else { find_given(given)? } {
        Given::Session(found) => Ok(vec![*found]),
        Given::Folder(folder) => folder_candidates(&folder, options, refused),
        Given::Input(path) if path == Path::new("-") => Err(CommandError::new(
            anyhow!("standard input cannot be imported"),
            "write it to a file and give that, or use `threadfold watch -`",
        )),
        Given::Input(path) => Ok(open_path(&path, options)?),
    }
}

/// Returns the sessions of a folder, and reports what is not one.
fn folder_candidates(
    folder: &Path,
    options: &InputOptions<'_>,
    refused: &mut Vec<Candidate>,
) -> Result<Vec<FoundSession>, CommandError> {
    let found = Discovery::of_folder(folder, options);
    report_unreadable(&found);
    let unrecognized = found.unrecognized.len();
    if found.sessions.is_empty() && found.refused.is_empty() {
        return Err(InputError::NoSession { path: folder.to_owned(), unrecognized }.into());
    }
    refused.extend(found.refused.into_iter().map(|(path, error)| Candidate::refused(&path, error)));
    if unrecognized > 0 {
        say(format_args!(
            "skipped {} of `{}` in no format that an agent writes: `--any` takes every file",
            count(unrecognized, "file", "files"),
            folder.display()
        ));
    }
    Ok(found.sessions)
}

/// What importing a session added.
pub(crate) struct Imported {
    /// It was not in the store before.
    pub(crate) is_new: bool,
    /// Nothing was added.
    pub(crate) is_unchanged: bool,
    pub(crate) intake: Intake,
}

/// Gives a session the id under which it is stored, and reports if that is another one.
pub(crate) fn settle(store: &OpenStore, found: &mut FoundSession) -> Result<(), CommandError> {
    let shared = store.shared();
    let id = store.wait(SessionNames::new(&*shared).settle(found))?;
    if id != found.id && id.as_str().starts_with(found.id.as_str()) {
        say(format_args!(
            "`{}` is another session than `{}` of the store: it is stored as `{id}`",
            found.place.display(),
            found.id
        ));
    }
    found.id = id;
    Ok(())
}

/// Reads a session into the store, and counts the bytes that were read.
pub(crate) fn import(
    store: &OpenStore,
    found: &FoundSession,
    mut progress: impl FnMut(u64) + Send,
) -> Result<Imported, CommandError> {
    // What cannot be read is reported before the session is created in the store.
    found.content.check()?;
    store.wait(async {
        let options =
            Options { budget: Some(store.budget()), ..Options::new(holder("threadfold import")) };
        let mut session = Session::open(store.shared(), &found.id, options).await?;
        let before = session.cursor().seq;
        let intake = found.read_into(&mut session, &mut progress).await;
        let after = session.cursor().seq;
        // The session is closed in any case, so that others may write to it.
        let closed = session.close().await;
        let intake = intake?;
        for problem in closed? {
            say(format_args!("session `{}`: {problem}", found.id));
        }
        Ok(Imported { is_new: before == 0, is_unchanged: before == after && before > 0, intake })
    })
}

//! Resolves what to watch.

use std::path::{Path, PathBuf};
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_engine::{
    FileWatcher, FoundSession, InputOptions, has_nothing_yet, is_container, noted_summary, open_one,
};
use threadfold_store::SessionEntry;

use crate::error::{CommandError, print_note};
use crate::import::settle;
use crate::input::InputArgs;
use crate::sessions::{ResolvedInput, find_given};
use crate::store::OpenStore;

/// How often an empty file is polled where there are no notifications.
const WAITING: Duration = Duration::from_millis(50);

/// What to watch.
pub(crate) enum WatchTarget {
    /// A stream on standard input.
    Stdin { options: InputArgs },
    /// A session in files that grow, or in a database.
    Session(Box<FoundSession>),
    /// A session of a running server.
    Server { address: String, session: Option<String> },
    /// All sessions of a folder.
    Folder(PathBuf),
    /// A session that is only in the store.
    Stored(SessionId),
}

impl WatchTarget {
    /// Resolves the argument.
    pub(crate) fn find(
        store: &OpenStore,
        given: &str,
        args: &InputArgs,
    ) -> Result<Self, CommandError> {
        if given.starts_with("http://") || given.starts_with("https://") {
            let session = args.session.clone();
            return Ok(Self::Server { address: given.to_owned(), session });
        }
        if given == "-" {
            return Ok(Self::Stdin { options: args.clone() });
        }
        let path = Path::new(given);
        if path.is_dir() && args.from.is_none() && !is_container(path) {
            return Ok(Self::Folder(path.to_owned()));
        }
        if args.from.is_none() && has_nothing_yet(path) {
            print_note(format_args!("`{given}` has no record yet: waiting for the first one"));
            store.wait(first_record(path))?;
        }
        match find_session(given, args) {
            Ok(found) => Self::of(store, found),
            Err(error) => match store.find(given) {
                Ok(entry) => Self::stored(store, &entry),
                Err(_) => Err(error),
            },
        }
    }

    fn of(store: &OpenStore, mut found: FoundSession) -> Result<Self, CommandError> {
        settle(store, &mut found)?;
        if found.agent.is_some_and(|agent| !agent.is_known()) {
            print_note(format_args!(
                "`{}` is in an unknown format: it is stored line by line",
                found.place.display()
            ));
        }
        Ok(Self::Session(Box::new(found)))
    }

    /// Returns a stored session, followed by its file if that still exists.
    fn stored(store: &OpenStore, entry: &SessionEntry) -> Result<Self, CommandError> {
        let path = noted_summary(entry).and_then(|it| it.path).filter(|it| Path::new(it).exists());
        let id = entry.session.clone();
        let Some(path) = path else { return Ok(Self::Stored(id)) };
        let options = InputOptions { any: true, ..InputOptions::default() };
        let named = InputOptions { session: Some(id.as_str()), ..options };
        let found =
            open_one(Path::new(&path), &named).or_else(|_| open_one(Path::new(&path), &options));
        match found.ok().map(|it| Self::of(store, it)).transpose()? {
            Some(Self::Session(found)) if found.id == id => Ok(Self::Session(found)),
            _ => Ok(Self::Stored(id)),
        }
    }
}

fn find_session(given: &str, args: &InputArgs) -> Result<FoundSession, CommandError> {
    if args.is_given() {
        return Ok(open_one(Path::new(given), &args.options())?);
    }
    match find_given(given)? {
        ResolvedInput::Session(found) => Ok(*found),
        ResolvedInput::Folder(path) | ResolvedInput::Input(path) => {
            Ok(open_one(&path, &args.options())?)
        }
    }
}

/// Waits until a file's format can be detected, or the user stops.
async fn first_record(path: &Path) -> Result<(), CommandError> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let mut watcher = FileWatcher::new(WAITING);
    watcher.watch([folder.unwrap_or(Path::new(".")).to_owned()]);
    while has_nothing_yet(path) {
        tokio::select! {
            stopped = crate::stop::stop() => return stopped.and(Err(CommandError::PipeClosed)),
            () = watcher.changed() => drop(watcher.take()),
        }
    }
    Ok(())
}

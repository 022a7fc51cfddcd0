//! Resolves the arguments of `import` to sessions.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::anyhow;
use threadfold_engine::{
    Budget, ContentStamp, Discovery, EngineError, FoundSession, ImportIndex, ImportedFiles,
    InputError, InputOptions, Intake, LoadReport, Options, RemovedSessions, Session, SessionNames,
    UnreadContent, adopt_children, holder, import_content, import_index_path, open_path,
    unread_content,
};
use threadfold_store::Store;
use tokio::task::JoinHandle;

use crate::error::{CommandError, print_note, report_loss};
use crate::sessions::{ResolvedInput, find_given};
use crate::store::{OpenStore, StoreArgs};
use crate::surroundings::{discover, report_unreadable};
use crate::view::count;

/// A session to import, or why it cannot be imported.
pub(crate) struct Candidate {
    /// Its name in messages.
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

/// Returns the sessions that the arguments mean; without arguments, all sessions of all agents.
///
/// What their places hold that this version does not read is added to `unread`.
pub(crate) fn candidates(
    given: &[String],
    options: &InputOptions<'_>,
    unread: &mut Vec<UnreadContent>,
) -> Result<Vec<Candidate>, CommandError> {
    if given.is_empty() {
        let mut found = discover();
        unread.append(&mut found.unread);
        return Ok(found.sessions.into_iter().map(Candidate::found).collect());
    }
    let (mut sessions, mut refused) = (Vec::new(), Vec::new());
    for given in given {
        match candidates_of(given, options, &mut refused, unread) {
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
    unread: &mut Vec<UnreadContent>,
) -> Result<Vec<FoundSession>, CommandError> {
    let is_path = options.format.is_some() || options.session.is_some();
    match if is_path { ResolvedInput::Input(given.into()) } else { find_given(given)? } {
        ResolvedInput::Session(found) => Ok(vec![*found]),
        ResolvedInput::Folder(folder) => folder_candidates(&folder, options, refused, unread),
        ResolvedInput::Input(path) if path == Path::new("-") => Err(CommandError::new(
            anyhow!("standard input cannot be imported"),
            "write it to a file and give that, or use `threadfold watch -`",
        )),
        ResolvedInput::Input(path) => {
            unread.extend(unread_content(&path));
            Ok(open_path(&path, options)?)
        }
    }
}

/// Returns the sessions of a folder, and reports skipped files.
fn folder_candidates(
    folder: &Path,
    options: &InputOptions<'_>,
    refused: &mut Vec<Candidate>,
    unread: &mut Vec<UnreadContent>,
) -> Result<Vec<FoundSession>, CommandError> {
    let mut found = Discovery::of_folder(folder, options);
    report_unreadable(&found);
    unread.append(&mut found.unread);
    let unrecognized = found.unrecognized.len();
    if found.sessions.is_empty() && found.refused.is_empty() {
        return Err(InputError::NoSession { path: folder.to_owned(), unrecognized }.into());
    }
    refused.extend(found.refused.into_iter().map(|(path, error)| Candidate::refused(&path, error)));
    if unrecognized > 0 {
        print_note(format_args!(
            "skipped {} of `{}` in an unknown format: use `--any` to import every file",
            count(unrecognized, "file", "files"),
            folder.display()
        ));
    }
    Ok(found.sessions)
}

/// What importing a session added.
pub(crate) struct ImportResult {
    /// It is new in the store.
    pub(crate) is_new: bool,
    /// Nothing was added.
    pub(crate) is_unchanged: bool,
    pub(crate) intake: Intake,
}

impl ImportResult {
    /// Returns the result of a session that was not read, because it looks unchanged.
    pub(crate) fn unchanged() -> Self {
        Self { is_new: false, is_unchanged: true, intake: Intake::default() }
    }
}

/// A session that has to be read.
pub(crate) struct ChangedSession {
    pub(crate) found: FoundSession,
    /// What it looked like before it is read.
    pub(crate) stamp: ContentStamp,
    /// The stored session, if it was loaded already.
    pub(crate) loaded: Option<LoadReport>,
}

/// Assigns the id under which a session is stored, and reports if it is another one. Returns the
/// stored session, if it had to be loaded for that.
pub(crate) fn settle(
    store: &OpenStore,
    found: &mut FoundSession,
) -> Result<Option<LoadReport>, CommandError> {
    let shared = store.shared();
    let names = SessionNames::new(&shared);
    let (id, loaded) = store.wait(names.settle_within(found, Some(store.budget_of_import())))?;
    if id != found.id && id.as_str().starts_with(found.id.as_str()) {
        print_note(format_args!(
            "`{}` differs from the stored session `{}`: it is stored as `{id}`",
            found.place.display(),
            found.id
        ));
    }
    found.id = id;
    Ok(loaded)
}

/// Called with the number of bytes that were read.
pub(crate) type ImportProgress = Box<dyn FnMut(u64) + Send>;

/// The import of one session, which may still be running.
///
/// Each write waits for the disk, and one sync serves all that wait at the time: thousands of
/// sessions, one after another, would take minutes.
pub(crate) enum ImportTask {
    Running(JoinHandle<Result<ImportResult, CommandError>>),
    Done(Result<ImportResult, CommandError>),
}

impl ImportTask {
    /// Starts to read a session into the store.
    pub(crate) fn start(
        store: &OpenStore,
        index: &Arc<Mutex<ImportedFiles>>,
        session: ChangedSession,
        progress: ImportProgress,
    ) -> Self {
        Self::Running(store.spawn(prepare(store, index, session, progress)))
    }

    /// Reads a session into the store before it returns.
    ///
    /// For large sessions: a task runs on another thread, whose allocator would keep what the first
    /// one has freed.
    pub(crate) fn run(
        store: &OpenStore,
        index: &Arc<Mutex<ImportedFiles>>,
        session: ChangedSession,
        progress: ImportProgress,
    ) -> Self {
        Self::Done(store.wait(prepare(store, index, session, progress)))
    }

    /// Waits for the result.
    pub(crate) fn wait(self, store: &OpenStore) -> Result<ImportResult, CommandError> {
        match self {
            Self::Running(task) => match store.wait(task) {
                Ok(imported) => imported,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            },
            Self::Done(imported) => imported,
        }
    }
}

/// Returns an import that runs when it is waited for.
fn prepare(
    store: &OpenStore,
    index: &Arc<Mutex<ImportedFiles>>,
    session: ChangedSession,
    progress: ImportProgress,
) -> impl Future<Output = Result<ImportResult, CommandError>> + use<> {
    import(store.shared(), store.budget_of_import(), index.clone(), session, progress)
}

async fn import(
    store: Arc<dyn Store>,
    budget: Budget,
    index: Arc<Mutex<ImportedFiles>>,
    changed: ChangedSession,
    mut progress: ImportProgress,
) -> Result<ImportResult, CommandError> {
    let ChangedSession { found, stamp, loaded } = changed;
    // Unreadable content is reported before the session is created in the store.
    found.content.check()?;
    let options =
        Options { budget: Some(budget), loaded, ..Options::new(holder("threadfold import")) };
    let mut session = Session::open(store.clone(), &found.id, options).await?;
    let read = import_content(&mut session, &found, &stamp, &index, &mut progress).await;
    // The session is closed in any case, to release its lease.
    let closed = session.close().await;
    let read = read?;
    found.content.losses().iter().for_each(report_loss);
    for problem in closed? {
        print_note(format_args!("session `{}`: {problem}", found.id));
    }
    if let Some(entry) = store.entry(&found.id).await? {
        ImportedFiles::locked(&index).note(stamp, &read.imported, &entry);
    }
    let (is_new, is_unchanged, intake) = (read.is_new, read.is_unchanged, read.intake);
    Ok(ImportResult { is_new, is_unchanged, intake })
}

/// Reads the index of a store, and its sessions, without opening it for writing.
///
/// What prevents that is reported when the store is opened for writing.
pub(crate) fn imported_files(store: &StoreArgs) -> Result<ImportedFiles, CommandError> {
    let location = store.location()?;
    let (index, sessions) = thread::scope(|scope| {
        let index = scope.spawn(|| Some(ImportIndex::open(import_index_path(location.file()?))));
        let sessions = store.open_to_read().and_then(|store| store.sessions());
        (index.join(), sessions)
    });
    let index = index.unwrap_or_else(|panic| resume_unwind(panic));
    Ok(ImportedFiles::new(index, sessions.unwrap_or_default()))
}

/// Reports that the index could not be written, which only makes the next import slower.
pub(crate) fn report_index(written: Result<(), EngineError>) {
    if let Err(error) = written {
        let cause = CommandError::from(error).cause();
        print_note(format_args!("the next import reads everything again: {cause}"));
    }
}

/// Forgets that a session was removed, because a person imports it.
pub(crate) fn bring_back(store: &OpenStore, found: &FoundSession) -> Result<(), CommandError> {
    let Some(file) = store.location().file() else { return Ok(()) };
    Ok(RemovedSessions::open(file)?.forget(&found.id)?)
}

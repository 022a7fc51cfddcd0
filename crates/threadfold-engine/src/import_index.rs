//! The index of imported files: what each stored session was read from, as it was then.
//!
//! It makes importing again cost what is new. It is derived data in a file beside the store: it can
//! be deleted, and whatever it does not know, or knows about another log, is read again.

mod journal;
mod known_files;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use threadfold_core::SessionId;
use threadfold_fold::{GENERATION, LogId};
use threadfold_store::SessionEntry;

use self::journal::Journal;
use crate::error::EngineError;
use crate::file_stamp::FileStamp;
use crate::files::noted;
use crate::found_session::FoundSession;
use crate::session::Session;

use self::known_files::ImportedFile;
pub(crate) use self::known_files::KnownFiles;

/// The most bytes of a database in which a list searches for changed rows.
const SMALL_DATABASE: u64 = 64 << 20;

/// The files that the sessions of a store were read from.
pub struct ImportIndex {
    journal: Journal,
    imports: BTreeMap<ImportKey, Import>,
    /// The imports that are about the logs as they were when the index was asked.
    current: BTreeSet<ImportKey>,
    /// The imports that were not written yet.
    unwritten: BTreeSet<ImportKey>,
}

/// Identifies a session outside the store: its place, and the id that it was found under.
type ImportKey = (String, String);

/// The last import of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Import {
    place: String,
    found: String,
    /// The id that it is stored under.
    session: SessionId,
    agent: Option<String>,
    /// The log, and its end when the session had been read: a store that was restored from a backup
    /// has another one.
    log: LogId,
    seq: u64,
    updated: i64,
    /// The converters that read it: others write another summary.
    generation: u32,
    files: Vec<ImportedFile>,
    /// What shows that its rows changed, if it is in a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<String>,
}

/// What a session looks like outside the store, without reading it.
///
/// It is taken before the session is read: whatever looks the same later was read completely.
#[derive(Clone, Debug, Default)]
pub struct ContentStamp {
    /// The session, by its place and the id that it was found under.
    key: ImportKey,
    agent: Option<&'static str>,
    files: Vec<FileStamp>,
    rows: Option<String>,
    /// Nothing can change without changing this as well.
    is_settled: bool,
}

impl ContentStamp {
    /// Returns the present stamp of a session; an empty one if it cannot be known.
    pub fn of(found: &FoundSession) -> Self {
        let now = SystemTime::now();
        let origins = found.content.origins().unwrap_or_default();
        let stamps = origins.iter().map(|it| FileStamp::of(it)).collect::<Option<Vec<_>>>();
        let mut files = stamps.unwrap_or_default();
        files.sort();
        files.dedup();
        let is_settled = !files.is_empty() && files.iter().all(|it| it.is_settled(now));
        let agent = found.agent.map(|it| it.name());
        Self { key: key(found), agent, files, rows: None, is_settled }
    }
}

/// What the index knows about a session outside the store.
pub enum KnownImport {
    /// All of it is in the store, under this id.
    Unchanged(SessionId),
    /// It has changed since it was imported under this id.
    Changed(SessionId),
    /// It was not imported, or the store has another log now.
    Unknown,
}

impl ImportIndex {
    /// Reads the index in a file; a missing or corrupt one knows nothing.
    pub fn open(path: impl Into<PathBuf>) -> Self {
        let journal = Journal::new(path.into());
        let mut imports = BTreeMap::new();
        let journal = journal.read(|import: Import| {
            imports.insert((import.place.clone(), import.found.clone()), import);
        });
        Self { journal, imports, current: BTreeSet::new(), unwritten: BTreeSet::new() }
    }

    /// Returns what is known about a session that looks like this now.
    ///
    /// `stored` returns the stored session with an id.
    pub fn known<'a>(
        &mut self,
        found: &FoundSession,
        stamp: &mut ContentStamp,
        stored: impl Fn(&SessionId) -> Option<&'a SessionEntry>,
    ) -> KnownImport {
        let key = stamp.key.clone();
        let import = self.imports.get_mut(&key).filter(|import| {
            stored(&import.session).is_some_and(|entry| import.is_of(entry))
                && import.agent.as_deref() == stamp.agent
        });
        let Some(import) = import else {
            stamp.rows = found.content.row_stamp();
            return KnownImport::Unknown;
        };
        self.current.insert(key.clone());
        if !stamp.files.is_empty() && import.files.iter().map(|it| &it.stamp).eq(&stamp.files) {
            return KnownImport::Unchanged(import.session.clone());
        }
        stamp.rows = found.content.row_stamp();
        // The rows of one session stay as they are when others in the database change.
        if stamp.rows.is_none() || stamp.rows != import.rows {
            return KnownImport::Changed(import.session.clone());
        }
        if stamp.is_settled {
            import.files = stamp.files.iter().cloned().map(ImportedFile::unread).collect();
            self.unwritten.insert(key);
        }
        KnownImport::Unchanged(import.session.clone())
    }

    /// Returns whether a session looks unchanged since it was imported as `entry`, for lists: a
    /// large database is not searched for changes.
    pub fn is_unchanged(&self, found: &FoundSession, entry: &SessionEntry) -> bool {
        let stamp = ContentStamp::of(found);
        let import = self.imports.get(&stamp.key).filter(|import| {
            import.session == entry.session
                && import.is_of(entry)
                && import.agent.as_deref() == stamp.agent
        });
        let Some(import) = import.filter(|_| !stamp.files.is_empty()) else { return false };
        let size: u64 = stamp.files.iter().map(|it| it.size).sum();
        import.files.iter().map(|it| &it.stamp).eq(&stamp.files)
            || (import.rows.is_some()
                && size <= SMALL_DATABASE
                && import.rows == found.content.row_stamp())
    }

    /// Reads the files that look unchanged since they were imported, and returns those that have
    /// other content: somebody rewrote them, and restored their times. A file that cannot be read is
    /// no such one.
    ///
    /// `stored` returns the stored session with an id.
    pub fn rewritten_files<'a>(
        &self,
        stored: impl Fn(&SessionId) -> Option<&'a SessionEntry>,
    ) -> Vec<(SessionId, PathBuf)> {
        let is_of = |it: &&Import| stored(&it.session).is_some_and(|entry| it.is_of(entry));
        let mut rewritten = Vec::new();
        for import in self.imports.values().filter(is_of) {
            for file in import.files.iter().filter(|it| it.is_rewritten().unwrap_or(false)) {
                rewritten.push((import.session.clone(), PathBuf::from(&file.stamp.path)));
            }
        }
        rewritten.sort();
        rewritten.dedup();
        rewritten
    }

    /// Hands what is known about a session's files to the session, so that only what is new is
    /// read.
    pub fn prepare(&self, stamp: &ContentStamp, session: &mut Session) {
        let known = self.imports.get(&stamp.key).filter(|import| {
            let cursor = session.cursor();
            import.session == *session.id()
                && (&import.log, import.seq) == (&cursor.log, cursor.seq)
                && import.generation == GENERATION
        });
        session
            .know_files(KnownFiles::new(known.map(|it| it.files.as_slice()).unwrap_or_default()));
    }

    /// Notes that all of a session was read into the store, as it looked before.
    ///
    /// `entry` is the stored session after that. If another process wrote to it meanwhile, nothing
    /// is noted.
    pub fn note(&mut self, stamp: ContentStamp, session: &ImportedSession, entry: &SessionEntry) {
        let (key, rows) = (stamp.key, stamp.rows);
        let is_end = (&entry.head.log, entry.head.seq) == (&session.log, session.seq);
        if !is_end || (!stamp.is_settled && rows.is_none()) {
            return;
        }
        // Files that may still change unnoticed are not compared later, only rows.
        let files = if stamp.is_settled { stamp.files } else { Vec::new() };
        let import = Import {
            place: key.0.clone(),
            found: key.1.clone(),
            session: session.id.clone(),
            agent: stamp.agent.map(str::to_owned),
            log: session.log.clone(),
            seq: session.seq,
            updated: entry.updated.0,
            generation: GENERATION,
            files: files.into_iter().map(|it| session.files.imported(it)).collect(),
            rows,
        };
        self.imports.insert(key.clone(), import);
        self.unwritten.insert(key);
    }

    /// Writes what was noted since the last time, so that an import that is killed need not begin
    /// again.
    pub fn flush(&mut self) -> Result<(), EngineError> {
        let unwritten = std::mem::take(&mut self.unwritten);
        self.current.extend(unwritten.iter().cloned());
        self.journal.append(unwritten.iter().filter_map(|key| self.imports.get(key)))
    }

    /// Writes the rest of what was noted. `stored` returns the stored session with an id, as it is
    /// now.
    ///
    /// Several sessions outside the store may be one in it: reading one moves the end of the log
    /// for the others.
    pub fn write<'a>(
        &mut self,
        stored: impl Fn(&SessionId) -> Option<&'a SessionEntry>,
    ) -> Result<(), EngineError> {
        let checked: Vec<ImportKey> = self.current.union(&self.unwritten).cloned().collect();
        for key in checked {
            let Some(import) = self.imports.get_mut(&key) else { continue };
            let entry = stored(&import.session).filter(|it| it.head.log == import.log);
            let end = entry.map(|it| (it.head.seq, it.updated.0)).filter(|it| it.0 >= import.seq);
            if let Some(end) = end.filter(|end| *end != (import.seq, import.updated)) {
                (import.seq, import.updated) = end;
                self.unwritten.insert(key);
            }
        }
        let unwritten = std::mem::take(&mut self.unwritten);
        let news = unwritten.iter().filter_map(|key| self.imports.get(key));
        let is_stored = |import: &&Import| stored(&import.session).is_some();
        self.journal.write(news, self.imports.values().filter(is_stored))
    }
}

/// A session that was just imported.
pub struct ImportedSession {
    id: SessionId,
    log: LogId,
    seq: u64,
    files: KnownFiles,
}

impl ImportedSession {
    /// Returns what is known of a session before it is closed.
    pub fn of(session: &mut Session) -> Self {
        let cursor = session.cursor();
        let (id, files) = (session.id().clone(), session.take_known_files());
        Self { id, log: cursor.log, seq: cursor.seq, files }
    }
}

impl Import {
    /// Returns whether this is about the stored session as it is: about its whole log, read by the
    /// present converters, and with a summary of it.
    fn is_of(&self, entry: &SessionEntry) -> bool {
        let has_summary = entry
            .summary
            .as_ref()
            .is_some_and(|it| it.generation == GENERATION && it.seq == entry.head.seq);
        let end = (&entry.head.log, entry.head.seq, entry.updated.0);
        has_summary && self.generation == GENERATION && (&self.log, self.seq, self.updated) == end
    }
}

fn key(found: &FoundSession) -> ImportKey {
    let place = std::path::absolute(&found.place).unwrap_or_else(|_| found.place.clone());
    (noted(&place), found.id.to_string())
}

/// Returns the path of the index of a store in this file.
pub fn import_index_path(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(".files");
    PathBuf::from(name)
}

//! The content of OpenCode sessions: rows of a database, or files of the older folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use threadfold_core::SessionId;
use threadfold_fold::{Glance, Record, RecordKind, Source, SourceRole, SourceSpec};

use super::database::{OpencodeDb, RowFollower, SessionRows};
use super::storage::{Storage, StorageFile};
use super::{AgentAccess, Opencode};
use crate::error::EngineError;
use crate::files::{FileFollower, Form, InputFile, Intake, check_all, check_readable, stamp_of};
use crate::found_session::{Follow, SessionContent, Stamp};
use crate::glance::SHORT_SESSION;
use crate::session::Session;

/// How often to poll a database or a folder of many files.
const INTERVAL: Duration = Duration::from_millis(300);

/// A session in a database.
pub(super) struct RowContent {
    path: PathBuf,
    session: String,
    changed: Option<SystemTime>,
    rows: Arc<SessionRows>,
}

impl RowContent {
    pub(super) fn new(
        path: &Path,
        session: &str,
        changed: Option<SystemTime>,
        rows: Arc<SessionRows>,
    ) -> Self {
        Self { path: path.to_owned(), session: session.to_owned(), changed, rows }
    }
}

impl SessionContent for RowContent {
    fn check(&self) -> Result<(), EngineError> {
        OpencodeDb::open(&self.path)?.family_of(&self.session)?;
        Ok(())
    }

    fn files(&self) -> Result<Vec<InputFile>, EngineError> {
        Ok(Vec::new())
    }

    fn origins(&self) -> Result<Vec<PathBuf>, EngineError> {
        let mut log = self.path.as_os_str().to_owned();
        log.push("-wal");
        let log = Some(PathBuf::from(log)).filter(|it| it.exists());
        Ok([self.path.clone()].into_iter().chain(log).collect())
    }

    fn is_in_database(&self) -> bool {
        true
    }

    fn row_stamp(&self) -> Option<String> {
        self.rows.stamp_of(&self.session)
    }

    fn glance(&self, session: &SessionId) -> Result<Option<Glance>, EngineError> {
        let line = self.rows.line_of(&self.session).unwrap_or_default();
        let record = Record::new(RecordKind::Line, 1, 0, format!("{line}\n"));
        let spec = RowFollower::new(&self.path, &self.session).spec().clone();
        Ok(Some(Glance::of_header(session, Opencode.agent(), &spec, record)))
    }

    fn stamp(&self) -> Stamp {
        Stamp { files: 0, bytes: None, changed: self.changed }
    }

    fn follower(&self) -> Box<dyn Follow> {
        Box::new(RowFollower::new(&self.path, &self.session))
    }
}

#[async_trait]
impl Follow for RowFollower {
    async fn poll(
        &mut self,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError> {
        let intake = self.read(session).await?;
        progress(intake.bytes);
        Ok(intake)
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }
}

/// A session in the older folder of files.
#[derive(Clone)]
pub(super) struct StorageContent {
    folder: PathBuf,
    session: String,
    /// The folder as it was when the session was found: to list it for each of its sessions would
    /// cost the square of their number.
    found: Option<Arc<Storage>>,
}

impl StorageContent {
    pub(super) fn new(found: &Arc<Storage>, session: &str) -> Self {
        let (folder, session) = (found.folder().to_owned(), session.to_owned());
        Self { folder, session, found: Some(found.clone()) }
    }

    fn stored(&self) -> Result<Vec<StorageFile>, EngineError> {
        match &self.found {
            Some(found) => found.files(&self.session),
            None => Storage::open(&self.folder).files(&self.session),
        }
    }
}

impl SessionContent for StorageContent {
    fn check(&self) -> Result<(), EngineError> {
        check_all(self.stored()?.iter().map(|it| it.path.as_path()))
    }

    fn files(&self) -> Result<Vec<InputFile>, EngineError> {
        Ok(self.stored()?.iter().map(input_file).collect())
    }

    fn stamp(&self) -> Stamp {
        let files = self.stored().unwrap_or_default();
        stamp_of(files.iter().map(|it| it.path.as_path()))
    }

    /// The file of the session is read, and not those of its messages, unless they are few.
    fn glance(&self, session: &SessionId) -> Result<Option<Glance>, EngineError> {
        let files = self.stored()?;
        let mut size = 0;
        for file in &files {
            size += check_readable(&file.path)?;
        }
        let main = files.first().filter(|_| size > SHORT_SESSION);
        let Some(main) = main else { return Ok(None) };
        let unreadable = |source| EngineError::File { path: main.path.clone(), source };
        let bytes = fs::read(&main.path).map_err(unreadable)?;
        let record = Record::new(RecordKind::Document, 1, 0, bytes);
        let spec = input_file(main).spec;
        Ok(Some(Glance::of_header(session, Opencode.agent(), &spec, record)))
    }

    fn follower(&self) -> Box<dyn Follow> {
        Box::new(StorageFollower { content: self.clone() })
    }
}

fn input_file(file: &StorageFile) -> InputFile {
    let place = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
    let role = if file.is_attached { SourceRole::Attached } else { SourceRole::Main };
    let spec = SourceSpec::new(Opencode.agent(), role, file.name.as_str());
    let spec = spec.at(place.to_string_lossy());
    InputFile { spec, path: file.path.clone(), form: Form::Document }
}

/// Reads the files of a session at every poll.
struct StorageFollower {
    content: StorageContent,
}

#[async_trait]
impl Follow for StorageFollower {
    async fn poll(
        &mut self,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError> {
        let files = self.content.stored()?;
        // Later polls must find sessions that were added since.
        self.content.found = None;
        let mut intake = Intake::default();
        let mut known = BTreeSet::new();
        for file in &files {
            let input = input_file(file);
            if known.insert(file) {
                intake.add(FileFollower::new(input).poll(session, progress).await?);
            } else if intake.records > 0 {
                // A revert can be applied only after the session's messages, so the session's
                // file is read again after them.
                let unreadable = |source| EngineError::File { path: file.path.clone(), source };
                let bytes = fs::read(&file.path).map_err(unreadable)?;
                let is_same = |it: &&Source| {
                    it.spec.kind == input.spec.kind && it.spec.path == input.spec.path
                };
                let known = session.fold().same_files(&input.spec).rfind(is_same);
                let source = match known.map(|it| it.number) {
                    Some(known) => known,
                    None => session.source(&input.spec).await?,
                };
                let record = Record::new(RecordKind::Document, source, 0, bytes);
                session.accept(vec![record]).await?;
            }
        }
        Ok(intake)
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }
}

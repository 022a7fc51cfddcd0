//! The content of OpenCode sessions: rows of a database, or files of the older folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use threadfold_fold::{Record, RecordKind, Source, SourceRole, SourceSpec};

use super::database::{OpencodeDb, RowFollower};
use super::storage::{Storage, StorageFile};
use super::{AgentAccess, Opencode};
use crate::error::EngineError;
use crate::files::{FileFollower, Form, InputFile, Intake, check_readable, folder_of, stamp_of};
use crate::found_session::{Follow, SessionContent, Stamp};
use crate::session::Session;

/// How often to poll a database or a folder of many files.
const INTERVAL: Duration = Duration::from_millis(300);
/// The time between two reads of a database that is being written: each costs several queries.
const PAUSE: Duration = Duration::from_millis(50);

/// A session in a database.
pub(super) struct RowContent {
    path: PathBuf,
    session: String,
    changed: Option<SystemTime>,
}

impl RowContent {
    pub(super) fn new(path: &Path, session: &str, changed: Option<SystemTime>) -> Self {
        Self { path: path.to_owned(), session: session.to_owned(), changed }
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

    fn stamp(&self) -> Stamp {
        Stamp { files: 0, bytes: None, changed: self.changed }
    }

    fn folders(&self) -> Vec<PathBuf> {
        // SQLite writes beside the target of a link, not beside the link.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        vec![folder_of(&path)]
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

    fn pause(&self) -> Duration {
        PAUSE
    }
}

/// A session in the older folder of files.
pub(super) struct StorageContent {
    folder: PathBuf,
    session: String,
}

impl StorageContent {
    pub(super) fn new(folder: &Path, session: &str) -> Self {
        Self { folder: folder.to_owned(), session: session.to_owned() }
    }

    fn stored(&self) -> Result<Vec<StorageFile>, EngineError> {
        Storage::open(&self.folder).files(&self.session)
    }
}

impl SessionContent for StorageContent {
    fn check(&self) -> Result<(), EngineError> {
        self.stored()?.iter().try_for_each(|it| check_readable(&it.path))
    }

    fn files(&self) -> Result<Vec<InputFile>, EngineError> {
        Ok(self.stored()?.iter().map(input_file).collect())
    }

    fn stamp(&self) -> Stamp {
        let files = self.stored().unwrap_or_default();
        stamp_of(files.iter().map(|it| it.path.as_path()))
    }

    fn folders(&self) -> Vec<PathBuf> {
        // Every message has a folder of its own.
        Vec::new()
    }

    fn follower(&self) -> Box<dyn Follow> {
        let content = Self::new(&self.folder, &self.session);
        Box::new(StorageFollower { content })
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
        let mut intake = Intake::default();
        for (index, file) in files.iter().enumerate() {
            let input = input_file(file);
            if !files[..index].contains(file) {
                intake.add(FileFollower::new(input).poll(session, progress).await?);
            } else if intake.records > 0 {
                // A revert can be applied only after the session's messages, so the session's
                // file is read again after them.
                let unreadable = |source| EngineError::File { path: file.path.clone(), source };
                let bytes = fs::read(&file.path).map_err(unreadable)?;
                let is_same = |it: &&Source| {
                    it.spec.kind == input.spec.kind && it.spec.path == input.spec.path
                };
                let known = session.fold().sources().rfind(is_same).map(|it| it.number);
                let source = match known {
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

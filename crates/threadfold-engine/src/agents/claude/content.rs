//! The content of a Claude Code session: its main file, and subagents' files that may appear late.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::beside::SubagentsBeside;
use super::claude_files;
use super::files::files_among;
use crate::error::EngineError;
use crate::files::{GrowingSetFollower, InputFile, check_all, stamp_of};
use crate::found_session::{Follow, SessionContent, Stamp};

/// The files of a session.
#[derive(Clone, Debug)]
pub(super) struct ClaudeContent {
    main: PathBuf,
    /// Main files of the same session in other folders: Claude Code copies a session when it is
    /// resumed elsewhere.
    copies: Vec<PathBuf>,
    /// A file beside the main file may belong to a subagent.
    may_have_subagents: bool,
    /// The main file is missing, and only the other files are left.
    is_orphaned: bool,
    /// The subagents' files beside the main file, as they were when it was found.
    beside: Option<Arc<SubagentsBeside>>,
    /// All files, as they were when it was found with all others of its place; empty until they are
    /// needed.
    found: Option<Arc<OnceLock<Vec<InputFile>>>>,
}

impl ClaudeContent {
    pub(super) fn of_main(main: &Path) -> Self {
        let (main, copies) = (main.to_owned(), Vec::new());
        let (beside, found) = (None, None);
        Self { main, copies, may_have_subagents: true, is_orphaned: false, beside, found }
    }

    /// Returns a session that consists of its main file alone, because searching a folder of
    /// thousands for subagents' files is slow.
    pub(super) fn without_subagents(main: &Path) -> Self {
        Self { may_have_subagents: false, found: Some(Arc::default()), ..Self::of_main(main) }
    }

    /// Returns a session whose folder was searched for subagents' files, with those of all others.
    pub(super) fn among(main: &Path, beside: Arc<SubagentsBeside>) -> Self {
        Self { beside: Some(beside), found: Some(Arc::default()), ..Self::of_main(main) }
    }

    pub(super) fn orphaned(main: &Path) -> Self {
        Self { is_orphaned: true, found: Some(Arc::default()), ..Self::of_main(main) }
    }

    fn list(&self) -> Result<Vec<InputFile>, EngineError> {
        let mut files = match self.may_have_subagents {
            true => files_among(&self.main, self.beside.as_deref())?,
            false => vec![super::files::main_file(&self.main)],
        };
        if self.is_orphaned {
            files.retain(|it| it.path != self.main);
        }
        for copy in &self.copies {
            files.extend(claude_files(copy)?);
        }
        Ok(files)
    }
}

impl SessionContent for ClaudeContent {
    fn check(&self) -> Result<(), EngineError> {
        check_all(self.files()?.iter().map(|it| it.path.as_path()))
    }

    fn files(&self) -> Result<Vec<InputFile>, EngineError> {
        let Some(found) = &self.found else { return self.list() };
        if let Some(files) = found.get() {
            return Ok(files.clone());
        }
        let files = self.list()?;
        Ok(found.get_or_init(|| files).clone())
    }

    fn stamp(&self) -> Stamp {
        match self.files() {
            Ok(files) => stamp_of(files.iter().map(|it| it.path.as_path())),
            Err(_) => stamp_of([self.main.as_path()]),
        }
    }

    fn follower(&self) -> Box<dyn Follow> {
        // Later lists must find files that were added since.
        let growing = Self { beside: None, found: None, ..self.clone() };
        Box::new(
            GrowingSetFollower::new(Arc::new(growing), |file| &file.path)
                .first(Arc::new(self.clone())),
        )
    }

    fn has_copies(&self) -> bool {
        !self.copies.is_empty()
    }

    fn with_copy(&self, other: &Path) -> Option<Arc<dyn SessionContent>> {
        let length = |path: &Path| path.metadata().map_or(0, |it| it.len());
        let mut content = Self {
            may_have_subagents: true,
            beside: None,
            found: Some(Arc::default()),
            ..self.clone()
        };
        // The longest copy comes first, because it contains most of the others.
        let mut copy = other.to_owned();
        if length(&copy) > length(&content.main) {
            std::mem::swap(&mut copy, &mut content.main);
        }
        content.copies.push(copy);
        content.copies.sort();
        Some(Arc::new(content))
    }
}

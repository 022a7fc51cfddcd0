//! The content of a Codex session: the files of its thread and of its subagents, which may appear
//! late.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use threadfold_convert::codex::AGENT;
use threadfold_convert::codex::layout::{RolloutIndex, RolloutRole};
use threadfold_core::SessionId;
use threadfold_fold::{Glance, SourceRole, SourceSpec};

use super::compressed::PlainCopies;
use super::heads::{self, Rollout};
use crate::error::EngineError;
use crate::files::{Form, GrowingSetFollower, InputFile, check_all, folder_of, noted, stamp_of};
use crate::found_session::{Follow, LostContent, SessionContent, Stamp};
use crate::glance::{SampledFile, sample};

/// The rollouts that are known, by path; all sessions of a place share them. One is read once: its
/// first record never changes.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownRollouts(Arc<Mutex<BTreeMap<PathBuf, Option<Rollout>>>>);

impl KnownRollouts {
    pub(super) fn of(rollouts: &[Rollout]) -> Self {
        let known = rollouts.iter().map(|it| (it.path.clone(), Some(it.clone()))).collect();
        Self(Arc::new(Mutex::new(known)))
    }

    /// Returns the rollouts that are known, and these.
    fn with(&self, paths: Vec<PathBuf>) -> Vec<Rollout> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for path in paths {
            known.entry(path.clone()).or_insert_with(|| heads::read(&path));
        }
        heads::sorted(known.values().flatten().cloned().collect())
    }
}

/// A file of a session.
#[derive(Clone, Debug)]
pub(super) struct RolloutFile {
    pub(super) path: PathBuf,
    pub(super) role: RolloutRole,
    pub(super) is_packed: bool,
}

impl RolloutFile {
    pub(super) fn new(rollout: &Rollout, role: RolloutRole) -> Self {
        Self { path: rollout.path.clone(), role, is_packed: rollout.is_packed }
    }
}

/// The files of a session.
#[derive(Clone, Debug)]
pub(super) struct CodexContent {
    main: PathBuf,
    thread: String,
    known: KnownRollouts,
    /// Its files as they were when it was found with all others of its place.
    found: Option<Arc<Vec<RolloutFile>>>,
    copies: Arc<Mutex<PlainCopies>>,
}

impl CodexContent {
    pub(super) fn new(main: &Path, thread: &str, known: KnownRollouts) -> Self {
        let (main, thread) = (main.to_owned(), thread.to_owned());
        Self { main, thread, known, found: None, copies: Arc::default() }
    }

    /// Returns the content with these files, so that the place is not searched for them again.
    pub(super) fn with_files(self, files: Vec<RolloutFile>) -> Self {
        Self { found: Some(Arc::new(files)), ..self }
    }

    /// Returns its files in the order to read them, compressed ones as well.
    fn rollouts(&self) -> Vec<RolloutFile> {
        let mut files = match &self.found {
            Some(found) => found.to_vec(),
            None => {
                let rollouts = self.known.with(self.siblings());
                let named = heads::named(&rollouts);
                let files = RolloutIndex::new(&named).session_files(&self.thread);
                files
                    .into_iter()
                    .map(|(index, role)| RolloutFile::new(&rollouts[index], role))
                    .collect()
            }
        };
        // A file that is being moved to the archive may be in two places at once.
        let mut names = BTreeSet::new();
        files.retain(|it| names.insert(heads::plain_name(&it.path)));
        files
    }

    /// Returns the files that may belong to the session: those of the main file's day and of later
    /// days, because a thread is older than its subagents.
    fn siblings(&self) -> Vec<PathBuf> {
        let folder = folder_of(&self.main);
        let days = later_days(&folder).unwrap_or_else(|| vec![folder]);
        let mut paths = Vec::new();
        for day in days {
            let entries = fs::read_dir(day).into_iter().flatten().flatten();
            paths.extend(entries.map(|it| it.path()).filter(|it| heads::is_named(it)));
        }
        paths.sort();
        paths
    }
}

/// Returns a day's folder and those of later days; nothing if the folder is not `YYYY/MM/DD`.
fn later_days(folder: &Path) -> Option<Vec<PathBuf>> {
    let is_number = |name: Option<&OsStr>| {
        name.and_then(OsStr::to_str).is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let month = folder.parent()?;
    let year = month.parent()?;
    let root = year.parent()?;
    let is_day = [folder, month, year].iter().all(|it| is_number(it.file_name()));
    if !is_day {
        return None;
    }
    let mut days = vec![root.to_owned()];
    for level in [year, month, folder] {
        let depth = level.components().count();
        let mut next = Vec::new();
        for parent in days {
            let entries = fs::read_dir(parent).into_iter().flatten().flatten();
            let is_later = |path: &PathBuf| {
                let own: PathBuf = folder.components().take(depth).collect();
                is_number(path.file_name()) && *path >= own
            };
            next.extend(entries.map(|it| it.path()).filter(is_later));
        }
        days = next;
    }
    Some(days)
}

impl SessionContent for CodexContent {
    fn check(&self) -> Result<(), EngineError> {
        check_all(self.files()?.iter().map(|it| it.path.as_path()))
    }

    fn files(&self) -> Result<Vec<InputFile>, EngineError> {
        let mut files: Vec<InputFile> = Vec::new();
        for rollout in self.rollouts() {
            let mut file = input_file(&rollout);
            if rollout.is_packed {
                let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
                file.path = copies.path(&file.path)?;
            }
            files.push(file);
        }
        Ok(files)
    }

    fn origins(&self) -> Result<Vec<PathBuf>, EngineError> {
        Ok(self.rollouts().into_iter().map(|it| it.path).collect())
    }

    fn stamp(&self) -> Stamp {
        stamp_of(self.rollouts().iter().map(|it| it.path.as_path()))
    }

    fn line_stamp(&self) -> Option<Stamp> {
        let rollouts = self.rollouts();
        let stamp = stamp_of(rollouts.iter().map(|it| it.path.as_path()));
        let is_plain = !rollouts.iter().any(|it| it.is_packed);
        Some(Stamp { bytes: stamp.bytes.filter(|_| is_plain), ..stamp })
    }

    /// A compressed rollout is not decompressed for a list.
    fn glance(&self, session: &SessionId) -> Result<Option<Glance>, EngineError> {
        let rollouts = self.rollouts();
        if !rollouts.iter().any(|it| it.is_packed) {
            return Ok(None);
        }
        check_all(rollouts.iter().map(|it| it.path.as_path()))?;
        let sampled = |it: &RolloutFile| {
            let InputFile { spec, path, .. } = input_file(it);
            match it.is_packed {
                true => SampledFile::compressed(spec, path),
                false => SampledFile::plain(spec, path),
            }
        };
        sample(session, AGENT, rollouts.iter().map(sampled).collect()).map(Some)
    }

    fn losses(&self) -> Vec<LostContent> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).losses()
    }

    fn folders(&self) -> Vec<PathBuf> {
        let folder = folder_of(&self.main);
        let Some(days) = later_days(&folder) else { return vec![folder] };
        // The folders above a day get a new entry when the next day, month or year begins.
        let with_parents = |day: PathBuf| day.ancestors().take(4).map(Path::to_owned).collect();
        days.into_iter().flat_map::<Vec<PathBuf>, _>(with_parents).collect()
    }

    fn follower(&self) -> Box<dyn Follow> {
        // Later lists must find files that were added since. A rollout is moved to the archive under
        // its name.
        let growing = Self { found: None, ..self.clone() };
        Box::new(
            GrowingSetFollower::new(Arc::new(growing), |file| Path::new(&file.spec.name))
                .first(Arc::new(self.clone())),
        )
    }
}

fn input_file(RolloutFile { path, role, .. }: &RolloutFile) -> InputFile {
    let name = heads::plain_name(path);
    let place = path.with_file_name(&name);
    let place = std::path::absolute(&place).unwrap_or(place);
    let spec = |role| SourceSpec::new(AGENT, role, name.clone()).at(noted(&place));
    let spec = match role {
        RolloutRole::Main | RolloutRole::Base => spec(SourceRole::Main),
        RolloutRole::Subagent(thread) => {
            spec(SourceRole::Subagent).of_subagent(thread.as_str().into())
        }
    };
    InputFile { spec, path: path.to_owned(), form: Form::Lines }
}

//! Finds sessions of Codex: the threads that no other thread started.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use threadfold_convert::codex::layout::{RolloutIndex, RolloutRole};
use threadfold_core::SessionId;
use threadfold_fold::Detection;

use super::Codex;
use super::content::{CodexContent, KnownRollouts, RolloutFile};
use super::heads::{self, Rollout};
use super::places::FOLDERS;
use crate::agents::AgentAccess;
use crate::discover::{Discovery, FolderTree};
use crate::error::EngineError;
use crate::found_session::{FoundSession, IdOrigin};
use crate::open_path::name_packed;

/// How deep the folders of days are: year, month, day.
const DEPTH: usize = 3;

/// Adds the sessions in Codex's home.
pub(super) fn place(home: &Path, found: &mut Discovery) {
    let mut paths = Vec::new();
    for name in FOLDERS {
        list(&home.join(name), DEPTH, found, &mut paths);
    }
    let rollouts = paths.iter().filter(|it| heads::is_named(it)).filter_map(|it| heads::read(it));
    add(heads::sorted(rollouts.collect()), found);
}

fn list(folder: &Path, depth: usize, found: &mut Discovery, paths: &mut Vec<PathBuf>) {
    for path in found.list(folder) {
        match path.is_dir() {
            true if depth > 0 => list(&path, depth - 1, found, paths),
            true => {}
            false => paths.push(path),
        }
    }
}

/// Adds the sessions that these files make.
fn add(rollouts: Vec<Rollout>, found: &mut Discovery) {
    let named = heads::named(&rollouts);
    let index = RolloutIndex::new(&named);
    let known = KnownRollouts::of(&rollouts);
    for root in index.roots() {
        let files: Vec<_> = index.session_files(root);
        let Some((main, _)) = files.first() else { continue };
        let main = rollouts[*main].path.as_path();
        let files =
            files.iter().map(|(index, role)| RolloutFile::new(&rollouts[*index], role.clone()));
        let content = CodexContent::new(main, root, known.clone()).with_files(files.collect());
        found.add(session_of(main, root, content));
    }
}

fn session_of(main: &Path, thread: &str, content: CodexContent) -> FoundSession {
    FoundSession {
        id: SessionId::from(thread),
        naming: IdOrigin::Agent,
        agent: Some(Codex.agent()),
        project: String::new(),
        place: main.to_owned(),
        parent: None,
        content: Arc::new(content),
    }
}

/// Returns the session of a compressed file whose first record is missing, so that nothing tells
/// which files belong to it.
pub(super) fn session_of_packed(
    path: &Path,
    input: Detection,
) -> Result<FoundSession, EngineError> {
    let (id, naming) = name_packed(path, input)?;
    let main = RolloutFile { path: path.to_owned(), role: RolloutRole::Main, is_packed: true };
    let content = CodexContent::new(path, "", KnownRollouts::default()).with_files(vec![main]);
    Ok(FoundSession { id, naming, ..session_of(path, "", content) })
}

/// Returns the session of a file that the user named; nothing if its first record is missing.
pub(super) fn session_of_file(path: &Path) -> Option<FoundSession> {
    let rollout = heads::read(path)?;
    let thread = rollout.head.thread.clone();
    Some(session_of(path, &thread, CodexContent::new(path, &thread, KnownRollouts::of(&[rollout]))))
}

/// Claims rollouts from a folder that the user named, whatever their names.
pub(super) fn claim(tree: &mut FolderTree, found: &mut Discovery) {
    let mut names = BTreeSet::new();
    let mut rollouts = Vec::new();
    for path in tree.matching(heads::is_named_as_lines) {
        // Another copy of a file is a session of its own, which the store compares with this one.
        let rollout = heads::read(&path).filter(|it| names.insert(heads::plain_name(&it.path)));
        rollouts.extend(rollout);
    }
    // A session has decompressed copies of these files.
    for packed in rollouts.iter().filter(|it| it.is_packed) {
        tree.remove_file(&packed.path);
    }
    add(heads::sorted(rollouts), found);
    tree.remove_claimed(found);
}

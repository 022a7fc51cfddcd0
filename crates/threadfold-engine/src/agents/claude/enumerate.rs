//! Finds sessions of Claude Code by folder and file names.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use threadfold_convert::claude::layout::{is_session_name, sessions};
use threadfold_core::SessionId;
use threadfold_fold::{Detection, Shape};

use super::beside::SubagentsBeside;
use super::content::ClaudeContent;
use super::files::FOLDERS;
use super::{Claude, SUBAGENT, open_among, project_of};
use crate::agents::AgentAccess;
use crate::discover::{Discovery, EntryKind, FolderTree, name_of};
use crate::files::{Form, noted};
use crate::found_session::{FoundSession, IdOrigin};
use crate::open_path::{InputOptions, name_file, open_path, recognize};

/// Adds the sessions in one of Claude Code's folders: those in projects, and those anywhere below it
/// whose main file is missing.
pub(super) fn place(folder: &Path, found: &mut Discovery) {
    let mut claimed = ClaimedFiles::default();
    for inner in project(folder, found, &mut claimed).into_iter().filter(|it| it.is_dir()) {
        project(&inner, found, &mut claimed);
    }
    let mut tree = FolderTree::read_without(folder, |path, kind| claimed.has(path, kind));
    tree.skip_claimed(found);
    orphans(&mut tree, found);
}

/// Adds the sessions of a project, and returns the other entries of its folder.
fn project(folder: &Path, found: &mut Discovery, claimed: &mut ClaimedFiles) -> Vec<PathBuf> {
    let is_of_agent = |path: &PathBuf| {
        let name = name_of(path);
        name.starts_with(SUBAGENT) && (name.ends_with(".jsonl") || name.ends_with(".meta.json"))
    };
    let (agents, others): (Vec<_>, Vec<_>) = found.list(folder).into_iter().partition(is_of_agent);
    let (mains, others): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|it| name_of(it).ends_with(".jsonl"));
    let beside = Arc::new(SubagentsBeside::among(&agents));
    claimed.add(&mains, &beside);
    for main in &mains {
        let has_folder = others.binary_search(&main.with_extension("")).is_ok();
        let content = match !agents.is_empty() || has_folder {
            true => ClaudeContent::among(main, beside.clone()),
            false => ClaudeContent::without_subagents(main),
        };
        found.add(session_of(main, content));
    }
    others
}

/// The files of the sessions that were found by their main files.
///
/// To list the folders of those sessions takes as long as everything else, and is left to whoever
/// needs their files.
#[derive(Default)]
struct ClaimedFiles {
    mains: HashSet<PathBuf>,
    beside: HashSet<PathBuf>,
}

impl ClaimedFiles {
    /// Adds the main files of a folder, and the subagents' files beside them that belong to one.
    fn add(&mut self, mains: &[PathBuf], beside: &SubagentsBeside) {
        let Some(first) = mains.first() else { return };
        // A folder that is in no layout has no subagents beside its main files.
        if !sessions(&[noted(first)]).is_empty() {
            let mut paths = Vec::new();
            beside.add_of_any(&mut paths);
            for main in mains {
                let stem = main.file_stem().unwrap_or_default();
                beside.add_own(&stem.to_string_lossy(), &mut paths);
            }
            self.beside.extend(paths);
        }
        self.mains.extend(mains.iter().cloned());
    }

    fn has(&self, path: &Path, kind: EntryKind) -> bool {
        match kind {
            EntryKind::File => self.mains.contains(path) || self.beside.contains(path),
            EntryKind::Folder if is_session_name(&name_of(path)) => self.has_main(path),
            EntryKind::Folder => {
                let is_known = FOLDERS.iter().any(|it| name_of(path) == *it);
                is_known && path.parent().is_some_and(|own| self.has_main(own))
            }
        }
    }

    /// Returns whether there is a main file of the session with this folder.
    fn has_main(&self, own: &Path) -> bool {
        let mut main = own.as_os_str().to_owned();
        main.push(".jsonl");
        self.mains.contains(Path::new(&main))
    }
}

/// Returns the session of a main file.
fn session_of(main: &Path, content: ClaudeContent) -> FoundSession {
    let (id, naming) = name_main(main);
    FoundSession {
        id,
        naming,
        agent: Some(Claude.agent()),
        project: project_of(main),
        place: main.to_owned(),
        parent: None,
        content: Arc::new(content),
    }
}

/// Returns the id of the session with this main file. An unreadable file is reported later, when its session is read.
fn name_main(main: &Path) -> (SessionId, IdOrigin) {
    let stem = main.file_stem().unwrap_or_default().to_string_lossy();
    let agent = Claude.agent();
    let transcript = agent.format(Shape::Transcript);
    let input = transcript.map(|format| Detection { agent: Some(agent), format });
    // Reading a pipe would block.
    let is_file = main.metadata().is_ok_and(|it| it.is_file());
    let is_named = agent.is_session_name(&stem);
    let named = input.filter(|_| is_file || is_named).map(|it| name_file(main, it, Form::Lines));
    match named {
        Some(Ok(named)) => named,
        _ => (SessionId::from(&*stem), IdOrigin::Content),
    }
}

/// Claims main files, with everything that belongs to them, from a folder that the user named.
pub(super) fn claim(tree: &mut FolderTree, found: &mut Discovery) {
    let is_main = |path: &Path| {
        let name = name_of(path);
        // Everything below a session's folder belongs to that session, whatever its name.
        name.ends_with(".jsonl") && !name.starts_with(SUBAGENT) && session_folder(path).is_none()
    };
    let mut beside = BTreeMap::new();
    for main in tree.matching(is_main) {
        let Ok(input) = recognize(&main) else { continue };
        // Others are left to their agents' modules.
        if input.agent != Some(Claude.agent()) {
            continue;
        }
        let folder = main.parent().unwrap_or(Path::new("")).to_owned();
        let beside = beside.entry(folder).or_insert_with_key(|folder| {
            let files = tree.files_in(folder, SUBAGENT);
            Arc::new(SubagentsBeside::among(&files))
        });
        let options = InputOptions::default();
        if let Ok(sessions) = open_among(&main, input, &options, Some(beside.clone())) {
            sessions.into_iter().for_each(|it| found.add(it));
        }
    }
    tree.remove_claimed(found);
}

/// Returns the session folder that contains a file.
fn session_folder(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|it| is_session_name(&name_of(it)))
}

/// Adds sessions whose main file is missing: session folders, and subagents' files without a
/// session.
pub(super) fn orphans(tree: &mut FolderTree, found: &mut Discovery) {
    let mains: BTreeSet<PathBuf> = tree
        .files()
        .filter_map(session_folder)
        .map(|folder| folder.with_extension("jsonl"))
        .filter(|main| !main.exists())
        .collect();
    for main in mains {
        let place = main.with_extension("");
        found.add(FoundSession {
            id: SessionId::from(name_of(&place).as_str()),
            naming: IdOrigin::Agent,
            agent: Some(Claude.agent()),
            project: project_of(&main),
            place,
            parent: None,
            content: Arc::new(ClaudeContent::orphaned(&main)),
        });
    }
    tree.remove_claimed(found);
    let is_subagent = |path: &Path| {
        let name = name_of(path);
        name.starts_with(SUBAGENT) && name.ends_with(".jsonl")
    };
    for path in tree.matching(is_subagent) {
        let options = InputOptions::default();
        if let Ok(sessions) = open_path(&path, &options) {
            sessions.into_iter().for_each(|it| found.add(it));
        }
    }
    tree.remove_claimed(found);
}

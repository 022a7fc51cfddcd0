//! Finds sessions of Claude Code by folder and file names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use threadfold_convert::claude::layout::is_session_name;
use threadfold_core::SessionId;
use threadfold_fold::{Detection, Shape};

use super::beside::SubagentsBeside;
use super::content::ClaudeContent;
use super::{Claude, SUBAGENT, open_among, project_of};
use crate::agents::AgentAccess;
use crate::discover::{Discovery, FolderTree, name_of};
use crate::files::Form;
use crate::found_session::{FoundSession, IdOrigin};
use crate::open_path::{InputOptions, name_file, open_path, recognize};

/// Adds the sessions in `folder`, which is a project's folder or a folder of those.
pub(super) fn projects(folder: &Path, found: &mut Discovery) {
    for inner in project(folder, found).into_iter().filter(|it| it.is_dir()) {
        project(&inner, found);
    }
}

/// Adds the sessions of a project, and returns the other entries of its folder.
fn project(folder: &Path, found: &mut Discovery) -> Vec<PathBuf> {
    let (files, others): (Vec<_>, Vec<_>) =
        found.list(folder).into_iter().partition(|it| name_of(it).ends_with(".jsonl"));
    let (agents, mains): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|it| name_of(it).starts_with(SUBAGENT));
    let beside = Arc::new(SubagentsBeside::among(&agents));
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

//! Which files of Claude Code belong to a session besides its main one.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use threadfold_convert::FeedKind;
use threadfold_convert::claude::layout::{belongs_to, sessions};
use threadfold_convert::lines::lines;

use super::unreadable;
use crate::error::CommandError;

/// Finds the files of a session's subagents, beside the main file and below its folder.
pub(crate) fn subagents_of(main: &Path) -> Result<Vec<(FeedKind, PathBuf)>, CommandError> {
    let folder = match main.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let Some(stem) = main.file_stem() else { return Ok(Vec::new()) };
    let mut paths = vec![main.to_path_buf()];
    list(&folder, Depth::Here, &mut paths);
    list(&folder.join(stem).join("subagents"), Depth::All, &mut paths);
    let names: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let main_name = main.to_string_lossy();
    let session = sessions(&names).into_iter().find(|it| *it.main == *main_name.replace('\\', "/"));
    let mut found = Vec::new();
    for file in session
        .into_iter()
        .flat_map(|it| it.subagents.into_iter().map(move |file| (it.session.clone(), file)))
    {
        let (session, file) = file;
        let path = PathBuf::from(&file.path);
        let mut first = vec![0; 64 * 1024];
        let count = fs::File::open(&path)
            .and_then(|mut opened| opened.read(&mut first))
            .map_err(|error| unreadable(&format!("`{}`", path.display()), error))?;
        let beside = path.parent() == Some(folder.as_path());
        let first_line = lines(&first[..count]).next().map(|line| line.bytes.to_vec());
        if beside && first_line.is_some_and(|line| !belongs_to(&line, &session)) {
            continue;
        }
        if let Some(meta) = file.meta {
            found.push((FeedKind::SubagentMeta(file.agent.clone()), PathBuf::from(meta)));
        }
        found.push((FeedKind::Subagent(file.agent), path));
    }
    Ok(found)
}

/// How far down files are looked for.
#[derive(Clone, Copy)]
enum Depth {
    Here,
    All,
}

fn list(folder: &Path, depth: Depth, paths: &mut Vec<PathBuf>) {
    // A folder that is not there holds no subagents.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        match (depth, path.is_dir()) {
            (Depth::All, true) => list(&path, depth, paths),
            (_, false)
                if path
                    .file_name()
                    .is_some_and(|it| it.to_string_lossy().starts_with("agent-")) =>
            {
                paths.push(path);
            }
            _ => {}
        }
    }
}

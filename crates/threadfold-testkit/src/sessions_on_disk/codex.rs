//! Sessions of Codex among the files of a folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use threadfold_convert::codex::AGENT;
use threadfold_convert::codex::layout::{RolloutIndex, head_of};
use threadfold_convert::lines::lines;
use threadfold_convert::{RECOGNIZED_LINES, Shape};

use super::SessionOnDisk;

/// Takes the files of Codex's sessions out of `paths`: rollouts of one tree, and streams.
pub(super) fn take_sessions(paths: &mut Vec<String>) -> io::Result<Vec<SessionOnDisk>> {
    let mut found = Vec::new();
    let mut rollouts: BTreeMap<String, Vec<(String, Vec<u8>)>> = BTreeMap::new();
    let mut rest = Vec::new();
    for path in paths.drain(..) {
        let bytes = if path.ends_with(".jsonl") { fs::read(&path)? } else { Vec::new() };
        let shape = lines(&bytes)
            .take(RECOGNIZED_LINES)
            .find_map(|line| AGENT.recognize_record(line.bytes))
            .map(|it| it.shape);
        match shape {
            Some(Shape::Transcript) => {
                rollouts.entry(tree_of(&path)).or_default().push((path, bytes))
            }
            Some(_) => found.push(SessionOnDisk {
                agent: AGENT,
                name: path.clone(),
                files: vec![(path, bytes)],
                is_stream: true,
                root: None,
            }),
            None => rest.push(path),
        }
    }
    *paths = rest;
    for mut files in rollouts.into_values() {
        files.sort();
        let heads: Vec<_> = files
            .iter()
            .map(|(path, bytes)| (path.clone(), head_of(bytes).unwrap_or_default()))
            .collect();
        let index = RolloutIndex::new(&heads);
        for root in index.roots() {
            let order = index.session_files(root);
            let files: Vec<_> = order.iter().map(|(index, _)| files[*index].clone()).collect();
            let Some((name, _)) = files.first() else { continue };
            let (agent, name, root) = (AGENT, name.clone(), Some(root.to_owned()));
            found.push(SessionOnDisk { agent, name, files, is_stream: false, root });
        }
    }
    Ok(found)
}

/// Returns the folder that a rollout's tree of days is in, or the folder of the file itself.
fn tree_of(path: &str) -> String {
    match path.split_once("/sessions/") {
        Some((home, _)) => home.to_owned(),
        None => Path::new(path).parent().unwrap_or(Path::new("")).display().to_string(),
    }
}

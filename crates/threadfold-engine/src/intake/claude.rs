//! The files that a session of Claude Code lies in.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use threadfold_convert::Agent;
use threadfold_convert::claude::layout::{belongs_to, sessions};
use threadfold_convert::lines::lines;

use super::{Form, InputFile, noted};
use crate::error::EngineError;
use crate::source::{SourceSpec, SpecKind};

/// As much of a file as is read to see whose it is.
const FIRST_LINE: usize = 64 << 10;

/// Returns the files of the session whose main file is `main`, notes first: those of its
/// subagents stand beside it or below its folder.
pub fn claude_files(main: &Path) -> Result<Vec<InputFile>, EngineError> {
    let folder = match main.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let input = |kind: SpecKind, path: &Path, form: Form| {
        let name = noted(path.strip_prefix(&folder).unwrap_or(path)).replace('\\', "/");
        let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let spec = SourceSpec::new(Agent::Claude, kind, name).at(noted(&place));
        InputFile { spec, path: path.to_owned(), form }
    };
    let mut paths = vec![main.to_path_buf()];
    let stem = main.file_stem().map(|stem| folder.join(stem));
    list(&folder, Depth::Here, &mut paths);
    if let Some(own) = &stem {
        list(&own.join("subagents"), Depth::All, &mut paths);
    }
    paths.sort();
    let names: Vec<String> = paths.iter().map(|path| noted(path)).collect();
    let main_name = noted(main).replace('\\', "/");
    let session = sessions(&names).into_iter().find(|it| it.main == main_name);
    let (mut notes, mut subagents) = (Vec::new(), Vec::new());
    for (session, file) in session
        .into_iter()
        .flat_map(|it| it.subagents.into_iter().map(move |file| (it.session.clone(), file)))
    {
        let path = PathBuf::from(&file.path);
        let is_beside = path.parent() == Some(folder.as_path());
        if is_beside && !is_of(&path, &session)? {
            continue;
        }
        if let Some(meta) = &file.meta {
            let note = input(SpecKind::SubagentMeta, Path::new(meta), Form::Document);
            notes.push(InputFile { spec: note.spec.of_subagent(file.agent.clone()), ..note });
        }
        let lines = input(SpecKind::Subagent, &path, Form::Lines);
        subagents.push(InputFile { spec: lines.spec.of_subagent(file.agent), ..lines });
    }
    notes.push(input(SpecKind::Main, main, Form::Lines));
    notes.extend(subagents);
    Ok(notes)
}

/// Says whether a subagent's file names this session in its first line.
fn is_of(path: &Path, session: &str) -> Result<bool, EngineError> {
    let unreadable = |source: io::Error| EngineError::File { path: path.to_owned(), source };
    let mut first = Vec::new();
    let opened = fs::File::open(path).map_err(unreadable)?;
    opened.take(FIRST_LINE as u64).read_to_end(&mut first).map_err(unreadable)?;
    Ok(lines(&first).next().is_none_or(|line| belongs_to(line.bytes, session)))
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
    for entry in entries.flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
        if is_folder && matches!(depth, Depth::All) {
            list(&path, depth, paths);
        } else if !is_folder && entry.file_name().to_string_lossy().starts_with("agent-") {
            paths.push(path);
        }
    }
}

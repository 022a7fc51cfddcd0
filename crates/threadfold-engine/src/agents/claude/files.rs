//! Finds the files of a Claude Code session.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use threadfold_convert::claude::AGENT;
use threadfold_convert::claude::layout::{is_session_name, session_of_line, sessions};
use threadfold_convert::lines::lines;

use threadfold_fold::{Cutter, Record, SourceRole, SourceSpec};

use super::SUBAGENT;
use super::beside::SubagentsBeside;
use crate::error::EngineError;
use crate::files::{Form, InputFile, noted};

/// How many bytes of a file are read to find its owner.
const FIRST_LINES: u64 = 64 << 10;
/// How long a line may be that began within them, to be read to its end.
const LONGEST_LINE: u64 = 1 << 20;
/// How many bytes are read at once.
const SHORT_LINE: usize = 4 << 10;

/// The folders below a session's own one that belong to it, whatever its name.
pub(super) const FOLDERS: [&str; 2] = ["subagents", "tool-results"];

/// The maximum size of a file beside a session that is read as one record.
const LARGEST_DOCUMENT: u64 = 64 << 20;

/// Returns the files of the session whose main file is `main`, notes first. Subagents' files are
/// beside it or below its folder; everything else below its folder belongs to the session, too.
pub fn claude_files(main: &Path) -> Result<Vec<InputFile>, EngineError> {
    files_among(main, None)
}

/// Returns the files of a session as [`claude_files`] does; those beside the main file are among
/// the known ones, or else are listed.
pub(super) fn files_among(
    main: &Path,
    beside: Option<&SubagentsBeside>,
) -> Result<Vec<InputFile>, EngineError> {
    // A bare name has no parent folder, so `name` is treated as `./name`.
    let here = Path::new(".").join(main);
    let main = if main.parent().is_some_and(|it| it.as_os_str().is_empty()) { &here } else { main };
    let folder = match main.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let input = |kind: SourceRole, path: &Path, form: Form| input_file(&folder, kind, path, form);
    let mut paths = vec![main.to_path_buf()];
    let stem = main.file_stem().map(|stem| folder.join(stem));
    match beside {
        Some(beside) => {
            let session = main.file_stem().unwrap_or_default().to_string_lossy();
            beside.add_of(&session, &mut paths);
        }
        None => list(&folder, Depth::Here, &mut paths),
    }
    let mut below = Vec::new();
    for own in stem.iter().flat_map(|own| folders_of_session(own)) {
        list(&own, Depth::All, &mut below);
    }
    below.sort();
    paths.extend(below.iter().cloned());
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
        // Those that were found by session are known to be of this one.
        let is_known = || beside.is_some_and(|it| it.has_of(&session, &path));
        if is_beside && !is_known() && !is_of(&path, &session)? {
            continue;
        }
        if let Some(meta) = &file.meta {
            let note = input(SourceRole::SubagentMeta, Path::new(meta), Form::Document);
            notes.push(InputFile { spec: note.spec.of_subagent(file.agent.clone()), ..note });
        }
        let lines = input(SourceRole::Subagent, &path, Form::Lines);
        subagents.push(InputFile { spec: lines.spec.of_subagent(file.agent), ..lines });
    }
    notes.push(input(SourceRole::Main, main, Form::Lines));
    notes.extend(subagents);
    let known: BTreeSet<&Path> = notes.iter().map(|it| it.path.as_path()).collect();
    below.retain(|path| !known.contains(path.as_path()));
    notes.extend(below.iter().map(|path| {
        let is_large = path.metadata().is_ok_and(|it| it.len() > LARGEST_DOCUMENT);
        input(SourceRole::Attached, path, if is_large { Form::Lines } else { Form::Document })
    }));
    Ok(notes)
}

/// Returns only the main file, for a session without others.
pub(super) fn main_file(main: &Path) -> InputFile {
    let folder = main.parent().unwrap_or(Path::new(""));
    input_file(folder, SourceRole::Main, main, Form::Lines)
}

fn input_file(folder: &Path, kind: SourceRole, path: &Path, form: Form) -> InputFile {
    let name = noted(path.strip_prefix(folder).unwrap_or(path)).replace('\\', "/");
    let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let spec = SourceSpec::new(AGENT, kind, name).at(noted(&place));
    InputFile { spec, path: path.to_owned(), form }
}

/// Returns the folders that belong to a session: its own, if it certainly is one.
fn folders_of_session(own: &Path) -> Vec<PathBuf> {
    let name = own.file_name().unwrap_or_default().to_string_lossy();
    match is_session_name(&name) {
        true => vec![own.to_owned()],
        false => FOLDERS.map(|it| own.join(it)).to_vec(),
    }
}

/// Returns whether the first lines of a subagent's file name this session, or none.
fn is_of(path: &Path, session: &str) -> Result<bool, EngineError> {
    let unreadable = |source: io::Error| EngineError::File { path: path.to_owned(), source };
    Ok(first_session(path).map_err(unreadable)?.is_none_or(|it| it == session))
}

/// Returns the session that the first lines of a file name.
///
/// Notes that an agent writes before its first message may name none.
pub(super) fn first_session(path: &Path) -> io::Result<Option<String>> {
    let mut opened = fs::File::open(path)?.take(LONGEST_LINE);
    let (mut cutter, mut records) = (Cutter::new(0), Vec::new());
    // Most first lines are short, and there may be thousands of files.
    let mut chunk = vec![0; SHORT_LINE];
    loop {
        let count = match opened.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        match count {
            0 => cutter.finish(&mut records),
            count => cutter.push(&chunk[..count], &mut records),
        }
        let session_of =
            |record: Record| lines(&record.bytes).find_map(|line| session_of_line(line.bytes));
        let is_cut = count == 0 && opened.limit() == 0;
        let named = match is_cut {
            // A longer line is not read: its session stands before its content.
            true => records.drain(..).find_map(|it| session_of_beginning(&it.bytes)),
            false => records.drain(..).find_map(session_of),
        };
        let is_enough = count == 0 || cutter.position() >= FIRST_LINES;
        if named.is_some() || is_enough {
            return Ok(named);
        }
        // A prompt with a picture is a long line.
        if cutter.end() >= FIRST_LINES {
            chunk.resize(FIRST_LINES as usize, 0);
        }
    }
}

/// Returns the session that the beginning of a line names. Within a text, quotes are escaped.
fn session_of_beginning(line: &[u8]) -> Option<String> {
    const KEY: &[u8] = br#""sessionId":""#;
    let value = &line[memchr::memmem::find(line, KEY)? + KEY.len()..];
    let name = &value[..memchr::memchr(b'"', value)?];
    Some(String::from_utf8_lossy(name).into_owned()).filter(|name| !name.is_empty())
}

/// How deep to search for files.
#[derive(Clone, Copy)]
enum Depth {
    Here,
    All,
}

fn list(folder: &Path, depth: Depth, paths: &mut Vec<PathBuf>) {
    // A missing folder holds no subagents.
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
        let is_file = entry.file_type().is_ok_and(|it| it.is_file());
        if matches!(depth, Depth::All) {
            if is_folder {
                list(&path, depth, paths);
            } else if is_file {
                paths.push(path);
            }
        } else if !is_folder && entry.file_name().to_string_lossy().starts_with(SUBAGENT) {
            paths.push(path);
        }
    }
}

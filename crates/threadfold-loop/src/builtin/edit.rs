//! `edit`: replaces a text in a file.
//!
//! Running it twice could apply the change twice. After a crash it is therefore probed whether the
//! edit took effect: the file carries the call's mark, or the old text is gone and the new one is
//! there. It did not if the file carries the call's intent, or if running it would change nothing.
//! Otherwise nobody can tell: another program may have changed the file since, and dropped the mark.

use std::io::Read;

use memchr::memmem;
use schemars::JsonSchema;
use serde::Deserialize;
use threadfold_core::CallKey;

use super::blocking;
use super::call_mark;
use super::folder::{Folder, explain, shown};
use super::replace_file::{Mark, replace};
use crate::tool::{self, Probe, Tool, ToolContext, ToolError, ToolOutput};

/// The maximum size of a file in bytes.
const LARGEST: u64 = 32 * 1024 * 1024;
/// How many occurrences are examined.
const PLACES: usize = 1_000;

const DESCRIPTION: &str = "Replaces the text `old` by `new` in a file of the folder. `old` must \
    match exactly, including whitespace and line endings, and occur exactly once: include \
    surrounding lines to make it unique, or set `all` to replace every occurrence.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the folder.
    path: String,
    /// The text to replace.
    old: String,
    /// The text to put in its place.
    new: String,
    /// Replace every occurrence.
    #[serde(default)]
    all: bool,
}

pub(super) fn tool(folder: &Folder) -> impl Tool + use<> {
    let (folder, asked) = (folder.clone(), folder.clone());
    tool::tool("edit", DESCRIPTION, move |arguments: Arguments, context: ToolContext| {
        let folder = folder.clone();
        async move {
            let key = context.key.clone();
            blocking::change(&context, move || run(&folder, &arguments, &key)).await
        }
    })
    .probe(move |arguments: Arguments, context: ToolContext| {
        let folder = asked.clone();
        async move {
            let key = context.key.clone();
            blocking::change(&context, move || probe(&folder, &arguments, &key)).await
        }
    })
}

fn run(folder: &Folder, arguments: &Arguments, key: &CallKey) -> Result<ToolOutput, ToolError> {
    let Arguments { path, old, new, all } = arguments;
    if old.is_empty() {
        return Err(ToolError::failed("`old` is empty; use `write` to write a whole file"));
    }
    if old == new {
        return Err(ToolError::failed("`old` and `new` are the same, so there is nothing to do"));
    }
    // Held until the write: a concurrent edit would otherwise be lost.
    let _alone = folder.change();
    let Content { file, bytes: content } = content(folder, path)?;
    let places = places(&content, old.as_bytes());
    if places.is_empty() {
        return Err(not_found(&content, arguments));
    }
    if places.len() > 1 && !all {
        return Err(ambiguous(&content, &places, path));
    }

    let mut edited = Vec::with_capacity(content.len() + new.len());
    let (mut done, mut count) = (0, 0);
    for place in memmem::find_iter(&content, old.as_bytes()) {
        edited.extend_from_slice(&content[done..place]);
        edited.extend_from_slice(new.as_bytes());
        (done, count) = (place + old.len(), count + 1);
    }
    edited.extend_from_slice(&content[done..]);
    call_mark::announce(&file, key);
    replace(folder, path, &edited, key, Mark::Yes)?;
    Ok(done_text(path, count))
}

fn done_text(path: &str, count: usize) -> ToolOutput {
    let name = shown(path);
    match count {
        1 => format!("replaced it once in `{name}`").into(),
        count => format!("replaced it {count} times in `{name}`").into(),
    }
}

fn probe(folder: &Folder, arguments: &Arguments, key: &CallKey) -> Result<Probe, ToolError> {
    let Arguments { path, old, new, .. } = arguments;
    let Ok(found) = content(folder, path) else {
        // Running the edit fails in the same way, and reports that to the model.
        return Ok(Probe::DidNotHappen);
    };
    let happened =
        || Probe::Happened(format!("`{}` already contains this edit", shown(path)).into());
    if call_mark::is_of(&found.file, key) {
        return Ok(happened());
    }
    if old.is_empty() || old == new || call_mark::is_announced(&found.file, key) {
        return Ok(Probe::DidNotHappen);
    }
    let has = |text: &str| memmem::find(&found.bytes, text.as_bytes()).is_some();
    Ok(match (has(old), has(new)) {
        (false, true) => happened(),
        // Running the edit finds nothing to replace, and changes nothing.
        (false, false) => Probe::DidNotHappen,
        // The edit may have been applied, and something else may have brought the old text back.
        (true, _) => Probe::Unknown,
    })
}

struct Content {
    file: cap_std::fs::File,
    bytes: Vec<u8>,
}

fn content(folder: &Folder, path: &str) -> Result<Content, ToolError> {
    let (mut file, metadata) = folder.open_file(path)?;
    let mut bytes = Vec::new();
    let read = file.by_ref().take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| explain(path, &error))?;
    if bytes.len() as u64 > LARGEST {
        let (name, length) = (shown(path), metadata.len());
        return Err(ToolError::failed(format!(
            "`{name}` has {length} bytes, but at most {LARGEST} can be edited; use `shell`"
        )));
    }
    Ok(Content { file, bytes })
}

/// Returns the first occurrences of `text`, including overlapping ones.
fn places(content: &[u8], text: &[u8]) -> Vec<usize> {
    if text.is_empty() {
        return Vec::new();
    }
    let finder = memmem::Finder::new(text);
    let mut places = Vec::new();
    let mut from = 0;
    while places.len() < PLACES
        && let Some(at) = finder.find(&content[from..])
    {
        places.push(from + at);
        from += at + 1;
    }
    places
}

fn not_found(content: &[u8], arguments: &Arguments) -> ToolError {
    let name = shown(&arguments.path);
    let with_returns = arguments.old.replace('\n', "\r\n");
    let has_returns = memmem::find(content, with_returns.as_bytes()).is_some();
    ToolError::failed(if has_returns {
        format!("`{name}` has `\\r\\n` line ends; use the same in `old` and `new`")
    } else {
        format!("`old` is not in `{name}`; `read` the file and copy the text exactly")
    })
}

fn ambiguous(content: &[u8], places: &[usize], path: &str) -> ToolError {
    let line = |at: usize| memchr::memchr_iter(b'\n', &content[..at]).count() + 1;
    let lines: Vec<String> = places.iter().take(5).map(|&at| line(at).to_string()).collect();
    let (name, lines) = (shown(path), lines.join(", "));
    let count = match places.len() {
        PLACES => format!("{PLACES} times or more"),
        count => format!("{count} times"),
    };
    ToolError::failed(format!(
        "`old` is in `{name}` {count} (first in lines {lines}); include more of the surrounding \
                 lines, or set `all`"
    ))
}

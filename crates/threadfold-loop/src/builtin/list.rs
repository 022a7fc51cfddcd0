//! `list`: lists a folder.

use std::collections::BinaryHeap;
use std::io;

use cap_std::fs::{Dir, DirEntry};
use schemars::JsonSchema;
use serde::Deserialize;
use threadfold_core::Effect;

use super::blocking::{self, Stop};
use super::clip::shorten;
use super::folder::{Folder, explain};
use crate::tool::{self, Tool, ToolContext, ToolError, ToolOutput};

/// The maximum number of names.
const NAMES: usize = 1_000;

const DESCRIPTION: &str = "Lists a folder, sorted by name: folders end in `/`, links show their \
    target. At most 1000 entries.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The folder to list, relative to the tools' folder; default: that folder.
    path: Option<String>,
}

pub(super) fn tool(folder: &Folder) -> impl Tool + use<> {
    let folder = folder.clone();
    tool::tool("list", DESCRIPTION, move |arguments: Arguments, context: ToolContext| {
        let folder = folder.clone();
        async move { blocking::run_blocking(&context, move |stop| run(&folder, &arguments, stop)).await }
    })
    .effect(Effect::Pure)
}

fn run(folder: &Folder, arguments: &Arguments, stop: &Stop) -> Result<ToolOutput, ToolError> {
    let path = arguments.path.as_deref().unwrap_or(".");
    let explained = |error: io::Error| explain(path, &error);
    let dir = folder.dir().open_dir(folder.relative(path)?).map_err(explained)?;

    // The first names in sort order, whatever order the system returns them in.
    let mut first = BinaryHeap::new();
    let mut count = 0_usize;
    for entry in dir.entries().map_err(explained)? {
        stop.check()?;
        first.push(entry.map_err(explained)?.file_name());
        count += 1;
        if first.len() > NAMES {
            first.pop();
        }
    }
    if count == 0 {
        return Ok("[the folder is empty]".into());
    }
    let mut text = String::new();
    for name in first.into_sorted_vec() {
        text.push_str(&line(&dir, &name));
        text.push('\n');
    }
    if count > NAMES {
        let more = count - NAMES;
        text.push_str(&format!("[{more} more names; `search` finds files by their content]\n"));
    }
    Ok(text.into())
}

/// Returns the line for a name. A name may contain line ends and control characters, so it is
/// escaped.
fn line(dir: &Dir, name: &std::ffi::OsStr) -> String {
    let shown = name.to_string_lossy().escape_debug().to_string();
    match dir.symlink_metadata(name) {
        Ok(it) if it.is_dir() => format!("{shown}/"),
        Ok(it) if it.is_symlink() => {
            let target = dir.read_link_contents(name).unwrap_or_default();
            let target = target.to_string_lossy().escape_debug().to_string();
            format!("{shown} -> {}", shorten(&target, 300))
        }
        Ok(it) if !it.is_file() => format!("{shown} [pipe, socket or device]"),
        _ => shown,
    }
}

/// Returns the entries of a folder, sorted, up to `limit` of them.
pub(super) fn sorted(dir: &Dir, limit: usize) -> io::Result<Vec<DirEntry>> {
    let mut entries: Vec<DirEntry> = dir.entries()?.take(limit).collect::<io::Result<_>>()?;
    entries.sort_by_cached_key(DirEntry::file_name);
    Ok(entries)
}

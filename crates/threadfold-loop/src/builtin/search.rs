//! `search`: finds lines in files.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use cap_std::fs::File;
use ignore::overrides::{Override, OverrideBuilder};
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use threadfold_core::Effect;

use super::blocking::{self, Stop};
use super::clip::shorten;
use super::folder::{Folder, explain, open_file_in};
use super::lines::Lines;
use super::walk::Walk;
use crate::tool::{self, Tool, ToolContext, ToolError, ToolOutput};

/// The default and the maximum number of lines.
const MATCHES: (u64, u64) = (200, 2_000);
/// The maximum size of the output.
const BYTES: usize = 128 * 1024;
/// How many bytes of a line are shown.
const SHOWN: usize = 400;
/// How many bytes of a line are searched.
const LINE: usize = 64 * 1024;
/// The maximum length of a pattern.
const PATTERN: usize = 8 * 1024;
/// A file with a NUL byte in this range is binary.
const SNIFFED: usize = 8 * 1024;

const DESCRIPTION: &str = "Finds the lines that a regular expression (Rust syntax, no \
    look-around) matches, in a file or in all files below a folder. Files that git ignores and \
    binary files are skipped. Returns `path:line: text`, sorted by path.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The regular expression.
    pattern: String,
    /// The file or folder to search, relative to the tools' folder; default: the whole folder.
    path: Option<String>,
    /// Only files whose path matches, such as `*.rs` or `src/**/*.ts`.
    glob: Option<String>,
    /// Ignore case.
    #[serde(default)]
    ignore_case: bool,
    /// How many lines to return; default 200, at most 2000.
    limit: Option<u64>,
}

pub(super) fn tool(folder: &Folder) -> impl Tool + use<> {
    let folder = folder.clone();
    tool::tool("search", DESCRIPTION, move |arguments: Arguments, context: ToolContext| {
        let folder = folder.clone();
        async move { blocking::run_blocking(&context, move |stop| run(&folder, &arguments, stop)).await }
    })
    .effect(Effect::Pure)
}

fn run(folder: &Folder, arguments: &Arguments, stop: &Stop) -> Result<ToolOutput, ToolError> {
    let path = arguments.path.as_deref().unwrap_or(".");
    let relative = folder.relative(path)?;
    let mut search = Search {
        regex: regex(arguments)?,
        limit: arguments.limit.unwrap_or(MATCHES.0).clamp(1, MATCHES.1),
        count: 0,
        text: String::new(),
    };
    let metadata = folder.dir().metadata(&relative).map_err(|error| explain(path, &error))?;
    if metadata.is_dir() {
        let globs = globs(arguments)?;
        let walk = Walk::new(folder.dir(), &relative).map_err(|error| explain(path, &error))?;
        for found in walk {
            stop.check()?;
            if globs.matched(&found.path, false).is_ignore() {
                continue;
            }
            let Ok((file, _)) = open_file_in(&found.dir, &found.name) else { continue };
            if search.file(file, &found.path, stop)?.is_full() {
                break;
            }
        }
    } else {
        let (file, _) = folder.open_file(path)?;
        search.file(file, &relative, stop)?;
    }
    if search.count == 0 {
        search.text.push_str("[nothing matches]");
    }
    Ok(search.text.into())
}

struct Search {
    regex: Regex,
    limit: u64,
    count: u64,
    text: String,
}

/// Whether the output has room for more.
#[derive(PartialEq, Eq)]
enum OutputBudget {
    Left,
    Full,
}

impl OutputBudget {
    fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

impl Search {
    fn file(
        &mut self,
        mut file: File,
        path: &Path,
        stop: &Stop,
    ) -> Result<OutputBudget, ToolError> {
        let mut start = Vec::new();
        let read = file.by_ref().take(SNIFFED as u64).read_to_end(&mut start);
        if read.is_err() || memchr::memchr(0, &start).is_some() {
            return Ok(OutputBudget::Left);
        }
        let mut lines = Lines::new(BufReader::new(start.chain(file)), LINE);
        let mut buffer = Vec::new();
        let mut number = 0_u64;
        while let Some(line) = lines.next(&mut buffer, || stop.check().map_err(ToolError::from))? {
            number += 1;
            let bytes = line.bytes.strip_suffix(b"\n").unwrap_or(line.bytes);
            let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            let Some(place) = self.regex.find(bytes) else { continue };
            if self.count == self.limit || self.text.len() > BYTES {
                let count = self.count;
                self.text.push_str(&format!(
                    "[there are more: these are the first {count} lines; \
                     narrow it down by `path`, `glob` or `pattern`]"
                ));
                return Ok(OutputBudget::Full);
            }
            self.count += 1;
            let text = String::from_utf8_lossy(around(bytes, place.start()));
            let text = shorten(&text, SHOWN);
            self.text.push_str(&format!("{}:{number}: {text}\n", shown(path)));
        }
        Ok(OutputBudget::Left)
    }
}

/// Returns the part of a long line that contains the match.
fn around(line: &[u8], at: usize) -> &[u8] {
    if line.len() <= SHOWN {
        return line;
    }
    let from = at.saturating_sub(SHOWN / 4);
    &line[from..line.len().min(from + SHOWN)]
}

fn shown(path: &Path) -> String {
    let path: PathBuf = path.components().filter(|it| it.as_os_str() != ".").collect();
    path.to_string_lossy().escape_debug().to_string()
}

fn regex(arguments: &Arguments) -> Result<Regex, ToolError> {
    let pattern = &arguments.pattern;
    if pattern.is_empty() {
        return Err(ToolError::failed("`pattern` is empty; use `list` to see the files"));
    }
    if pattern.len() > PATTERN {
        return Err(ToolError::failed(format!("`pattern` is longer than {PATTERN} bytes")));
    }
    let built = RegexBuilder::new(pattern).case_insensitive(arguments.ignore_case).build();
    built.map_err(|error| {
        ToolError::failed(format!(
            "`pattern` is not a valid regular expression (escape `(`, `[`, `{{`, `.`, `*` etc. \
             with a backslash to search for them): {error}"
        ))
    })
}

fn globs(arguments: &Arguments) -> Result<Override, ToolError> {
    let Some(glob) = &arguments.glob else { return Ok(Override::empty()) };
    if glob.len() > PATTERN {
        return Err(ToolError::failed(format!("`glob` is longer than {PATTERN} bytes")));
    }
    let mut builder = OverrideBuilder::new("");
    let built = builder.add(glob).and_then(|it| it.build());
    built.map_err(|error| ToolError::failed(format!("`glob` is invalid: {error}")))
}

//! Finds OpenCode's sessions among the files of a folder, by content.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use serde_json::Value;
use threadfold_convert::opencode;

use super::SessionOnDisk;
use crate::raw_count::opencode::{OpencodeCount, bare, records};

/// How many records are read to detect the format of a file.
const LOOKED_AT: usize = 20;

/// Removes OpenCode's files from `paths`, and returns their sessions.
pub(super) fn take_sessions(paths: &mut Vec<String>) -> io::Result<Vec<SessionOnDisk>> {
    let mut found = Vec::new();
    let mut folders: BTreeMap<String, Vec<(String, Vec<u8>)>> = BTreeMap::new();
    let mut others = Vec::new();
    for path in paths.drain(..) {
        if !path.ends_with(".json") && !path.ends_with(".jsonl") {
            others.push(path);
            continue;
        }
        let bytes = fs::read(&path)?;
        if let Some((folder, _)) = path.split_once("/storage/") {
            folders.entry(format!("{folder}/storage")).or_default().push((path, bytes));
            continue;
        }
        match form(&bytes) {
            Some(form) => {
                let name = path.clone();
                add(&mut found, &name, vec![(path, bytes)], form == Form::Stream);
            }
            None => others.push(path),
        }
    }
    for (name, files) in folders {
        add(&mut found, &name, files, false);
    }
    *paths = others;
    Ok(found)
}

/// Adds the sessions of several files, each with all of the files.
fn add(found: &mut Vec<SessionOnDisk>, name: &str, files: Vec<(String, Vec<u8>)>, is_stream: bool) {
    let mut count = OpencodeCount::default();
    files.iter().for_each(|(_, bytes)| count.add(bytes));
    for root in count.roots() {
        found.push(SessionOnDisk {
            agent: opencode::AGENT,
            name: format!("{name} {root}"),
            files: files.clone(),
            is_stream,
            root: Some(root.to_owned()),
        });
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Stream,
    Kept,
}

/// Returns the OpenCode format of a file, if it has one.
fn form(bytes: &[u8]) -> Option<Form> {
    // A long file of lines is not parsed as a whole just to check its beginning.
    let end = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(LOOKED_AT);
    let is_lines = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .is_some_and(|line| serde_json::from_slice::<Value>(line).is_ok());
    let head = match end {
        Some((end, _)) if is_lines => &bytes[..end],
        _ => bytes,
    };
    records(head).iter().take(LOOKED_AT).find_map(|record| {
        let record = bare(record);
        let has = |key: &str| !record[key].is_null();
        let kind = record["type"].as_str().unwrap_or("");
        let is_kept = has("table") && has("row")
            || has("aggregate_id") && has("data")
            || has("info") && (has("messages") || has("parts"))
            || has("location") && has("projectID")
            || record["id"].as_str().is_some_and(|id| id.starts_with("msg_")) && has("time");
        let is_of_run = has("sessionID") && (has("part") || kind == "error" && has("error"));
        match () {
            () if is_kept => Some(Form::Kept),
            () if kind.contains('.') && (has("properties") || has("data")) || is_of_run => {
                Some(Form::Stream)
            }
            () => None,
        }
    })
}

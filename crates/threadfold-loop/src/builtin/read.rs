//! `read`: reads a file.

use std::io::{BufReader, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cap_std::fs::File;
use schemars::JsonSchema;
use serde::Deserialize;
use threadfold_core::{Effect, ImagePart, MessagePart, MessagePartBody};

use super::blocking::{self, Stop};
use super::folder::{Folder, explain, shown};
use super::lines::Lines;
use crate::tool::{self, Tool, ToolContext, ToolError, ToolOutput};

/// The default number of lines.
const LINES: u64 = 2_000;
/// The maximum size of the output.
const BYTES: usize = 128 * 1024;
/// The maximum size of a line.
const LINE: usize = 8 * 1024;
/// The maximum size of an image: providers accept at most 5 MB in base64.
const IMAGE: u64 = 3_700_000;
/// A file with a NUL byte in this range is binary.
const SNIFFED: usize = 8 * 1024;

const DESCRIPTION: &str = "Reads a file of the folder. Returns its text unchanged from line \
    `offset`, up to `limit` lines and 128 KiB, and the next offset if there is more. Images (PNG, \
    JPEG, GIF, WebP) are returned as images; other binary files are not.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the folder.
    path: String,
    /// The first line to return, counted from 1; default 1.
    offset: Option<u64>,
    /// How many lines to return; default 2000.
    limit: Option<u64>,
}

pub(super) fn tool(folder: &Folder) -> impl Tool + use<> {
    let folder = folder.clone();
    tool::tool("read", DESCRIPTION, move |arguments: Arguments, context: ToolContext| {
        let folder = folder.clone();
        async move { blocking::run_blocking(&context, move |stop| run(&folder, &arguments, stop)).await }
    })
    .effect(Effect::Pure)
}

fn run(folder: &Folder, arguments: &Arguments, stop: &Stop) -> Result<ToolOutput, ToolError> {
    let path = &arguments.path;
    let (mut file, metadata) = folder.open_file(path)?;
    let mut start = Vec::new();
    let read = file.by_ref().take(SNIFFED as u64).read_to_end(&mut start);
    read.map_err(|error| explain(path, &error))?;

    if let Some(media_type) = image_type(&start) {
        return image(path, start, file, metadata.len(), media_type);
    }
    if memchr::memchr(0, &start).is_some() {
        let (name, length) = (shown(path), metadata.len());
        return Err(ToolError::failed(format!(
            "`{name}` is a binary file of {length} bytes, which cannot be shown; \
                         use `shell` to run a program that reads it"
        )));
    }
    if start.is_empty() {
        return Ok(ToolOutput::text("[the file is empty]"));
    }
    let reader = BufReader::with_capacity(64 * 1024, start.chain(file));
    text(arguments, Lines::new(reader, LINE), stop)
}

fn text<R: std::io::BufRead>(
    arguments: &Arguments,
    mut lines: Lines<R>,
    stop: &Stop,
) -> Result<ToolOutput, ToolError> {
    let first = arguments.offset.unwrap_or(1).max(1);
    let last = first.saturating_add(arguments.limit.unwrap_or(LINES).max(1) - 1);
    let mut shown_text = Vec::new();
    let mut notes = Vec::new();
    let mut number = 0_u64;
    let mut buffer = Vec::new();
    while let Some(line) = lines.next(&mut buffer, || stop.check().map_err(ToolError::from))? {
        number += 1;
        if number < first {
            continue;
        }
        if number > last || shown_text.len() + line.bytes.len() > BYTES {
            notes.push(format!("[there is more: continue with offset {number}]"));
            break;
        }
        shown_text.extend_from_slice(line.bytes);
        if line.omitted > 0 {
            let omitted = line.omitted;
            shown_text.push(b'\n');
            notes.push(format!("[{omitted} bytes of line {number} are not shown]"));
        }
    }
    if number < first {
        return Err(ToolError::failed(format!(
            "`{}` has only {number} lines, but line {first} was requested",
            shown(&arguments.path)
        )));
    }
    let mut text = match String::from_utf8(shown_text) {
        Ok(text) => text,
        Err(error) => {
            notes.push("[some bytes are not UTF-8 and shown as \u{fffd}]".to_owned());
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        }
    };
    for note in notes {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&note);
    }
    Ok(text.into())
}

fn image(
    path: &str,
    mut start: Vec<u8>,
    file: File,
    length: u64,
    media_type: &'static str,
) -> Result<ToolOutput, ToolError> {
    let read = file.take(IMAGE + 1).read_to_end(&mut start);
    read.map_err(|error| explain(path, &error))?;
    if start.len() as u64 > IMAGE {
        let name = shown(path);
        return Err(ToolError::failed(format!(
            "`{name}` is an image ({media_type}) of {length} bytes; the maximum is {IMAGE}: \
                         create a smaller copy of it"
        )));
    }
    let data = STANDARD.encode(&start);
    let (media_type, data) = (Some(media_type.into()), Some(data.into()));
    let part = ImagePart { media_type, data, url: None };
    let content = vec![MessagePart::from(MessagePartBody::Image(part))];
    Ok(ToolOutput { content, is_error: false })
}

/// Returns the media type of an image that models support.
fn image_type(start: &[u8]) -> Option<&'static str> {
    match start {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Returns true if `data` is the base64 encoding of an image of this type that providers accept.
pub(crate) fn is_shown_image(media_type: &str, data: &str) -> bool {
    let bytes = STANDARD.decode(data);
    bytes.is_ok_and(|it| image_type(&it) == Some(media_type) && it.len() as u64 <= IMAGE)
}

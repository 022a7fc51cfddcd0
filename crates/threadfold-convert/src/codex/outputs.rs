//! What a tool returned to the model: the output, behind lines that the harness puts before it.

use std::borrow::Cow;

use serde_json::value::RawValue;
use threadfold_core::Json;

use super::wire::Object;

/// What a call returned to the model.
#[derive(Debug, Default)]
pub(super) struct ModelOutput<'a> {
    /// The output without the lines before it; nothing if it is not text.
    pub(super) body: Option<Cow<'a, str>>,
    pub(super) exit_code: Option<i64>,
    /// The harness put its lines before the output: something ran.
    pub(super) has_header: bool,
    /// The process still runs.
    pub(super) is_running: bool,
    /// A person interrupted the call.
    pub(super) is_aborted: bool,
}

/// The beginnings of the lines that the harness puts before an output.
const HEADER: [&str; 7] = [
    "Chunk ID: ",
    "Wall time: ",
    "Process exited with code ",
    "Process running with session ID ",
    "Original token count: ",
    "Exit code: ",
    "Total output lines: ",
];

/// The beginnings of an output that was cut in its middle.
const PREAMBLES: [&str; 2] = ["Warning: truncated output ", "Total output lines: "];

impl<'a> ModelOutput<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Self {
        let Ok(text) = serde_json::from_str::<crate::borrowed::Str<'a>>(raw.get()) else {
            return Self::default();
        };
        let text = text.0;
        if text.starts_with('{')
            && let Some(told) = read_json(&text)
        {
            return told;
        }
        let words = text.strip_prefix("Wall time: ").and_then(|it| it.split_once('\n'));
        let is_aborted = words.map_or(&*text, |(_, words)| words).starts_with("aborted");
        match split_header(&text) {
            Some((told, start)) => {
                let start = start + preamble(&text[start..]);
                let body = match text {
                    Cow::Borrowed(text) => Cow::Borrowed(&text[start..]),
                    Cow::Owned(text) => Cow::Owned(text[start..].to_owned()),
                };
                ModelOutput { body: Some(body), ..told }
            }
            None => Self { body: Some(text), is_aborted, ..Self::default() },
        }
    }
}

/// Reads the lines before an output. Also returns where the output begins.
fn split_header(text: &str) -> Option<(ModelOutput<'static>, usize)> {
    let mut told = ModelOutput { has_header: true, ..ModelOutput::default() };
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        start += line.len();
        let line = line.trim_end();
        if line == "Output:" {
            return Some((told, start));
        }
        if !HEADER.iter().any(|it| line.starts_with(it)) {
            return None;
        }
        let code = line
            .strip_prefix("Process exited with code ")
            .or_else(|| line.strip_prefix("Exit code: "));
        told.exit_code = code.and_then(|it| it.parse().ok()).or(told.exit_code);
        told.is_running |= line.starts_with("Process running");
    }
    None
}

/// Returns the length of the lines that precede an output that was cut in its middle.
pub(super) fn preamble(output: &str) -> usize {
    let Some(rest) = PREAMBLES.iter().find_map(|it| output.strip_prefix(it)) else { return 0 };
    let end = rest.find("\n\n").map_or(0, |end| output.len() - rest.len() + end + 2);
    // A command may print the same words.
    if output[end..].contains(" truncated…") { end } else { 0 }
}

/// Returns what a command printed; nothing if that is nothing, or no text.
///
/// Most outputs are used as they are written: to parse and to write them again takes several times as
/// long as to copy them.
pub(super) fn command_output(raw: &RawValue) -> Option<Json> {
    let text = raw.get().strip_prefix('"')?;
    if text == "\"" {
        return None;
    }
    let has_preamble = PREAMBLES.iter().any(|it| text.starts_with(it));
    // Half of a surrogate pair is no text.
    let mut escapes = memchr::memmem::find_iter(text.as_bytes(), r"\u");
    let has_surrogate = escapes.any(|at| matches!(text.as_bytes().get(at + 2), Some(b'd' | b'D')));
    if !has_preamble && !has_surrogate {
        return Some(Json::from(raw));
    }
    let output = serde_json::from_str::<crate::borrowed::Str<'_>>(raw.get()).ok()?.0;
    Some(Json::string(&output[preamble(&output)..]))
}

/// Returns whether a person interrupted the call, from what it returned to the model.
pub(super) fn is_aborted(raw: &RawValue) -> bool {
    let Some(text) = raw.get().strip_prefix('"') else { return false };
    let words = text.strip_prefix("Wall time: ").and_then(|it| it.split_once(r"\n"));
    words.map_or(text, |(_, words)| words).starts_with("aborted")
}

/// Reads the form of older versions: `{"output", "metadata": {"exit_code"}}`.
fn read_json(text: &str) -> Option<ModelOutput<'static>> {
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    let told = Object::read(raw)?;
    let metadata = told.object("metadata")?;
    let body = Some(Cow::Owned(told.text("output")?.into_owned()));
    let exit_code = metadata.signed("exit_code");
    Some(ModelOutput { body, exit_code, has_header: true, ..ModelOutput::default() })
}

/// Returns the result of a call of an MCP server: JSON behind the lines of the harness.
pub(super) fn server_result(raw: &RawValue) -> Json {
    let told = ModelOutput::read(raw);
    match told.body {
        Some(body) => Json::parse(&body).unwrap_or_else(|_| Json::string(&body)),
        None => Json::from(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<String>, Option<i64>, bool) {
        let json = Json::string(text);
        let told = ModelOutput::read(json.raw());
        (told.body.map(Cow::into_owned), told.exit_code, told.has_header)
    }

    #[test]
    fn the_lines_before_an_output_are_no_part_of_it() {
        let unified = "Chunk ID: 1\nWall time: 0.0 seconds\nProcess exited with code 3\nOriginal token count: 1\nOutput:\nOutput:\nx";
        assert_eq!(read(unified), (Some("Output:\nx".into()), Some(3), true));
        assert_eq!(
            read("Exit code: 0\nWall time: 0 seconds\nOutput:\n"),
            (Some("".into()), Some(0), true)
        );
        let older = r#"{"output":"ok\n","metadata":{"exit_code":0,"duration_seconds":0.1}}"#;
        assert_eq!(read(older), (Some("ok\n".into()), Some(0), true));
        assert_eq!(
            read("patch rejected\nOutput:\n"),
            (Some("patch rejected\nOutput:\n".into()), None, false)
        );
        assert_eq!(read("{\"echoed\":1}"), (Some("{\"echoed\":1}".into()), None, false));
    }
}

//! An independent count from the raw records, written plainly, so that nothing can agree by
//! being empty.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::Value;

pub mod opencode;

/// What the raw lines of a session hold, counted without the converter.
#[derive(Debug, Default)]
pub struct RawCount {
    /// Lines that are JSON objects.
    pub objects: usize,
    /// Lines that are not.
    pub broken: usize,
    /// Names of tool calls, of the model's own tools too.
    pub calls: BTreeSet<String>,
    /// Names of calls that have a result.
    pub results: BTreeSet<String>,
    /// Texts and thoughts of the model, by message and order.
    pub pieces: BTreeMap<&'static str, usize>,
}

impl RawCount {
    /// Counts a file's lines.
    pub fn add(&mut self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n') {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match serde_json::from_slice::<Value>(line) {
                Ok(value) if value.is_object() => self.line(&value),
                _ => self.broken += 1,
            }
        }
    }

    fn line(&mut self, line: &Value) {
        self.objects += 1;
        let kind = line["type"].as_str().unwrap_or("");
        let Some(blocks) = line["message"]["content"].as_array() else { return };
        for block in blocks {
            let text = |key: &str| block[key].as_str().map(str::to_owned);
            match (kind, block["type"].as_str().unwrap_or("")) {
                ("assistant", "tool_use" | "server_tool_use") => self.calls.extend(text("id")),
                ("user", "tool_result") => self.results.extend(text("tool_use_id")),
                ("assistant", "text") => *self.pieces.entry("text").or_default() += 1,
                ("assistant", "thinking" | "redacted_thinking") => {
                    *self.pieces.entry("thinking").or_default() += 1;
                }
                _ => {}
            }
        }
    }
}

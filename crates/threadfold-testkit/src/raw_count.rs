//! An independent count of the raw records, kept simple, so that comparisons cannot pass
//! because both sides are empty.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::Value;

pub mod codex;
pub mod newer;
pub mod opencode;

/// Counts of a session's raw lines, made without the converter.
#[derive(Debug, Default)]
pub struct RawCount {
    /// Lines that are JSON objects.
    pub objects: usize,
    /// Lines that are not.
    pub broken: usize,
    /// Ids of tool calls, including the provider's own tools.
    pub calls: BTreeSet<String>,
    /// Ids of calls that have a result.
    pub results: BTreeSet<String>,
    /// Texts and thinking of the model, by message and order.
    pub pieces: BTreeMap<&'static str, usize>,
    /// The names of the lines that were counted.
    lines: BTreeSet<String>,
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
        // A compaction writes lines again, under the same name.
        let name = line["uuid"].as_str();
        if name.is_some_and(|name| !self.lines.insert(name.to_owned())) {
            return;
        }
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

//! Real sessions of Claude Code, read as histories: the messages of each transcript.
//!
//! A transcript has a line for every block of an answer and for every result; it is cut after
//! each line. There is no conversion of transcripts to messages in the product, so this reads as
//! much as the recordings have: text, thinking, calls, results.

use std::{fs, path::Path};

use serde_json::Value;
use threadfold_core::{ConversationMessage, Json, MessagePart, Role, ToolCall};

use super::run::{Answer, AnswerContent, HistoryPrefix, Run};

/// Returns all recorded transcripts, those of subagents too.
pub(crate) fn all() -> Vec<Run> {
    let data = "../threadfold-convert/tests/data/claude";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(data);
    let mut runs = Vec::new();
    walk(&root, &mut runs);
    assert!(runs.len() > 80, "only {} transcripts were found", runs.len());
    runs
}

fn walk(folder: &Path, runs: &mut Vec<Run>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, runs);
        } else if path.extension().is_some_and(|it| it == "jsonl")
            && path.file_name().is_some_and(|it| it != "stream.jsonl")
        {
            runs.push(read(&path, &format!("transcript {}", runs.len())));
        }
    }
}

/// A transcript that is read line by line.
#[derive(Default)]
struct Reader {
    history: Vec<ConversationMessage>,
    /// The history before the answer that is being read, its name, and its blocks so far.
    before: Vec<ConversationMessage>,
    answer: String,
    blocks: Vec<String>,
}

fn read(path: &Path, name: &str) -> Run {
    let mut reader = Reader::default();
    let text = fs::read(path).unwrap();
    let lines = text.split(|it| *it == b'\n').filter_map(|it| serde_json::from_slice(it).ok());
    let cuts = lines.filter_map(|line: Value| reader.line(&line)).collect();
    Run { name: name.to_owned(), cuts }
}

impl Reader {
    fn line(&mut self, line: &Value) -> Option<HistoryPrefix> {
        let message = &line["message"];
        let content = match &message["content"] {
            Value::String(text) => vec![serde_json::json!({ "type": "text", "text": text })],
            Value::Array(blocks) => blocks.clone(),
            _ => return None,
        };
        let answer = match message["role"].as_str()? {
            "assistant" => Some(self.assistant(message["id"].as_str()?, &content)),
            _ => {
                content.iter().for_each(|block| self.user(block));
                None
            }
        };
        Some(HistoryPrefix { history: self.history.clone(), answer })
    }

    fn user(&mut self, block: &Value) {
        self.answer.clear();
        match block["type"].as_str() {
            Some("tool_result") => {
                let mut result = ConversationMessage::new(Role::Tool);
                result.tool_call_id = block["tool_use_id"].as_str().map(Into::into);
                result.is_error = block["is_error"] == true;
                let text = block["content"].as_str().map(str::to_owned);
                let parts = block["content"].as_array().into_iter().flatten();
                let texts = parts.filter_map(|it| it["text"].as_str().map(str::to_owned));
                result.content =
                    text.into_iter().chain(texts).map(|it| MessagePart::text(&it)).collect();
                self.history.push(result);
            }
            _ => {
                let text = block["text"].as_str().unwrap_or_default();
                self.history.push(ConversationMessage::text(Role::User, text));
            }
        }
    }

    /// Adds blocks to the answer of this name, which may have some already.
    fn assistant(&mut self, id: &str, content: &[Value]) -> Answer {
        if self.answer != id {
            self.answer = id.to_owned();
            self.before = self.history.clone();
            self.blocks.clear();
            self.history.push(ConversationMessage::new(Role::Assistant));
        }
        let message = self.history.last_mut().unwrap();
        for block in content {
            let word = |name: &str| block[name].as_str().unwrap_or_default();
            match word("type") {
                "text" => message.content.push(MessagePart::text(word("text"))),
                "thinking" => {
                    message.content.push(MessagePart::thinking(word("thinking"), word("signature")))
                }
                "tool_use" => {
                    let arguments = block["input"].to_string();
                    let call = ToolCall::new(word("id"), word("name"), &arguments);
                    message.tool_calls.push(call);
                }
                _ => {
                    let item = Json::parse(&block.to_string()).unwrap();
                    message.content.push(MessagePart::native("anthropic", item));
                }
            }
            self.blocks.push(match word("type") {
                "thinking" => format!(
                    r#"{{"type":"thinking","thinking":{},"signature":{}}}"#,
                    block["thinking"], block["signature"]
                ),
                _ => block.to_string(),
            });
        }
        let given = format!(r#"{{"content":[{}]}}"#, self.blocks.join(","));
        let given = AnswerContent::Anthropic(Json::parse(&given).unwrap());
        Answer { before: self.before.clone(), given }
    }
}

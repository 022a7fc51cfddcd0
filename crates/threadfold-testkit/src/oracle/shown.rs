//! What a state shows, as the oracle compares it.

use std::collections::BTreeMap;

use serde_json::Value;
use threadfold_core::{
    Block, BlockBody, Content, ConversationState, Json, Part, PartBody, SubagentRef,
};

use super::{Piece, spelling};

/// The pieces of a state.
pub(super) struct ShownContent {
    pub(super) pieces: BTreeMap<Piece, usize>,
    /// The canonical name of each conversation, by any of its names.
    names: BTreeMap<String, String>,
    /// The texts of the blocks in the user's role and of the harness, by conversation and block.
    pub(super) texts: BTreeMap<(String, String), String>,
    /// The blocks that are shown as a person's, by conversation and block.
    pub(super) persons: std::collections::BTreeSet<(String, String)>,
    /// The calls that are shown with a result of their own.
    pub(super) results: std::collections::BTreeSet<String>,
    /// The conversation of each block that a person or the harness wrote.
    places: BTreeMap<String, Vec<String>>,
}

impl ShownContent {
    pub(super) fn of(state: &ConversationState) -> Self {
        let mut shown = Self {
            pieces: BTreeMap::new(),
            names: BTreeMap::from([("main".to_owned(), "main".to_owned())]),
            texts: BTreeMap::new(),
            persons: Default::default(),
            results: Default::default(),
            places: BTreeMap::new(),
        };
        state.blocks().iter().for_each(|block| shown.block("main", &block));
        for subagent in state.subagents() {
            let name = subagent.conversation_id().as_str().to_owned();
            for alias in aliases(&subagent) {
                shown.names.entry(alias).or_insert_with(|| name.clone());
            }
            subagent.blocks().iter().for_each(|block| shown.block(&name, &block));
        }
        shown
    }

    /// Returns the conversation that goes by this name.
    pub(super) fn conversation(&self, name: &str) -> String {
        let bare = name.strip_prefix("agent-").unwrap_or(name);
        self.names.get(bare).cloned().unwrap_or_else(|| format!("?{bare}"))
    }

    /// Returns the conversations that contain this block of a person or the harness.
    pub(super) fn places(&self, block: &str) -> &[String] {
        self.places.get(block).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, conversation: &str, kind: &'static str, name: &str, words: String) {
        let (conversation, name) = (conversation.to_owned(), name.to_owned());
        let piece = Piece { conversation, kind, name, words };
        *self.pieces.entry(piece).or_default() += 1;
    }

    fn text(&mut self, conversation: &str, block: &Block, words: &str) {
        let id = block.id.to_string();
        self.places.entry(id.clone()).or_default().push(conversation.to_owned());
        self.texts.entry((conversation.to_owned(), id)).or_default().push_str(words);
    }

    fn block(&mut self, conversation: &str, block: &Block) {
        let message = block.message_id.as_ref().map_or(block.id.as_str(), |id| id.as_str());
        let message = if message.starts_with("line:") { "" } else { message };
        match &block.body {
            BlockBody::AssistantText(it) => {
                self.add(conversation, "text", message, it.content.to_string());
            }
            // An error is a text of the model's message, or follows it under a name of its own.
            BlockBody::Error(_) if block.id.as_str().starts_with("error:") => {}
            BlockBody::Error(it) => self.add(conversation, "text", message, it.message.to_string()),
            BlockBody::Thinking(it) if it.redacted => {
                let data = block.metadata.get("data").and_then(Json::to_text).unwrap_or_default();
                self.add(conversation, "redacted", message, data);
            }
            BlockBody::Thinking(it) => {
                let signature = it.signature.as_deref().unwrap_or("");
                self.add(conversation, "thinking", message, format!("{}\0{signature}", it.content));
            }
            BlockBody::ToolUse(it) => {
                let input = it.input.as_ref().map_or(Value::Null, value);
                let words = format!("{} {}", it.tool_name, spelling(&input));
                self.add(conversation, "call", it.tool_use_id.as_str(), words);
            }
            BlockBody::ToolResult(it) => {
                let output = it.output.as_ref().map_or(Value::Null, value);
                let words = format!("{} {}", it.is_error, spelling(&output));
                self.results.insert(it.tool_use_id.to_string());
                let attached = block.metadata.get("attachments").map_or(Value::Null, value);
                for file in attached.as_array().into_iter().flatten() {
                    let text = |key: &str| file[key].as_str().unwrap_or("");
                    let words = format!("{}  {}", text("mime"), text("url"));
                    self.add(conversation, "attachment", it.tool_use_id.as_str(), words);
                }
                self.add(conversation, "result", it.tool_use_id.as_str(), words);
            }
            BlockBody::Subagent(it) => {
                let call = it.tool_use_id.as_ref().map_or("", |id| id.as_str());
                let prompt = it.input.as_ref().and_then(Json::to_text).unwrap_or_default();
                self.add(conversation, "agent-call", call, prompt);
                if let Some(output) = &it.output {
                    let words = output.to_text().unwrap_or_else(|| spelling(&value(output)));
                    self.add(conversation, "agent-result", call, words);
                }
            }
            BlockBody::UserMessage(it) => {
                self.persons.insert((conversation.to_owned(), block.id.to_string()));
                match &it.content {
                    Content::Text(text) => self.text(conversation, block, &text.to_str()),
                    Content::Parts(parts) => {
                        parts.iter().for_each(|part| self.part(conversation, block, part));
                    }
                }
            }
            BlockBody::System(it) => {
                let words = it.message.as_ref().map(|it| it.to_string()).unwrap_or_default();
                self.text(conversation, block, &words);
            }
            _ => {}
        }
    }

    fn part(&mut self, conversation: &str, block: &Block, part: &Part) {
        let join = |words: [&Option<std::sync::Arc<str>>; 3]| {
            words.map(|it| it.as_deref().unwrap_or("")).join(" ")
        };
        match &part.body {
            PartBody::Text(it) => self.text(conversation, block, &it.text.to_str()),
            PartBody::Image(it) => {
                let words = join([&it.media_type, &it.data, &it.url]);
                self.add(conversation, "image", block.id.as_str(), words);
            }
            PartBody::File(it) => {
                let words = join([&it.media_type, &it.data, &it.url]);
                self.add(conversation, "file", block.id.as_str(), words);
            }
            _ => {}
        }
    }
}

/// Returns all names of a subagent.
fn aliases(subagent: &SubagentRef<'_>) -> Vec<String> {
    let header = subagent.header();
    let agent = header.agent_id.as_ref().map(|it| it.bare().to_owned());
    let calls = header.runs.iter().map(|run| run.tool_use_id.to_string());
    let latest = header.tool_use_id.as_ref().map(ToString::to_string);
    let own = subagent.conversation_id().as_str().to_owned();
    agent.into_iter().chain(calls).chain(latest).chain([own]).collect()
}

fn value(json: &Json) -> Value {
    serde_json::from_str(json.as_str()).unwrap_or_default()
}

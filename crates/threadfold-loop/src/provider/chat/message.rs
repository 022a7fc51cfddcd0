//! The message of a completion: complete, or assembled from deltas.

use threadfold_core::{
    ConversationMessage, Fields, Json, MessagePart, MessagePartBody, Role, ThinkingPart, ToolCall,
};

use crate::provider::Delta;
use crate::provider::failure::Failure;
use crate::provider::json::{get, list, number, read, string, text};

/// The field names that servers use for reasoning; OpenAI itself does not report it.
const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];
const WORDS: [&str; 2] = ["content", "refusal"];
/// The provider name of calls with additional fields.
const NATIVE: &str = "openai-chat";

/// A message that is being assembled.
#[derive(Default)]
pub(super) struct Message {
    /// All fields except the calls and those that grow.
    fields: Fields,
    /// The text fields that grow, in the order in which they started.
    texts: Vec<(String, String)>,
    calls: Vec<Call>,
}

#[derive(Default)]
struct Call {
    index: Option<usize>,
    id: String,
    name: String,
    arguments: String,
    fields: Fields,
    function: Fields,
}

impl Message {
    /// Applies a delta. A complete message is one delta.
    pub(super) fn add(&mut self, delta: &Json, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let delta: Fields = read(delta)?;
        // In a complete message, reasoning and text may be in any order, but reasoning comes first.
        let (thoughts, others): (Vec<_>, Vec<_>) =
            delta.iter().partition(|(name, _)| THOUGHTS.contains(name));
        for (name, value) in thoughts.into_iter().chain(others) {
            match name {
                "tool_calls" => {
                    for call in list(&delta, name)? {
                        self.add_call(&call, deltas)?;
                    }
                }
                _ if value.is_null() => {}
                _ if THOUGHTS.contains(&name) || WORDS.contains(&name) => {
                    self.grow(name, words(value)?, deltas);
                }
                _ => self.fields.insert(name, value.clone()),
            }
        }
        Ok(())
    }

    fn grow(&mut self, name: &str, more: String, deltas: &mut Vec<Delta>) {
        if more.is_empty() {
            return;
        }
        let part = match self.texts.iter().position(|(known, _)| known == name) {
            Some(part) => part,
            None => {
                self.texts.push((name.to_owned(), String::new()));
                self.texts.len() - 1
            }
        };
        self.texts[part].1.push_str(&more);
        deltas.push(match THOUGHTS.contains(&name) {
            true => Delta::Thinking { part, text: more },
            false => Delta::Text { part, text: more },
        });
    }

    fn add_call(&mut self, delta: &Json, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let fields: Fields = read(delta)?;
        let function: Fields = get(&fields, "function").map_or(Ok(Fields::default()), read)?;
        let (index, id) = (number(&fields, "index"), text(&fields, "id")?);
        let call = self.call(index, &id);
        // Some servers repeat the id and the name with each chunk.
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = text(&function, "name")?;
        }
        let more = text(&function, "arguments")?;
        call.arguments.push_str(&more);
        let others = fields.iter().filter(|it| !matches!(it.0, "index" | "id" | "function"));
        others.for_each(|(name, value)| call.fields.insert(name, value.clone()));
        let others = function.iter().filter(|it| !matches!(it.0, "name" | "arguments"));
        others.for_each(|(name, value)| call.function.insert(name, value.clone()));
        let (call, name) = (call.id.as_str().into(), call.name.as_str().into());
        deltas.push(Delta::Call { call, name, arguments: more });
        Ok(())
    }

    /// Returns the call that a delta belongs to. Starts a new one if necessary.
    ///
    /// Not every server sends an index: a different id is a different call, and a chunk without an
    /// id belongs to the last call.
    fn call(&mut self, index: Option<usize>, id: &str) -> &mut Call {
        let is_other = |call: &Call| !id.is_empty() && !call.id.is_empty() && call.id != id;
        let known = self.calls.iter().rposition(|call| match index {
            Some(_) => call.index == index,
            None => true,
        });
        let at = match known {
            Some(at) if !is_other(&self.calls[at]) => at,
            _ => {
                self.calls.push(Call { index, ..Call::default() });
                self.calls.len() - 1
            }
        };
        &mut self.calls[at]
    }

    /// Returns the message in neutral form and in the provider's form.
    pub(super) fn finish(self, answer: &str) -> Result<(ConversationMessage, Json), Failure> {
        let mut message = ConversationMessage::new(Role::Assistant);
        let mut fields = Fields::default();
        fields.insert("role", Json::string("assistant"));
        fields.insert("content", Json::of(&None::<&str>));
        for (name, text) in &self.texts {
            fields.insert(name, Json::string(text));
            message.content.push(match THOUGHTS.contains(&&**name) {
                true => {
                    let part = ThinkingPart { text: text.as_str().into(), signature: None };
                    MessagePartBody::Thinking(part).into()
                }
                false => MessagePart::text(text),
            });
        }
        self.fields.iter().for_each(|(name, value)| fields.insert(name, value.clone()));
        // Native items are added for all calls or none, so that calls with equal ids can be matched
        // by order.
        let has_more = self.calls.iter().any(Call::has_more);
        let mut items = Vec::new();
        for (ordinal, call) in self.calls.iter().enumerate() {
            let neutral = call.neutral(answer, ordinal)?;
            if has_more {
                let item = call.item(&neutral, &neutral.arguments);
                message.content.push(MessagePart::native(NATIVE, item));
            }
            items.push(call.item(&neutral, &call.arguments));
            message.tool_calls.push(neutral);
        }
        if !items.is_empty() {
            fields.insert("tool_calls", Json::of(&items));
        }
        Ok((message, Json::of(&fields)))
    }
}

impl Call {
    /// Returns true if the server sent additional fields, such as a signature of the reasoning that
    /// led to the call, without which the server would refuse the call.
    fn has_more(&self) -> bool {
        let is_present = |(_, value): (&str, &Json)| !value.is_null();
        let mut fields = self.fields.iter().filter(|it| it.0 != "type");
        fields.any(is_present) || self.function.iter().any(is_present)
    }

    fn neutral(&self, answer: &str, ordinal: usize) -> Result<ToolCall, Failure> {
        if self.name.is_empty() {
            return Err(Failure::malformed("a call has no name"));
        }
        // A result must refer to its call by id, and some servers assign none.
        let id = match self.id.is_empty() {
            true => format!("call_{answer}_{ordinal}"),
            false => self.id.clone(),
        };
        let is_empty = self.arguments.trim().is_empty();
        let arguments = if is_empty { "{}" } else { &*self.arguments };
        Ok(ToolCall::new(id, &self.name, arguments))
    }

    /// Returns the call in the server's form, with these arguments.
    fn item(&self, call: &ToolCall, arguments: &str) -> Json {
        let mut function = Fields::default();
        function.insert("name", Json::string(&self.name));
        function.insert("arguments", Json::string(arguments));
        self.function.iter().for_each(|(name, value)| function.insert(name, value.clone()));
        let mut fields = Fields::default();
        fields.insert("id", Json::string(call.call_id.as_str()));
        fields.insert("type", Json::string("function"));
        fields.insert("function", Json::of(&function));
        self.fields.iter().for_each(|(name, value)| fields.insert(name, value.clone()));
        Json::of(&fields)
    }
}

/// Returns the text of a string or of a list of parts.
fn words(value: &Json) -> Result<String, Failure> {
    if !value.as_str().starts_with('[') {
        return Ok(read(value)?);
    }
    let parts: Vec<Fields> = read(value)?;
    Ok(parts.iter().map(|part| string(part, "text")).collect())
}

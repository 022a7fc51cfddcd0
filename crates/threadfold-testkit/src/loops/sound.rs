//! Loops that each provider accepts: its own items have unique ids and stay together, and each
//! answer keeps its original payload.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use threadfold_core::{
    ConversationMessage, Effect, ImagePart, Json, MessagePart, MessagePartBody, Role, SessionEvent,
    ToolCall,
};

use super::LoopWriter;

#[derive(Clone, Debug)]
struct Turn {
    provider: Provider,
    prompts: Vec<Vec<MessagePart>>,
    is_given_up: bool,
    pieces: Vec<Piece>,
    ends: AnswerEnd,
}

#[derive(Clone, Copy, Debug)]
enum Provider {
    Anthropic,
    OpenAi,
    Chat,
}

/// A piece of an answer, which each provider encodes in its own format.
#[derive(Clone, Debug)]
enum Piece {
    Thought(&'static str),
    /// Thinking that only its provider can read, or that is referenced only by its id.
    Hidden,
    /// Thinking in its provider's format.
    Spelt,
    Text(&'static str),
    /// Text in its provider's format, for providers that give it an id.
    Said(&'static str),
    /// A tool that ran on the provider's side.
    Search,
    /// A tool of another server that the provider called.
    Remote,
    Call(Call),
}

/// How an answer ends.
#[derive(Clone, Copy, Debug)]
enum AnswerEnd {
    Plainly,
    Blank,
    InThought,
}

#[derive(Clone, Debug)]
struct Call {
    arguments: &'static str,
    is_verbatim: bool,
    run: ToolFate,
    output: Vec<MessagePart>,
}

#[derive(Clone, Copy, Debug)]
enum ToolFate {
    Well(Effect),
    Failed(Effect),
    Lost(Effect),
    /// The tool does not exist.
    Never,
}

fn words() -> impl Strategy<Value = &'static str> {
    select(vec!["look", "é", "lo 😀", "\u{0}", "\"q\"\\\n", "\u{2028} שלום", "</s>", "a\tb"])
}

fn image() -> impl Strategy<Value = MessagePart> {
    let image = |data: Option<&str>, url: Option<&str>| {
        let media_type = data.map(|_| "image/png".into());
        let part = ImagePart { media_type, data: data.map(Into::into), url: url.map(Into::into) };
        MessagePart::from(MessagePartBody::Image(part))
    };
    select(vec![image(Some("iVBORw0KGgo="), None), image(None, Some("https://example.org/a.png"))])
}

/// Returns parts of a prompt or of an output, possibly empty.
fn parts() -> impl Strategy<Value = Vec<MessagePart>> {
    let text = prop_oneof![8 => words(), 1 => Just(""), 1 => Just(" \n")];
    let part = prop_oneof![6 => text.prop_map(MessagePart::text), 1 => image()];
    prop::collection::vec(part, 0..3)
}

fn call() -> impl Strategy<Value = Call> {
    let effects = vec![Effect::Pure, Effect::Idempotent, Effect::Probe, Effect::Unsafe];
    let run = (0..9_u8, select(effects)).prop_map(|(run, effect)| match run {
        0 => ToolFate::Never,
        1 => ToolFate::Failed(effect),
        2 => ToolFate::Lost(effect),
        _ => ToolFate::Well(effect),
    });
    let arguments = select(vec!["{}", r#"{ "a": 1.50 }"#, r#"{"é":"\u00e9 😀"}"#, r#"{"a":[{}]}"#]);
    (arguments, any::<bool>(), run, parts()).prop_map(|(arguments, is_verbatim, run, output)| {
        Call { arguments, is_verbatim, run, output }
    })
}

fn turn() -> impl Strategy<Value = Turn> {
    let piece = prop_oneof![
        3 => words().prop_map(Piece::Thought),
        1 => Just(Piece::Hidden),
        1 => Just(Piece::Spelt),
        2 => words().prop_map(Piece::Text),
        1 => words().prop_map(Piece::Said),
        1 => Just(Piece::Search),
        1 => Just(Piece::Remote),
        5 => call().prop_map(Piece::Call),
    ];
    let provider = prop_oneof![
        3 => Just(Provider::Anthropic), 3 => Just(Provider::OpenAi), 1 => Just(Provider::Chat)
    ];
    let end = prop_oneof![6 => Just(AnswerEnd::Plainly), 1 => Just(AnswerEnd::Blank), 1 => Just(AnswerEnd::InThought)];
    let prompts = prop::collection::vec(parts(), 0..3);
    let pieces = prop::collection::vec(piece, 1..7);
    (provider, prompts, prop::bool::weighted(0.1), pieces, end).prop_map(
        |(provider, prompts, is_given_up, pieces, ends)| Turn {
            provider,
            prompts,
            is_given_up,
            pieces,
            ends,
        },
    )
}

/// Returns loops of one to five turns whose ids all start with `name`.
///
/// The first prompt is not empty. A turn's provider is `anthropic`, `openai` or `chat`, and its
/// answer's payload has that format: an object with `content`, with `output`, or any.
pub fn sound_loop(name: &str) -> impl Strategy<Value = Vec<SessionEvent>> + use<> {
    let name = name.to_owned();
    prop::collection::vec(turn(), 1..6).prop_map(move |turns| {
        let mut writer = LoopWriter::default();
        for (at, turn) in turns.iter().enumerate() {
            write(&mut writer, turn, &format!("{name}t{at}"));
        }
        writer.events
    })
}

fn write(writer: &mut LoopWriter, turn: &Turn, name: &str) {
    let mut prompts: Vec<_> = turn.prompts.iter().map(|it| message(Role::User, it)).collect();
    if writer.events.is_empty() {
        prompts.insert(0, ConversationMessage::text(Role::User, name));
    }
    let provider = match turn.provider {
        Provider::Anthropic => "anthropic",
        Provider::OpenAi => "openai",
        Provider::Chat => "chat",
    };
    writer.start_at(provider, prompts);
    if turn.is_given_up {
        return;
    }
    let mut answer = Answer {
        name,
        is_encrypted: !turn.pieces.iter().any(|it| matches!(it, Piece::Hidden)),
        has_more_thoughts: false,
        message: message(Role::Assistant, &[]),
        given: Vec::new(),
    };
    let mut calls = Vec::new();
    let is_thought = |it: &Piece| matches!(it, Piece::Thought(_) | Piece::Hidden | Piece::Spelt);
    let last_thought = match turn.ends {
        AnswerEnd::InThought => turn.pieces.len(),
        AnswerEnd::Plainly | AnswerEnd::Blank => {
            turn.pieces.iter().rposition(is_thought).unwrap_or_default()
        }
    };
    for (at, piece) in turn.pieces.iter().enumerate() {
        let id = format!("{name}p{at}");
        answer.has_more_thoughts = at < last_thought;
        match turn.provider {
            Provider::Anthropic => answer.anthropic(piece, &id),
            Provider::OpenAi => answer.openai(piece, &id),
            Provider::Chat => answer.chat(piece, &id),
        }
        if let Piece::Call(call) = piece {
            calls.push((id, call));
        }
    }
    answer.end(turn);
    let payload = match turn.provider {
        Provider::Anthropic => answer.list("content"),
        Provider::OpenAi | Provider::Chat => answer.list("output"),
    };
    writer.answer_as(answer.message, payload);
    // Results arrive in reverse order.
    for (id, call) in calls.iter().rev() {
        run(writer, id, call);
    }
    writer.close();
}

fn message(role: Role, parts: &[MessagePart]) -> ConversationMessage {
    ConversationMessage { content: parts.to_vec(), ..ConversationMessage::new(role) }
}

fn run(writer: &mut LoopWriter, id: &str, call: &Call) {
    let mut result = message(Role::Tool, &call.output);
    result.tool_call_id = Some(id.into());
    match call.run {
        ToolFate::Well(effect) => _ = writer.run(id, effect),
        ToolFate::Lost(effect) => _ = writer.run(id, effect).lose(id).run(id, effect),
        ToolFate::Failed(effect) => {
            writer.run(id, effect).fail(id);
            result.is_error = true;
        }
        ToolFate::Never => result.is_error = true,
    }
    writer.finish_with(id, result);
}

/// An answer as a message and as a payload.
struct Answer<'a> {
    name: &'a str,
    /// OpenAI's reasoning can be sent back: all of an answer, or none.
    is_encrypted: bool,
    /// A call before thinking keeps its original JSON, so that it keeps its position.
    has_more_thoughts: bool,
    message: ConversationMessage,
    /// The blocks or items, in their provider's format.
    given: Vec<String>,
}

impl Answer<'_> {
    fn list(&self, name: &str) -> Json {
        let id = self.name;
        let text = format!(r#"{{"id":"resp_{id}","{name}":[{}]}}"#, self.given.join(","));
        Json::parse(&text).expect("it was put together of JSON")
    }

    /// Adds an item in its provider's format.
    fn own(&mut self, provider: &str, item: String) {
        let json = Json::parse(&item).expect("it is JSON");
        self.message.content.push(MessagePart::native(provider, json));
        self.given.push(item);
    }

    fn words(&mut self, text: &str, given: Value) {
        self.message.content.push(MessagePart::text(text));
        self.given.push(given.to_string());
    }

    fn thought(&mut self, text: &str, id: &str) {
        let signature = format!("sig-{id}+/=");
        self.message.content.push(MessagePart::thinking(text, &signature));
        let (text, signature) = (json!(text), json!(signature));
        let given = format!(r#"{{"type":"thinking","thinking":{text},"signature":{signature}}}"#);
        self.given.push(given);
    }

    fn called(&mut self, id: &str, call: &Call) {
        let name = if matches!(call.run, ToolFate::Never) { "Nope" } else { "Bash" };
        self.message.tool_calls.push(ToolCall::new(id, name, call.arguments));
    }

    fn anthropic(&mut self, piece: &Piece, id: &str) {
        match piece {
            Piece::Thought(text) => self.thought(text, id),
            Piece::Hidden => {
                self.own("anthropic", format!(r#"{{"type":"redacted_thinking","data":"{id}=="}}"#));
            }
            Piece::Spelt => self.own(
                "anthropic",
                format!(
                    r#"{{ "signature":"sig-{id}", "thinking":"h\u00e9\/", "type":"thinking" }}"#
                ),
            ),
            Piece::Text(text) | Piece::Said(text) => {
                self.words(text, json!({ "type": "text", "text": text }));
            }
            Piece::Search => {
                self.own(
                    "anthropic",
                    format!(
                        r#"{{"type":"server_tool_use","id":"srv{id}","name":"web_search","input":{{}}}}"#
                    ),
                );
                self.own(
                    "anthropic",
                    format!(
                        r#"{{"type":"web_search_tool_result","tool_use_id":"srv{id}","content":[]}}"#
                    ),
                );
            }
            Piece::Remote => {
                self.own(
                    "anthropic",
                    format!(
                        r#"{{"type":"mcp_tool_use","id":"mcp{id}","name":"ask","server_name":"s","input":{{}}}}"#
                    ),
                );
                self.own(
                    "anthropic",
                    format!(
                        r#"{{"type":"mcp_tool_result","tool_use_id":"mcp{id}","is_error":false,"content":[]}}"#
                    ),
                );
            }
            Piece::Call(call) => {
                self.called(id, call);
                let name = &self.message.tool_calls[self.message.tool_calls.len() - 1].name;
                let item = format!(
                    r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{}}}"#,
                    call.arguments
                );
                match call.is_verbatim || self.has_more_thoughts {
                    true => self.own("anthropic", item),
                    false => self.given.push(item),
                }
            }
        }
    }

    fn openai(&mut self, piece: &Piece, id: &str) {
        match piece {
            Piece::Thought(_) | Piece::Spelt | Piece::Hidden => {
                let content = format!(r#""encrypted_content":"enc{id}==","#);
                let content = if self.is_encrypted { &*content } else { "" };
                let item =
                    format!(r#"{{ "id":"rs_{id}","type":"reasoning",{content}"summary":[] }}"#);
                self.own("openai", item);
            }
            Piece::Text(text) => self.words(text, openai_message(text, id)),
            Piece::Said(text) => self.own("openai", openai_message(text, id).to_string()),
            Piece::Search | Piece::Remote => self.own(
                "openai",
                format!(
                    r#"{{"type":"web_search_call","id":"ws_{id}","status":"completed","action":{{"type":"search","query":"q"}}}}"#
                ),
            ),
            Piece::Call(call) => {
                self.called(id, call);
                let name = &*self.message.tool_calls[self.message.tool_calls.len() - 1].name;
                let item = json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": id,
                    "name": name, "arguments": call.arguments });
                self.own("openai", item.to_string());
            }
        }
    }

    fn chat(&mut self, piece: &Piece, id: &str) {
        match piece {
            Piece::Text(text) | Piece::Said(text) => self.words(text, json!(text)),
            Piece::Call(call) => self.called(id, call),
            Piece::Thought(_) | Piece::Hidden | Piece::Spelt | Piece::Search | Piece::Remote => {}
        }
    }

    fn end(&mut self, turn: &Turn) {
        let id = format!("{}end", self.name);
        match (turn.ends, turn.provider) {
            (AnswerEnd::Blank, Provider::Anthropic) => {
                self.words("\n\n", json!({ "type": "text", "text": "\n\n" }));
            }
            (AnswerEnd::InThought, Provider::Anthropic) => {
                self.anthropic(&Piece::Thought("so"), &id)
            }
            (AnswerEnd::InThought, Provider::OpenAi) => self.openai(&Piece::Thought("so"), &id),
            _ => {}
        }
    }
}

fn openai_message(text: &str, id: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
    json!({ "type": "message", "id": format!("msg_{id}"), "role": "assistant",
        "status": "completed", "content": content })
}

//! Assembles a request from recorded pieces, which are sent verbatim.

mod growing;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use threadfold_core::{Dialect, Json, TurnState};

use crate::tool::ToolDefinition;

pub(crate) use growing::GrowingRequest;

/// Renders tools for a provider; `None` if there are none.
pub(crate) fn render_tools(dialect: Dialect, tools: &[ToolDefinition]) -> Option<Json> {
    if tools.is_empty() {
        return None;
    }
    let tools: Vec<Json> = tools.iter().map(|tool| render_tool(dialect, tool)).collect();
    Some(Json::of(&tools))
}

fn render_tool(dialect: Dialect, tool: &ToolDefinition) -> Json {
    #[derive(Serialize)]
    struct Anthropic<'a> {
        name: &'a str,
        description: &'a str,
        input_schema: &'a Json,
    }

    #[derive(Serialize)]
    struct Function<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        r#type: Option<&'static str>,
        name: &'a str,
        description: &'a str,
        parameters: &'a Json,
    }

    #[derive(Serialize)]
    struct Chat<'a> {
        r#type: &'static str,
        function: Function<'a>,
    }

    let (name, description, schema) = (&*tool.name, &*tool.description, &tool.schema);
    let function = |r#type| Function { r#type, name, description, parameters: schema };
    match dialect {
        Dialect::Anthropic => Json::of(&Anthropic { name, description, input_schema: schema }),
        Dialect::Chat => Json::of(&Chat { r#type: "function", function: function(None) }),
        Dialect::Responses => Json::of(&function(Some("function"))),
    }
}

/// The end of every request: its list is the last field but one.
const TAIL: &str = r#"],"stream":true}"#;

/// Assembles the request of the last turn from its recorded pieces.
///
/// Nothing of the conversation is rendered here, so a request that is sent again is identical byte
/// for byte.
pub fn request(dialect: Dialect, state: &TurnState) -> Bytes {
    let frame = Frame::of(dialect, state);
    let items = state.sent_items();
    let mut body = BytesMut::with_capacity(frame.size(&items));
    frame.begin(&mut body);
    items.into_iter().for_each(|item| add(&mut body, item));
    body.put_slice(TAIL.as_bytes());
    body.freeze()
}

fn add(body: &mut BytesMut, item: &Json) {
    // No item ends like that, so this is where the list begins.
    if body.last() != Some(&b'[') {
        body.put_u8(b',');
    }
    body.put_slice(item.as_str().as_bytes());
}

/// What surrounds the recorded items of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Frame {
    /// Everything up to the beginning of the list.
    head: String,
    /// The system prompt, where it is the first item of the list.
    first: Option<Json>,
}

impl Frame {
    fn of(dialect: Dialect, state: &TurnState) -> Self {
        let mut head = Head::default();
        if let Some(turn) = state.last() {
            head.field("model", &Json::string(&turn.sent().model));
        }
        if let Some(parameters) = state.parameters() {
            head.fields(parameters);
        }
        let system = state.system().filter(|it| !it.is_empty());
        let mut first = None;
        match (dialect, system) {
            (_, None) => {}
            (Dialect::Anthropic, Some(system)) => head.field("system", &Json::string(system)),
            (Dialect::Responses, Some(system)) => head.field("instructions", &Json::string(system)),
            (Dialect::Chat, Some(system)) => {
                first = Some(Json::of(&SystemMessage { role: "system", content: system }));
            }
        }
        if let Some(tools) = state.tools() {
            head.field("tools", tools);
        }
        head.raw(dialect.list(), "[");
        Self { head: head.0, first }
    }

    /// Returns how long the request with these items is.
    fn size(&self, items: &[&Json]) -> usize {
        let items = self.first.iter().chain(items.iter().copied());
        let items: usize = items.map(|it| it.as_str().len() + 1).sum();
        self.head.len() + items + TAIL.len()
    }

    fn begin(&self, body: &mut BytesMut) {
        body.put_slice(self.head.as_bytes());
        self.first.iter().for_each(|item| add(body, item));
    }

    /// Returns the request without any items.
    fn empty_request(&self) -> String {
        [&self.head, TAIL].concat()
    }
}

#[derive(Serialize)]
struct SystemMessage<'a> {
    role: &'static str,
    content: &'a str,
}

/// The beginning of a JSON object, written field by field.
#[derive(Default)]
struct Head(String);

impl Head {
    fn field(&mut self, name: &str, value: &Json) {
        self.raw(name, value.as_str());
    }

    fn raw(&mut self, name: &str, value: &str) {
        self.begin();
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
        self.0.push_str(value);
    }

    /// Adds all fields of an object, verbatim.
    fn fields(&mut self, object: &Json) {
        let inner = object.as_str().trim();
        let inner = inner.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        if let Some(inner) = inner.map(str::trim).filter(|it| !it.is_empty()) {
            self.begin();
            self.0.push_str(inner);
        }
    }

    fn begin(&mut self) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
    }
}

//! Assembles a request from recorded pieces, which are sent verbatim.

use bytes::Bytes;
use serde::Serialize;
use threadfold_core::{Dialect, Json, TurnState};

use crate::tool::ToolDefinition;

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

/// Assembles the request of the last turn from its recorded pieces.
///
/// Nothing of the conversation is rendered here, so a request that is sent again is identical byte
/// for byte.
pub fn request(dialect: Dialect, state: &TurnState) -> Bytes {
    let mut body = Body::default();
    if let Some(turn) = state.last() {
        body.field("model", &Json::string(&turn.sent().model));
    }
    if let Some(parameters) = state.parameters() {
        body.fields(parameters);
    }
    let system = state.system().filter(|it| !it.is_empty()).map(Json::string);
    let mut items = Vec::new();
    match (dialect, &system) {
        (_, None) => {}
        (Dialect::Anthropic, Some(system)) => body.field("system", system),
        (Dialect::Responses, Some(system)) => body.field("instructions", system),
        (Dialect::Chat, Some(system)) => {
            items.push(format!(r#"{{"role":"system","content":{}}}"#, system.as_str()));
        }
    }
    if let Some(tools) = state.tools() {
        body.field("tools", tools);
    }
    let kept = state.sent_items();
    let mut list = String::with_capacity(kept.iter().map(|it| it.as_str().len() + 1).sum());
    for item in items.iter().map(String::as_str).chain(kept.iter().map(|it| it.as_str())) {
        list.push(if list.is_empty() { '[' } else { ',' });
        list.push_str(item);
    }
    list.push_str(if list.is_empty() { "[]" } else { "]" });
    body.raw(dialect.list(), &list);
    body.raw("stream", "true");
    body.finish()
}

/// A JSON object that is written field by field.
#[derive(Default)]
struct Body(String);

impl Body {
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

    fn finish(mut self) -> Bytes {
        self.0.push('}');
        self.0.into()
    }
}

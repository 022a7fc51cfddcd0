//! A model with prepared answers, tools that count, and a shared store.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use threadfold_core::{ConversationMessage, Json, Role, ToolCall, TurnState};
use threadfold_engine::load;
use threadfold_fold::Slices;
use threadfold_loop::{
    AgentLoop, Answer, Deltas, Dialect, Effect, Provider, ProviderError, Retries, Tool,
    ToolContext, ToolDefinition, ToolError, ToolOutput,
};
use threadfold_store::{MemoryStore, Store};

type PreparedAnswer = Result<Answer, ProviderError>;
type AnswerSource = Box<dyn Fn() -> PreparedAnswer + Send + Sync>;

/// A model with prepared answers, selected by the number of answers in the request. Records the
/// requests.
#[derive(Clone)]
pub(crate) struct Model {
    answers: Arc<Vec<AnswerSource>>,
    pub(crate) requests: Arc<Mutex<Vec<Bytes>>>,
    dialect: Dialect,
    name: &'static str,
    fails: Arc<Mutex<Vec<ProviderError>>>,
}

impl Model {
    pub(crate) fn new(answers: Vec<ConversationMessage>) -> Self {
        let received = |message: ConversationMessage| -> AnswerSource {
            Box::new(move || Ok(message.clone().into()))
        };
        Self {
            answers: Arc::new(answers.into_iter().map(received).collect()),
            requests: Arc::default(),
            dialect: Dialect::Anthropic,
            name: "told",
            fails: Arc::default(),
        }
    }

    pub(crate) fn failing(self, error: ProviderError) -> Self {
        self.fails.lock().unwrap().push(error);
        self
    }

    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    pub(crate) fn sent(&self) -> Vec<Bytes> {
        self.requests.lock().unwrap().clone()
    }
}

#[async_trait]
impl Provider for Model {
    fn name(&self) -> &str {
        self.name
    }

    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn parameters(&self) -> Json {
        Json::parse(r#"{"max_tokens":100}"#).unwrap()
    }

    async fn ask(&self, request: Bytes, _: &Deltas) -> PreparedAnswer {
        self.requests.lock().unwrap().push(request.clone());
        if let Some(error) = self.fails.lock().unwrap().pop() {
            return Err(error);
        }
        let request: Value = serde_json::from_slice(&request).unwrap();
        let messages = request["messages"].as_array().unwrap();
        let answers = messages.iter().filter(|it| it["role"] == "assistant").count();
        match self.answers.get(answers) {
            Some(saying) => saying(),
            None => Ok(answer_text("I have nothing more to say").into()),
        }
    }
}

pub(crate) fn answer_text(text: &str) -> ConversationMessage {
    ConversationMessage::text(Role::Assistant, text)
}

/// An answer with tool calls: `("c1", "look", "{}")` each.
pub(crate) fn answer_calls(calls: &[(&str, &str, &str)]) -> ConversationMessage {
    let calls = calls.iter().map(|(id, name, arguments)| ToolCall::new(*id, name, arguments));
    ConversationMessage { tool_calls: calls.collect(), ..ConversationMessage::new(Role::Assistant) }
}

/// What a tool does besides counting.
pub(crate) type ToolAction =
    Box<dyn Fn(&str, &ToolContext) -> Result<ToolOutput, ToolError> + Send + Sync>;

/// A tool that counts how often it ran, and with which keys.
pub(crate) struct CountingTool {
    name: &'static str,
    effect: Effect,
    deed: ToolAction,
    pub(crate) runs: AtomicUsize,
    pub(crate) keys: Mutex<Vec<String>>,
}

impl CountingTool {
    pub(crate) fn new(name: &'static str, effect: Effect) -> Arc<Self> {
        Self::doing(name, effect, Box::new(move |_, _| Ok(format!("{name} done").into())))
    }

    pub(crate) fn doing(name: &'static str, effect: Effect, deed: ToolAction) -> Arc<Self> {
        let (runs, keys) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { name, effect, deed, runs, keys })
    }

    pub(crate) fn count(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tool for CountingTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.to_owned(),
            description: format!("The tool {}", self.name),
            schema: Json::parse(r#"{"type":"object"}"#).unwrap(),
        }
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    async fn call(&self, arguments: &str, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        self.keys.lock().unwrap().push(context.key.to_string());
        (self.deed)(arguments, context)
    }
}

pub(crate) fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

/// Retries at once.
pub(crate) fn soon() -> Retries {
    Retries { first: std::time::Duration::from_millis(1), ..Retries::default() }
}

pub(crate) fn agent_loop(store: &Arc<dyn Store>, model: &Model) -> AgentLoop {
    let model = Arc::new(model.clone());
    AgentLoop::new(store.clone(), model, "model-1").system("You work.").retries(soon())
}

/// Returns the recorded turns of a session.
pub(crate) async fn turns(store: &Arc<dyn Store>, session: &str) -> TurnState {
    let loaded = load(store, &session.into(), u64::MAX, Slices::default()).await.unwrap();
    loaded.fold.turns().clone()
}

/// Returns the messages, one per line.
pub(crate) fn describe(history: &[ConversationMessage]) -> String {
    let line = |message: &ConversationMessage| {
        let calls: Vec<_> = message.tool_calls.iter().map(|it| format!(" +{}", it.name)).collect();
        let error = if message.is_error { " (error)" } else { "" };
        format!("{}:{error} {}{}", message.role, message.to_text(), calls.concat())
    };
    history.iter().map(line).collect::<Vec<_>>().join("\n")
}

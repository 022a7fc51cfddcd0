//! A tool from a function: its arguments are a Rust type, which the schema is derived from.

use std::marker::PhantomData;
use std::pin::Pin;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use threadfold_core::{Effect, Json};

use super::{Probe, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput};

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, ToolError>> + Send>>;
type Handler<A, T> = Box<dyn Fn(A, ToolContext) -> Answer<T> + Send + Sync>;

/// A tool made of functions.
pub struct TypedTool<A> {
    definition: ToolDefinition,
    effect: Effect,
    handler: Handler<A, ToolOutput>,
    probe: Option<Handler<A, Probe>>,
    undo: Option<Handler<A, ()>>,
    arguments: PhantomData<fn() -> A>,
}

/// Returns a tool that runs `handler`. It counts as unsafe to run twice until
/// [`effect`](TypedTool::effect) sets otherwise.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use threadfold_loop::{Effect, Tool, ToolContext, tool};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     a: i64,
///     b: i64,
/// }
///
/// let add = tool("add", "Adds two numbers", |args: Add, _: ToolContext| async move {
///     Ok(format!("{}", args.a + args.b).into())
/// })
/// .effect(Effect::Pure);
/// assert!(add.definition().schema.as_str().contains(r#""a""#));
/// ```
pub fn tool<A, F, R>(name: &str, description: &str, handler: F) -> TypedTool<A>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    let schema = schemars::schema_for!(A);
    TypedTool {
        definition: ToolDefinition {
            name: name.to_owned(),
            description: description.to_owned(),
            schema: Json::of(&schema),
        },
        effect: Effect::Unsafe,
        handler: Box::new(move |arguments, context| Box::pin(handler(arguments, context))),
        probe: None,
        undo: None,
        arguments: PhantomData,
    }
}

impl<A> TypedTool<A> {
    /// Sets the effect of running the tool twice.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Sets a function that reports whether a call took effect.
    #[must_use]
    pub fn probe<F, R>(mut self, probe: F) -> Self
    where
        F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Probe, ToolError>> + Send + 'static,
    {
        self.effect = Effect::Probe;
        self.probe = Some(Box::new(move |arguments, context| Box::pin(probe(arguments, context))));
        self
    }

    /// Sets a function that undoes a call.
    #[must_use]
    pub fn undo<F, R>(mut self, undo: F) -> Self
    where
        F: Fn(A, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), ToolError>> + Send + 'static,
    {
        self.effect = Effect::Compensable;
        self.undo = Some(Box::new(move |arguments, context| Box::pin(undo(arguments, context))));
        self
    }

    fn read(&self, arguments: &str) -> Result<A, ToolError>
    where
        A: DeserializeOwned,
    {
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        serde_json::from_str(text).map_err(|error| {
            let name = &self.definition.name;
            // The error may quote the model's input, which can be arbitrarily long.
            let why: String = error.to_string().chars().take(500).collect();
            ToolError::failed(format!("invalid arguments for `{name}`: {why}"))
        })
    }
}

#[async_trait]
impl<A: DeserializeOwned + Send + 'static> Tool for TypedTool<A> {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    async fn call(&self, arguments: &str, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        (self.handler)(self.read(arguments)?, context.clone()).await
    }

    async fn probe(&self, arguments: &str, context: &ToolContext) -> Result<Probe, ToolError> {
        match &self.probe {
            Some(probe) => probe(self.read(arguments)?, context.clone()).await,
            None => Ok(Probe::Unknown),
        }
    }

    async fn undo(&self, arguments: &str, context: &ToolContext) -> Result<(), ToolError> {
        match &self.undo {
            Some(undo) => undo(self.read(arguments)?, context.clone()).await,
            None => Err(ToolError::unknown("the tool cannot undo a call")),
        }
    }
}

//! A server's tool as one of ours.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, RequestMetaObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use threadfold_core::{Effect, Json};

use super::Listed;
use super::name::{distinct_name, tool_name};
use super::outcome::{output, output_of_unknown};
use super::outgoing::Outgoing;
use super::server::Server;
use super::transport::UNREADABLE;
use crate::builtin::{Stop, shorten};
use crate::tool::{Tool, ToolContext, ToolDefinition, ToolError, ToolOutput};

/// How long a call may take if nobody says.
const TIMEOUT: Duration = Duration::from_secs(600);
/// How long it may take to tell a server that a call was given up.
const FAREWELL: Duration = Duration::from_secs(5);
/// The key of a call, in a request's `_meta`.
const KEY: &str = "threadfold/key";

pub(super) struct McpTool {
    server: Arc<Server>,
    /// As its server calls it.
    name: String,
    definition: ToolDefinition,
    effect: Effect,
}

impl McpTool {
    pub(super) fn new(server: Arc<Server>, listed: Listed, effect: Effect) -> Self {
        let name = tool_name(&server.name, &listed.name);
        let Listed { name: own_name, description, schema, .. } = listed;
        let definition = ToolDefinition { name, description, schema };
        Self { server, name: own_name, definition, effect }
    }

    /// Gives it another name if its own is in `names`, and adds it to them.
    pub(super) fn make_unique(&mut self, names: &mut BTreeSet<String>) {
        if !names.insert(self.definition.name.clone()) {
            let name = distinct_name(&self.definition.name, &self.server.name, &self.name);
            names.insert(name.clone());
            self.definition.name = name;
        }
    }

    fn arguments(&self, arguments: &str) -> Result<Json, ToolError> {
        let text = if arguments.trim().is_empty() { "{}" } else { arguments };
        let refuse = |why: String| {
            let name = &self.definition.name;
            ToolError::failed(format!("the arguments of `{name}` must be a JSON object: {why}"))
        };
        let json = Json::parse(text).map_err(|error| refuse(error.to_string()))?;
        if json.as_str().starts_with('{') {
            Ok(json)
        } else {
            Err(refuse(format!("this is `{}`", shorten(json.as_str(), 100))))
        }
    }

    async fn send(&self, outgoing: &Outgoing, key: &str) -> Result<Pending, ToolError> {
        let mut meta = RequestMetaObject::default();
        meta.insert(KEY.to_owned(), key.into());
        let params = CallToolRequestParams::new(self.name.clone());
        let mut call = CallToolRequest::new(params);
        call.extensions.insert(outgoing.clone());
        let request = ClientRequest::CallToolRequest(call);
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let handle = self.server.peer().send_request_with_option(request, options).await;
        match handle {
            Ok(handle) => Ok(Pending { handle: Some(handle) }),
            Err(_) => Err(self.broken(outgoing, "is gone").await),
        }
    }

    async fn broken(&self, outgoing: &Outgoing, what: &str) -> ToolError {
        let was_sent = outgoing.give_up();
        let (server, last_words) = (&self.server.name, self.server.last_words().await);
        if was_sent {
            ToolError::unknown(format!(
                "MCP server `{server}` {what}, and the call may have happened: {last_words}"
            ))
        } else {
            ToolError::failed(format!(
                "MCP server `{server}` {what}, and the call was not made: {last_words}"
            ))
        }
    }

    async fn refused(&self, outgoing: &Outgoing, error: ServiceError) -> ToolError {
        let server = &self.server.name;
        match error {
            ServiceError::McpError(error) if error.code == UNREADABLE => {
                let message = error.message;
                ToolError::unknown(format!(
                    "MCP server `{server}` answered, but not so that it can be understood: \
                     {message}"
                ))
            }
            ServiceError::McpError(error) => {
                let (message, code) = (shorten(&error.message, 1_500), error.code.0);
                ToolError::failed(format!(
                    "MCP server `{server}` refused the call: {message} (code {code})"
                ))
            }
            _ => self.broken(outgoing, "is gone").await,
        }
    }
}

#[async_trait]
impl Tool for McpTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    async fn call(&self, arguments: &str, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let stop = Stop::of(context).by(Instant::now() + TIMEOUT);
        stop.check()?;
        let outgoing = Outgoing::new(self.arguments(arguments)?);
        let answer = async {
            let mut pending = self.send(&outgoing, context.key.as_str()).await?;
            match pending.answer().await {
                Some(Ok(answer)) => Ok(answer),
                Some(Err(error)) => Err(self.refused(&outgoing, error).await),
                None => Err(self.broken(&outgoing, "is gone").await),
            }
        };
        let answer = tokio::select! {
            answer = answer => answer?,
            stopped = stop.reached() => {
                let what = format!("did not answer before {}", stopped.as_str());
                return Err(self.broken(&outgoing, &what).await);
            }
        };
        let understood = match answer {
            ServerResult::CallToolResult(result) => Some(output(result)),
            ServerResult::CustomResult(result) => output_of_unknown(&result.0),
            _ => None,
        };
        understood.ok_or_else(|| {
            let server = &self.server.name;
            ToolError::unknown(format!("MCP server `{server}` answered, but gave no result"))
        })
    }
}

/// A call that is waited for. Dropping it tells the server that nobody waits any more.
struct Pending {
    handle: Option<RequestHandle<RoleClient>>,
}

impl Pending {
    async fn answer(&mut self) -> Option<Result<ServerResult, ServiceError>> {
        let handle = self.handle.as_mut()?;
        let answer = (&mut handle.rx).await.ok();
        self.handle = None;
        answer
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let runtime = tokio::runtime::Handle::try_current();
        if let (Some(handle), Ok(runtime)) = (self.handle.take(), runtime) {
            let farewell = handle.cancel(Some("the call was given up".to_owned()));
            runtime.spawn(tokio::time::timeout(FAREWELL, farewell));
        }
    }
}

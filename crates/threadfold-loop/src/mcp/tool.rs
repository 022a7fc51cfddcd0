//! An MCP tool as one of ours.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, RequestMetaObject, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use threadfold_core::{Effect, Json};

use super::ListedTool;
use super::content::{output, output_of_unknown};
use super::name::{distinct_name, tool_name};
use super::outcome::{broken, refused};
use super::outgoing::SendState;
use super::server::Server;
use crate::builtin::{Stop, shorten};
use crate::tool::{Tool, ToolContext, ToolDefinition, ToolError, ToolOutput};

/// The default timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(600);
/// How long to wait for the notification that a call was given up.
const FAREWELL: Duration = Duration::from_secs(5);
/// The field in a request's `_meta` that carries the idempotency key.
const KEY: &str = "threadfold/key";

pub(super) struct McpTool {
    server: Arc<Server>,
    /// The server's name for it.
    name: String,
    definition: ToolDefinition,
    effect: Effect,
}

impl McpTool {
    pub(super) fn new(server: Arc<Server>, listed: ListedTool, effect: Effect) -> Self {
        let name = tool_name(&server.name, &listed.name);
        let ListedTool { name: own_name, description, schema, .. } = listed;
        let definition = ToolDefinition { name, description, schema };
        Self { server, name: own_name, definition, effect }
    }

    /// Renames the tool if its name is already in `names`, and adds its name to them.
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
            Err(refuse(format!("found `{}`", shorten(json.as_str(), 100))))
        }
    }

    async fn send(&self, outgoing: &SendState, key: &str) -> Result<PendingCall, ToolError> {
        let mut meta = RequestMetaObject::default();
        meta.insert(KEY.to_owned(), key.into());
        let params = CallToolRequestParams::new(self.name.clone());
        let mut call = CallToolRequest::new(params);
        call.extensions.insert(outgoing.clone());
        let request = ClientRequest::CallToolRequest(call);
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let handle = self.server.peer().send_request_with_option(request, options).await;
        match handle {
            Ok(handle) => Ok(PendingCall { handle: Some(handle) }),
            Err(_) => Err(broken(&self.server, outgoing, "has ended").await),
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
        let outgoing = SendState::new(self.arguments(arguments)?);
        let answer = async {
            let mut pending = self.send(&outgoing, context.key.as_str()).await?;
            match pending.answer().await {
                Some(Ok(answer)) => Ok(answer),
                Some(Err(error)) => Err(refused(&self.server, &outgoing, error).await),
                None => Err(broken(&self.server, &outgoing, "has ended").await),
            }
        };
        let answer = tokio::select! {
            answer = answer => answer?,
            stopped = stop.reached() => {
                let what = format!("did not answer before {}", stopped.as_str());
                return Err(broken(&self.server, &outgoing, &what).await);
            }
        };
        let output = match answer {
            ServerResult::CallToolResult(result) => Some(output(result)),
            ServerResult::CustomResult(result) => output_of_unknown(&result.0),
            _ => None,
        };
        output.ok_or_else(|| {
            let server = &self.server.name;
            ToolError::unknown(format!("MCP server `{server}` answered without a result"))
        })
    }
}

/// A pending call. Dropping it notifies the server that the call was cancelled.
struct PendingCall {
    handle: Option<RequestHandle<RoleClient>>,
}

impl PendingCall {
    async fn answer(&mut self) -> Option<Result<ServerResult, ServiceError>> {
        let handle = self.handle.as_mut()?;
        let answer = (&mut handle.rx).await.ok();
        self.handle = None;
        answer
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        let runtime = tokio::runtime::Handle::try_current();
        if let (Some(handle), Ok(runtime)) = (self.handle.take(), runtime) {
            let farewell = handle.cancel(Some("the call was given up".to_owned()));
            runtime.spawn(tokio::time::timeout(FAREWELL, farewell));
        }
    }
}

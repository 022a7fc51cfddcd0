//! The outcome of an MCP call without a result: failed or unknown.

use rmcp::service::ServiceError;

use super::outgoing::SendState;
use super::server::Server;
use super::transport::UNREADABLE;
use crate::builtin::shorten;
use crate::tool::ToolError;

/// Returns the error of a call whose connection broke. Whether the request was sent decides: a
/// request that left this process may have taken effect.
pub(super) async fn broken(server: &Server, outgoing: &SendState, what: &str) -> ToolError {
    let was_sent = outgoing.give_up();
    let (server, exit_report) = (&server.name, server.exit_report().await);
    if was_sent {
        ToolError::unknown(format!(
            "MCP server `{server}` {what}, and the call may have taken effect: {exit_report}"
        ))
    } else {
        ToolError::failed(format!(
            "MCP server `{server}` {what}, and the call was not made: {exit_report}"
        ))
    }
}

/// Returns the error of a call that the server, or the transport, answered with an error.
pub(super) async fn refused(
    server: &Server,
    outgoing: &SendState,
    error: ServiceError,
) -> ToolError {
    let name = &server.name;
    match error {
        ServiceError::McpError(error) if error.code == UNREADABLE => {
            let message = error.message;
            ToolError::unknown(format!(
                "MCP server `{name}` sent an answer that cannot be parsed: {message}"
            ))
        }
        ServiceError::McpError(error) => {
            let (message, code) = (shorten(&error.message, 1_500), error.code.0);
            ToolError::failed(format!(
                "MCP server `{name}` refused the call: {message} (code {code})"
            ))
        }
        _ => broken(server, outgoing, "has ended").await,
    }
}

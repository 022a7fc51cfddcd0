//! Transports messages as lines, to and from a server's process.
//!
//! A line that answers a request but cannot be parsed fails that request at once: waiting for
//! another answer would never end. Any other line that is not a message is logged.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use threadfold_core::{Json, without_lone_surrogates};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};

use super::line::{Line, LineReader};
use super::outgoing::{SendState, encode};
use super::server::ServerLog;
use crate::builtin::shorten;

/// The maximum size of a message in bytes.
const MESSAGE: usize = 32 * 1024 * 1024;
/// Our own error code for an answer that cannot be parsed.
pub(super) const UNREADABLE: ErrorCode = ErrorCode(i32::MIN);

/// The schemas of tools by name, verbatim, while tools are listed.
pub(super) type Schemas = Arc<Mutex<Option<HashMap<String, Json>>>>;

/// The lines to and from a server.
pub(super) struct Lines {
    reader: LineReader<Receiver>,
    writer: Arc<tokio::sync::Mutex<Option<Sender>>>,
    schemas: Schemas,
    server_log: ServerLog,
}

impl Lines {
    pub(super) fn new(
        output: Receiver,
        input: Sender,
        schemas: Schemas,
        server_log: ServerLog,
    ) -> Self {
        let reader = LineReader::new(output, MESSAGE);
        let writer = Arc::new(tokio::sync::Mutex::new(Some(input)));
        Self { reader, writer, schemas, server_log }
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let writer = Arc::clone(&self.writer);
        async move {
            let (line, outgoing) = encode(&message)?;
            let mut writer = writer.lock().await;
            let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            if outgoing.as_ref().is_none_or(SendState::begin) {
                write(writer, &line, outgoing.as_ref()).await?;
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let line = self.reader.next().await?;
            if line.bytes.trim_ascii().is_empty() {
                continue;
            }
            match understand(line) {
                Some(message) => {
                    keep_schemas(&self.schemas, &line.bytes);
                    return Some(message);
                }
                None => self.server_log.line("stdout: ", &line.bytes),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.lock().await.take();
        Ok(())
    }
}

async fn write(writer: &mut Sender, line: &[u8], outgoing: Option<&SendState>) -> io::Result<()> {
    let first = writer.write(line).await;
    if first.is_err()
        && let Some(outgoing) = outgoing
    {
        outgoing.was_refused();
    }
    writer.write_all(&line[first?..]).await
}

/// Parses a message. For an invalid line that answers a request, returns an error for that request.
fn understand(line: &Line) -> Option<ServerJsonRpcMessage> {
    let problem = if line.is_cut {
        format!("longer than {MESSAGE} bytes")
    } else {
        let text = String::from_utf8_lossy(&line.bytes);
        match serde_json::from_str(&without_lone_surrogates(&text)) {
            Ok(message) => return Some(message),
            Err(error) => error.to_string(),
        }
    };
    let id = answered(&line.bytes)?;
    let begin = String::from_utf8_lossy(&line.bytes[..line.bytes.len().min(400)]);
    let message = format!("{problem}; it starts with `{}`", shorten(&begin, 200));
    let error = ErrorData::new(UNREADABLE, message, None);
    Some(JsonRpcMessage::error(error, Some(RequestId::Number(id))))
}

/// Returns the request that a line answers, if that can be determined.
fn answered(line: &[u8]) -> Option<i64> {
    #[derive(Deserialize)]
    struct Answer {
        id: i64,
        method: Option<IgnoredAny>,
    }
    if let Ok(answer) = serde_json::from_slice::<Answer>(line) {
        return answer.method.is_none().then_some(answer.id);
    }
    let begin = String::from_utf8_lossy(&line[..line.len().min(200)]);
    let begin = begin.split("\"result\"").next().filter(|it| it.starts_with('{'))?;
    let (_, rest) = begin.split_once("\"id\"").filter(|_| !begin.contains("\"method\""))?;
    let number = rest.trim_start_matches([':', ' ']);
    let length = number.find(|it: char| !it.is_ascii_digit()).unwrap_or(number.len());
    number[..length].parse().ok()
}

/// Stores the tool schemas in a line, because the library would not preserve them verbatim.
fn keep_schemas(schemas: &Schemas, line: &[u8]) {
    #[derive(Deserialize)]
    struct Answer {
        result: Tools,
    }
    #[derive(Deserialize)]
    struct Tools {
        tools: Vec<Tool>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Tool {
        name: String,
        input_schema: Json,
    }
    let mut schemas = schemas.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(schemas) = schemas.as_mut() else { return };
    if memchr::memmem::find(line, b"\"inputSchema\"").is_none() {
        return;
    }
    if let Ok(answer) = serde_json::from_slice::<Answer>(line) {
        let found = answer.result.tools.into_iter().map(|it| (it.name, it.input_schema));
        schemas.extend(found);
    }
}

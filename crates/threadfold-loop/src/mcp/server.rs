//! A server: its process, its log output, and the connection to it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams, Tool};
use rmcp::service::{Peer, RoleClient, RunningService, ServiceExt};
use threadfold_core::Json;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio_util::sync::CancellationToken;

use super::life_line::LifeLine;
use super::line::LineReader;
use super::transport::{Lines, Schemas};
use super::{ListedTool, McpError, McpLog, McpServerConfig};
use crate::builtin::{ProcessGroup, shorten};

/// The default startup timeout in seconds.
const STARTUP: u64 = 60;
/// How long a server may take to end after its input was closed.
const GRACE: Duration = Duration::from_secs(2);
/// How long a server that closed its output may take to end and to report why.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// How many lines of its log output are kept, and how many bytes of each.
const LAST_LINES: (usize, usize) = (10, 500);
/// How many bytes of tools a server may list, and on how many pages. A server may list without
/// end, and what it lists is sent to the model in every request.
const LISTED: usize = 16 << 20;
const PAGES: usize = 4096;
/// About how many bytes a tool takes besides its texts.
const TOOL: usize = 256;
/// How many bytes of a line of its standard error are logged.
const LINE: usize = 16 * 1024;

/// A running server. It ends when this is dropped.
pub(super) struct Server {
    pub(super) name: String,
    service: RunningService<RoleClient, ClientConfig>,
    server_log: ServerLog,
    process: Option<ProcessGroup>,
    _life_line: LifeLine,
}

impl Server {
    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Describes how the server ended, and its last output. If it has closed its output, it gets a
    /// moment to end.
    pub(super) async fn exit_report(&self) -> String {
        let patience =
            if self.peer().is_transport_closed() { EXIT_TIMEOUT } else { Duration::ZERO };
        exit_report(self.process.as_ref(), &self.server_log, patience).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Dropping the service closes the server's input, which requests its end.
        if let Some(process) = self.process.take() {
            process.retire(GRACE);
        }
    }
}

/// Starts a server and lists its tools.
pub(super) async fn start(
    name: &str,
    config: &McpServerConfig,
    log: McpLog,
) -> Result<(Server, Vec<ListedTool>), McpError> {
    let not_started = |source: io::Error| McpError::Start {
        server: name.to_owned(),
        command: config.command.clone(),
        source,
    };
    let life_line = LifeLine::new().map_err(not_started)?;
    let mut process = spawn(config, &life_line).map_err(not_started)?;
    let (lines, server_log, schemas) = pipes(&mut process, name, log).map_err(not_started)?;

    let seconds = config.startup_seconds.unwrap_or(STARTUP);
    let ready = async {
        let us = Implementation::new("threadfold", env!("CARGO_PKG_VERSION"));
        let info = ClientConfig::new(ClientCapabilities::default(), us);
        let service = info.serve(lines).await.map_err(|error| error.to_string())?;
        let tools = list_tools(service.peer(), &schemas).await?;
        Ok((service, tools))
    };
    let ready = tokio::time::timeout(Duration::from_secs(seconds), ready).await;
    let ready = ready.unwrap_or_else(|_| Err(format!("not ready after {seconds} seconds")));
    // Only answers to the listing have schemas; others must not be collected.
    schemas.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (service, listed) = match ready {
        Ok(ready) => ready,
        Err(error) => {
            let reason = format!(
                "{error}; {}",
                exit_report(Some(&process), &server_log, EXIT_TIMEOUT).await
            );
            return Err(McpError::NotReady { server: name.to_owned(), reason });
        }
    };
    let (name, process) = (name.to_owned(), Some(process));
    Ok((Server { name, service, server_log, process, _life_line: life_line }, listed))
}

/// Lists a server's tools, page by page.
async fn list_tools(peer: &Peer<RoleClient>, schemas: &Schemas) -> Result<Vec<ListedTool>, String> {
    let mut tools = Vec::new();
    let (mut cursor, mut bytes) = (None, 0);
    for _ in 0..PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = peer.list_tools(Some(params)).await.map_err(|error| error.to_string())?;
        for tool in page.tools {
            let tool = listed(tool, schemas);
            let texts = [&tool.name, &tool.description, tool.schema.as_str()];
            bytes += TOOL + texts.map(str::len).iter().sum::<usize>();
            tools.push(tool);
        }
        if bytes > LISTED {
            return Err(format!("it lists more than {LISTED} bytes of tools"));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(tools);
        }
    }
    Err(format!("it lists its tools on more than {PAGES} pages"))
}

fn spawn(config: &McpServerConfig, life_line: &LifeLine) -> io::Result<ProcessGroup> {
    let mut command = life_line.command(config);
    for name in crate::provider::KEY_VARIABLES {
        command.env_remove(name);
    }
    command.envs(&config.env);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(folder) = &config.cwd {
        command.current_dir(folder);
    }
    ProcessGroup::spawn(&mut command)
}

/// Takes the process's pipes, and starts reading its standard error.
fn pipes(
    process: &mut ProcessGroup,
    name: &str,
    log: McpLog,
) -> io::Result<(Lines, ServerLog, Schemas)> {
    fn taken<T: Into<OwnedFd>>(pipe: Option<T>) -> io::Result<OwnedFd> {
        pipe.map(Into::into).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
    let leader = process.leader();
    let input = Sender::from_owned_fd(taken(leader.stdin.take())?)?;
    let output = Receiver::from_owned_fd(taken(leader.stdout.take())?)?;
    let talk = Receiver::from_owned_fd(taken(leader.stderr.take())?)?;

    let over = CancellationToken::new();
    let server_log =
        ServerLog { server: name.into(), log, last: Arc::default(), over: over.clone() };
    let listening = server_log.clone();
    tokio::spawn(async move {
        let mut talk = LineReader::new(talk, LINE);
        while let Some(line) = talk.next().await {
            listening.line("", &line.bytes);
        }
        over.cancel();
    });
    let schemas = Schemas::new(Mutex::new(Some(HashMap::new())));
    let lines = Lines::new(output, input, Arc::clone(&schemas), server_log.clone());
    Ok((lines, server_log, schemas))
}

fn listed(tool: Tool, schemas: &Schemas) -> ListedTool {
    let hints = tool.annotations.unwrap_or_default();
    let mut schemas = schemas.lock().unwrap_or_else(PoisonError::into_inner);
    let schema = schemas.as_mut().and_then(|it| it.remove(&*tool.name));
    ListedTool {
        description: tool.description.map(Into::into).or(tool.title).unwrap_or_default(),
        schema: schema.unwrap_or_else(|| Json::of(&*tool.input_schema)),
        name: tool.name.into_owned(),
        is_read_only: hints.read_only_hint.unwrap_or(false),
        is_idempotent: hints.idempotent_hint.unwrap_or(false),
        // The protocol's default: a tool without the hint may be destructive.
        is_destructive: hints.destructive_hint.unwrap_or(true),
    }
}

async fn exit_report(
    process: Option<&ProcessGroup>,
    server_log: &ServerLog,
    patience: Duration,
) -> String {
    let ended = async {
        while process.and_then(ProcessGroup::how_ended).is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // Output from before its end may still be in the pipe.
        server_log.over.cancelled().await;
    };
    tokio::time::timeout(patience, ended).await.ok();
    let how = process
        .and_then(ProcessGroup::how_ended)
        .unwrap_or_else(|| "it is still running".to_owned());
    let last = server_log.last.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_empty() {
        return format!("{how}, without any output");
    }
    let last: Vec<&str> = last.iter().map(String::as_str).collect();
    format!("{how}; last output: {}", last.join(" | "))
}

/// The log output of a server, outside the protocol.
#[derive(Clone)]
pub(super) struct ServerLog {
    server: Arc<str>,
    log: McpLog,
    last: Arc<Mutex<VecDeque<String>>>,
    /// Cancelled when its standard error has ended.
    over: CancellationToken,
}

impl ServerLog {
    pub(super) fn line(&self, origin: &str, bytes: &[u8]) {
        let text = &bytes[..bytes.len().min(LINE)];
        let text = format!("{origin}{}", String::from_utf8_lossy(text).trim_end());
        (self.log)(&self.server, &text);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.push_back(shorten(&text, LAST_LINES.1));
        if last.len() > LAST_LINES.0 {
            last.pop_front();
        }
    }
}

//! MCP tools, against real processes.

use std::env;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use threadfold_core::MessagePartBody;
use threadfold_loop::{
    Effect, ErrorOutcome, McpConfig, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput,
    connect_mcp,
};

use crate::calls::{context, describe, until, within};
use crate::mcp_server::{PICTURE, SCHEMA, config};

/// Set for the process to kill.
const VICTIM: &str = "THREADFOLD_TEST_CLIENT";

/// The tools of a server, and its log output.
struct Connection {
    tools: Vec<Arc<dyn Tool>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Connection {
    async fn new(config: &McpConfig) -> Self {
        let log = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&log);
        let tools = connect_mcp(
            config,
            Arc::new(move |server, line| kept.lock().unwrap().push(format!("{server}: {line}"))),
        );
        Self { tools: tools.await.unwrap(), log }
    }

    fn tool(&self, name: &str) -> &Arc<dyn Tool> {
        let name = format!("mcp__test__{name}");
        self.tools.iter().find(|it| it.definition().name == name).unwrap()
    }

    async fn call(&self, name: &str) -> String {
        describe(self.tool(name).call("{}", &within("key", 30_000)).await)
    }

    fn has_logged(&self, line: &str) -> bool {
        self.log.lock().unwrap().iter().any(|it| it == line)
    }
}

async fn failure(config: &McpConfig) -> String {
    let error = connect_mcp(config, Arc::new(|_, _| {})).await.err().unwrap();
    error.to_string()
}

#[tokio::test]
async fn tools_are_sorted_whatever_order_a_server_uses() {
    let names = |connected: Connection| -> Vec<_> {
        connected.tools.iter().map(|it| it.definition()).collect()
    };
    let one = names(Connection::new(&config("plain")).await);
    assert_eq!(names(Connection::new(&config("backwards")).await), one);
}

#[tokio::test]
async fn tools_of_a_server_become_ours() {
    let mut config = config("plain");
    let effects = &mut config.servers.get_mut("test").unwrap().effects;
    effects.insert("hang".to_owned(), Effect::Idempotent);
    let connected = Connection::new(&config).await;
    let output: Vec<_> = connected
        .tools
        .iter()
        .map(|it| format!("{} {:?}", it.definition().name, it.effect()))
        .collect();
    // Two names that are equal in the characters that providers accept.
    assert_eq!(output[0], "mcp__test__a_b Unsafe");
    assert!(output[1].starts_with("mcp__test__a_b_") && output[1].len() > 20, "{}", output[1]);
    assert_eq!(
        output[4..7],
        [
            "mcp__test__echo Pure",
            "mcp__test__everything Idempotent",
            // A tool without the hint may be destructive.
            "mcp__test__fail Unsafe",
        ]
    );
    assert_eq!(connected.tool("hang").effect(), Effect::Idempotent);

    let definition = connected.tool("echo").definition();
    assert_eq!(definition.schema.as_str(), SCHEMA);
    assert_eq!(definition.description, "does echo");
}

#[tokio::test]
async fn a_call_carries_its_key_and_verbatim_arguments() {
    let connected = Connection::new(&config("plain")).await;
    let arguments = "{\"z\": 1.50,\n \"a\": \"line\\nend\", \"n\": 12345678901234567890123}";
    let echo = connected.tool("echo").call(arguments, &context("the-key")).await.unwrap();
    let line = echo.to_text();
    let sent = r#""arguments":{"z": 1.50,  "a": "line\nend", "n": 12345678901234567890123}"#;
    assert!(line.contains(sent), "{line}");
    assert!(line.contains(r#""threadfold/key":"the-key""#), "{line}");
    assert!(line.contains(r#""name":"echo""#), "{line}");

    for (arguments, problem) in [("{", "EOF"), ("[]", "found `[]`"), ("no", "expected")] {
        let error = connected.tool("echo").call(arguments, &context("key")).await.unwrap_err();
        assert_eq!(error.outcome, ErrorOutcome::Failed);
        assert!(error.message.contains("must be a JSON object"), "{error}");
        assert!(error.message.contains(problem), "{error}");
    }
    let empty: Value = serde_json::from_str(&connected.call("echo").await).unwrap();
    assert_eq!(empty["params"]["arguments"], serde_json::json!({}));
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(10_000_000));
    let echo = connected.tool("echo").call(&long, &context("key")).await.unwrap();
    assert!(echo.to_text().contains("bytes omitted"));
}

#[tokio::test]
async fn results_of_all_types_are_converted() {
    let connected = Connection::new(&config("plain")).await;
    let tool = connected.tool("everything");
    let output = tool.call("{}", &context("key")).await.unwrap();
    let parts: Vec<String> = output
        .content
        .iter()
        .map(|it| match &it.body {
            MessagePartBody::Image(image) => {
                assert_eq!(image.data.as_deref(), Some(PICTURE));
                image.media_type.as_deref().unwrap().to_owned()
            }
            _ => it.to_text().unwrap(),
        })
        .collect();
    assert_eq!(
        parts,
        [
            "words",
            "image/png",
            "[an image (image/png), 10 bytes in base64, is not shown]",
            "[audio (audio/wav), 4 bytes in base64, is not shown]",
            "[resource file:///a]\ncontent",
            "[resource file:///b (application/octet-stream), 4 bytes in base64, is not shown]",
            "[resource `c`: file:///c (unknown type)]",
            r#"{"answer":42}"#,
        ]
    );
    assert_eq!(connected.call("fail").await, r#"error: {"no": true}"#);
    assert_eq!(connected.call("strange").await, r#"{"data":1,"type":"hologram"}known"#);
    assert_eq!(
        connected.call("refuse").await,
        "failed: MCP server `test` refused the call: no such thing (code -32602)"
    );
}

#[tokio::test]
async fn output_outside_the_protocol_is_logged() {
    let connected = Connection::new(&config("plain")).await;
    assert_eq!(connected.call("noise").await, "heard");
    assert!(connected.has_logged("test: stdout: Listening on nothing in particular"));

    let babbling = Connection::new(&config("babbling")).await;
    assert_eq!(babbling.call("noise").await, "heard");
}

#[tokio::test]
async fn an_unparsable_answer_leaves_the_outcome_unknown() {
    let connected = Connection::new(&config("plain")).await;
    let garbage = connected.call("garbage").await;
    assert!(
        garbage.starts_with("unknown: MCP server `test` sent an answer that cannot be parsed"),
        "{garbage}"
    );
    let huge = connected.call("huge").await;
    assert!(huge.contains("longer than 33554432 bytes; it starts with `{\"jsonrpc\""), "{huge}");
    let wrong = connected.call("wrong").await;
    assert_eq!(wrong, "unknown: MCP server `test` answered without a result");
    assert_eq!(connected.call("noise").await, "heard");
}

#[tokio::test]
async fn a_server_that_dies_leaves_the_outcome_unknown() {
    let connected = Connection::new(&config("plain")).await;
    assert_eq!(
        connected.call("die").await,
        "unknown: MCP server `test` has ended, and the call may have taken effect: it ended with exit \
         code 7; last output: stdout: running 1 test | out of memory"
    );
    assert_eq!(
        connected.call("echo").await,
        "failed: MCP server `test` has ended, and the call was not made: it ended with exit code 7; \
         last output: stdout: running 1 test | out of memory"
    );
    assert!(connected.has_logged("test: out of memory"));
}

#[tokio::test]
async fn a_call_is_given_up_on_timeout_and_cancellation() {
    let connected = Connection::new(&config("plain")).await;
    let late = describe(connected.tool("hang").call("{}", &within("key", 100)).await);
    let wanted = "unknown: MCP server `test` did not answer before it timed out, and the call \
                  may have taken effect: it is still running; last output: ";
    assert!(late.starts_with(wanted), "{late}");
    until(|| connected.log.lock().unwrap().iter().any(|it| it.starts_with("test: cancelled")))
        .await;

    let context = context("key");
    let cancel = context.cancel.clone();
    let tool = Arc::clone(connected.tool("hang"));
    let waiting = tokio::spawn(async move { tool.call("{}", &context).await });
    tokio::task::yield_now().await;
    cancel.cancel();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.message.contains("did not answer before it was cancelled"), "{error}");
    assert_eq!(connected.call("noise").await, "heard");
}

#[tokio::test]
async fn a_call_that_was_never_sent_has_failed() {
    let connected = Connection::new(&config("plain")).await;
    let deaf = describe(connected.tool("deaf").call("{}", &within("key", 100)).await);
    assert!(deaf.starts_with("unknown: "), "{deaf}");
    // The pipe takes a part of this call, so the next one has to wait.
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(1_000_000));
    let first = describe(connected.tool("echo").call(&long, &within("key", 300)).await);
    assert!(first.contains("and the call may have taken effect"), "{first}");
    let second = describe(connected.tool("echo").call("{}", &within("key", 300)).await);
    assert!(second.starts_with("failed: ") && second.contains("was not made"), "{second}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_ends_with_its_tools() {
    for kind in ["plain", "stubborn"] {
        let connected = Connection::new(&config(kind)).await;
        let pids = connected.call("offspring").await;
        let (server, child) = pids.split_once(' ').unwrap();
        assert!(is_alive(server) && is_alive(child), "{pids}");
        drop(connected);
        until(|| !is_alive(server) && !is_alive(child)).await;
    }
}

/// Not a test, but a process that another test kills.
#[tokio::test]
async fn client_to_kill() {
    let Some(file) = env::var_os(VICTIM) else { return };
    let connected = Connection::new(&config("stubborn")).await;
    let pids = connected.call("offspring").await;
    fs::write(file, format!("{pids} end")).unwrap();
    connected.call("hang").await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_ends_with_its_killed_client() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["--exact", "mcp::client_to_kill"])
        .env(VICTIM, &file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until(|| fs::read_to_string(&file).is_ok_and(|it| it.ends_with("end"))).await;
    let pids = fs::read_to_string(&file).unwrap();
    let [server, child, _] = pids.split(' ').collect::<Vec<_>>()[..] else { panic!("{pids}") };
    victim.kill().unwrap();
    victim.wait().unwrap();
    // It ignores the end of its input, and has a child.
    until(|| !is_alive(server) && !is_alive(child)).await;
}

#[tokio::test]
async fn a_server_that_does_not_start_reports_why() {
    let mut missing = config("plain");
    missing.servers.get_mut("test").unwrap().command = "/no/such/program".to_owned();
    let output = failure(&missing).await;
    assert!(output.contains("/no/such/program"), "{output}");
    missing.servers.get_mut("test").unwrap().cwd = Some("/no/such/folder".into());
    let output = failure(&missing).await;
    assert_eq!(output, "MCP server `test` could not be started with `/no/such/program`");
    let broken = failure(&config("broken")).await;
    assert!(broken.starts_with("MCP server `test` did not become ready: "), "{broken}");
    assert!(broken.contains("exit code 3; last output:"), "{broken}");
    assert!(broken.ends_with("| no licence was found"), "{broken}");

    let mut mute = config("mute");
    mute.servers.get_mut("test").unwrap().startup_seconds = Some(1);
    assert!(failure(&mute).await.contains("not ready after 1 seconds; it is still running"));

    let mut unknown = config("plain");
    let effects = &mut unknown.servers.get_mut("test").unwrap().effects;
    effects.insert("ehco".to_owned(), Effect::Pure);
    assert_eq!(
        failure(&unknown).await,
        "MCP server `test` has no tool `ehco`, which `effects` refers to"
    );
}

#[tokio::test]
async fn a_server_made_with_a_library_works_too() {
    let connected = Connection::new(&config("library")).await;
    let key = connected.tool("key");
    assert_eq!(key.effect(), Effect::Pure);
    let output = key.call(r#"{"a":1}"#, &context("the-key")).await.unwrap();
    assert_eq!(output.to_text(), r#""the-key" {"a":1}"#);
}

#[test]
fn an_invalid_configuration_is_reported() {
    let reason = |text: &str| McpConfig::parse(text).unwrap_err().to_string();
    assert!(reason("{").contains("EOF"));
    assert!(reason("{}").contains("missing field `mcpServers`"));
    let remote = r#"{"mcpServers":{"far":{"type":"http","url":"https://example.org"}}}"#;
    assert!(reason(remote).contains("missing field `command`"));
    let probe = r#"{"mcpServers":{"a":{"command":"b","effects":{"c":"probe"}}}}"#;
    assert!(reason(probe).contains("can only be `pure`, `idempotent` or `unsafe`"));
}

fn is_alive(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|it| !it.is_empty() && !it.starts_with('Z'))
}

#[tokio::test]
async fn a_server_that_lists_tools_without_end_is_refused() {
    let told = failure(&config("endless")).await;
    assert!(told.contains("it lists more than 16777216 bytes of tools"), "{told}");
}

#[tokio::test]
async fn twenty_thousand_tools_are_each_checked_once() {
    let connected = Connection::new(&config("many")).await;
    assert_eq!(connected.tools.len(), 20_000);
    let looks = Arc::new(AtomicUsize::new(0));
    let tools = connected
        .tools
        .into_iter()
        .map(|tool| Arc::new(CountedTool { tool, looks: looks.clone() }) as Arc<dyn Tool>);
    let (store, model) = (crate::support::store(), crate::support::Model::new(Vec::new()));
    let agent_loop = crate::support::agent_loop(&store, &model).tools(tools);
    assert_eq!(agent_loop.effect_of("mcp__test__tool-19-999"), Effect::Unsafe);
    assert_eq!(looks.load(Ordering::Relaxed), 20_000);
}

/// A tool that counts how often its definition is read.
struct CountedTool {
    tool: Arc<dyn Tool>,
    looks: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl Tool for CountedTool {
    fn definition(&self) -> ToolDefinition {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.tool.definition()
    }

    fn effect(&self) -> Effect {
        self.tool.effect()
    }

    async fn call(&self, arguments: &str, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.tool.call(arguments, context).await
    }
}

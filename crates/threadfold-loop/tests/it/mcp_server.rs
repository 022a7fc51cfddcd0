//! Servers to test against: this test program, started again.

use std::env;
use std::io::{self, BufRead, Write};
use std::process::{Command, exit};
use std::thread;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use threadfold_loop::McpConfig;

/// The kind of server that this process is, if it is one.
const KIND: &str = "THREADFOLD_TEST_SERVER";

/// The smallest image.
pub(crate) const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A schema in a format that no library would produce.
pub(crate) const SCHEMA: &str = r#"{"type": "object", "properties": {"z": {"type": "number", "maximum": 1.00}, "a": {"type": "string"}}, "additionalProperties": true}"#;

/// Returns a configuration with one server of this kind, named `test`.
pub(crate) fn config(kind: &str) -> McpConfig {
    let mut config = McpConfig::parse(r#"{"mcpServers":{"test":{"command":"x"}}}"#).unwrap();
    let server = config.servers.get_mut("test").unwrap();
    server.command = env::current_exe().unwrap().to_str().unwrap().to_owned();
    server.args = ["--exact", "mcp_server::the_server", "--nocapture"].map(Into::into).to_vec();
    server.env.insert(KIND.to_owned(), kind.to_owned());
    config
}

/// Not a test, but the servers. The output of the test harness before is not a message either.
#[tokio::test]
async fn the_server() {
    match env::var(KIND).as_deref() {
        Ok("plain" | "backwards") => serve(|_| {}),
        Ok("stubborn") => {
            serve(|_| {});
            loop {
                thread::sleep(Duration::from_secs(1));
            }
        }
        Ok("mute") => loop {
            thread::sleep(Duration::from_secs(1));
        },
        Ok("broken") => {
            eprintln!("no licence was found");
            exit(3);
        }
        Ok("babbling") => serve(|line| say(&line.replace("\"jsonrpc\"", "\"jason\""))),
        Ok(kind @ ("endless" | "many")) => list_pages(kind == "many"),
        Ok("library") => {
            let service = Library.serve(rmcp::transport::stdio()).await.unwrap();
            service.waiting().await.unwrap();
        }
        _ => {}
    }
}

fn say(line: &str) {
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes()).unwrap();
    out.write_all(b"\n").unwrap();
    out.flush().unwrap();
}

fn serve(each: impl Fn(&str)) {
    for line in io::stdin().lock().lines() {
        let line = line.unwrap();
        each(&line);
        let message: Value = serde_json::from_str(&line).unwrap();
        let id = &message["id"];
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "test", "version": "1" },
            })
            .to_string(),
            "tools/list" => tools(message["params"]["cursor"].as_str()),
            "tools/call" => {
                let name = message["params"]["name"].as_str().unwrap();
                match call(name, id, &line) {
                    Some(result) => result,
                    None => continue,
                }
            }
            "notifications/cancelled" => {
                eprintln!("cancelled {}", message["params"]["requestId"]);
                continue;
            }
            _ => continue,
        };
        say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    }
}

/// Returns the tools, in two pages.
fn tools(cursor: Option<&str>) -> String {
    let tool = |name: &str, hints: Value| {
        format!(
            r#"{{"name":"{name}","description":"does {name}","inputSchema":{SCHEMA},"annotations":{hints}}}"#
        )
    };
    if cursor.is_none() {
        let first = tool("echo", json!({ "readOnlyHint": true }));
        return format!(r#"{{"tools":[{first}],"nextCursor":"more"}}"#);
    }
    let again = json!({ "idempotentHint": true, "destructiveHint": false });
    let mut all = vec![
        tool("everything", again),
        tool("fail", json!({ "idempotentHint": true })),
        tool("a.b", json!({})),
        tool("a/b", json!({})),
    ];
    for name in ["refuse", "die", "hang", "garbage", "wrong", "noise", "huge", "strange", "deaf"] {
        all.push(tool(name, json!({ "readOnlyHint": false })));
    }
    all.push(tool("offspring", json!({})));
    if env::var(KIND).as_deref() == Ok("backwards") {
        all.reverse();
    }
    format!(r#"{{"tools":[{}]}}"#, all.join(","))
}

/// Returns the result of a call, unless it was answered in another way or not at all.
#[expect(clippy::zombie_processes, reason = "whether somebody ends it is what is tested")]
fn call(name: &str, id: &Value, line: &str) -> Option<String> {
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] }).to_string();
    match name {
        "echo" => Some(text(line)),
        "everything" => Some(
            json!({
                "content": [
                    { "type": "text", "text": "words" },
                    { "type": "image", "mimeType": "image/png", "data": PICTURE },
                    { "type": "image", "mimeType": "image/png", "data": "no picture" },
                    { "type": "audio", "mimeType": "audio/wav", "data": "AAAA" },
                    { "type": "resource", "resource": { "uri": "file:///a", "text": "content" } },
                    { "type": "resource", "resource": { "uri": "file:///b", "blob": "AAAA" } },
                    { "type": "resource_link", "uri": "file:///c", "name": "c" },
                ],
                "structuredContent": { "answer": 42 },
            })
            .to_string(),
        ),
        "fail" => Some(
            json!({
                "content": [{ "type": "text", "text": "{\"no\": true}" }],
                "structuredContent": { "no": true },
                "isError": true,
            })
            .to_string(),
        ),
        "refuse" => {
            let error = json!({ "code": -32602, "message": "no such thing" });
            say(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
            None
        }
        "die" => {
            eprintln!("out of memory");
            exit(7)
        }
        "garbage" => {
            say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"#));
            None
        }
        "wrong" => Some("7".to_owned()),
        "noise" => {
            say("Listening on nothing in particular");
            Some(text("heard"))
        }
        "huge" => Some(text(&"x".repeat(40_000_000))),
        "strange" => Some(
            json!({
                "content": [{ "type": "hologram", "data": 1 }, { "type": "text", "text": "known" }],
            })
            .to_string(),
        ),
        "deaf" => loop {
            thread::sleep(Duration::from_secs(1));
        },
        "offspring" => {
            let child = Command::new("sleep").arg("1000").spawn().unwrap();
            Some(text(&format!("{} {}", std::process::id(), child.id())))
        }
        _ => None,
    }
}

/// A server that is built with a library.
#[derive(Clone)]
struct Library;

impl ServerHandler for Library {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let Value::Object(schema) = json!({ "type": "object" }) else { panic!("an object") };
        let tool = Tool::new("key", "tells the key", schema)
            .with_annotations(ToolAnnotations::new().read_only(true));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let key = context.meta.get("threadfold/key").cloned().unwrap_or_default();
        let text = format!("{key} {}", json!(request.arguments));
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// Serves tools on pages of a thousand: 20,000 of them, or ever more.
fn list_pages(is_bounded: bool) {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(request) = serde_json::from_str::<Value>(&line) else { continue };
        let (Some(id), params) = (request.get("id"), &request["params"]) else { continue };
        let result = match request["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "pages", "version": "1"},
            }),
            Some("tools/list") => {
                let page: usize = params["cursor"].as_str().map_or(0, |it| it.parse().unwrap());
                let tool = |number| json!({"name": format!("tool-{page}-{number}"), "inputSchema": {"type": "object"}});
                let tools: Vec<_> = (0..1000).map(tool).collect();
                match is_bounded && page == 19 {
                    true => json!({"tools": tools}),
                    false => json!({"tools": tools, "nextCursor": (page + 1).to_string()}),
                }
            }
            _ => json!({}),
        };
        say(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
    }
    exit(0);
}

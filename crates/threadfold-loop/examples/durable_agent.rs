//! A loop that survives being killed: a child process runs it and is killed, then it resumes here.

use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, process, thread};

use threadfold_loop::{AgentLoop, Effect, RenderedPrompt, ScriptedProvider, ToolContext, tool};
use threadfold_sqlite::SqliteStore;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

const SCRIPT: &str = r#"{ "name": "greetings", "steps": [
    { "text": "First Ada.", "calls": [{ "name": "greet", "arguments": { "name": "Ada" } }] },
    { "text": "Now Bob.", "calls": [{ "name": "greet", "arguments": { "name": "Bob" } }] },
    { "text": "All are greeted." }
] }"#;

/// Any process with an equal loop can resume the run.
async fn greet_all(path: &str) -> Result<String, Box<dyn std::error::Error>> {
    let greet = tool("greet", "Greets somebody", |greet: Greet, context: ToolContext| async move {
        println!("  process {} greets {}", process::id(), greet.name);
        println!("  … under the key {:.8}, attempt {}", context.key.as_str(), context.attempt);
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok(format!("{} was greeted", greet.name).into())
    });
    let store = Arc::new(SqliteStore::open(path)?);
    let model = Arc::new(ScriptedProvider::new(serde_json::from_str(SCRIPT)?));
    // A second greeting is harmless. Without this, a person would have to decide.
    let agent_loop = AgentLoop::new(store, model, "script").tool(greet.effect(Effect::Idempotent));
    let finished =
        agent_loop.run_or_resume(&"greetings".into(), &RenderedPrompt::text("Greet all.")).await?;
    Ok(finished.text())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(path) = env::args().nth(1) {
        println!("{}", greet_all(&path).await?);
        return Ok(());
    }
    let folder = env::temp_dir().join(format!("durable-agent-{}", process::id()));
    fs::create_dir(&folder)?;
    let path = folder.join("store.db").display().to_string();
    let mut child = process::Command::new(env::current_exe()?).arg(&path).spawn()?;
    thread::sleep(Duration::from_millis(800));
    child.kill()?;
    child.wait()?;
    println!("killed; resuming");
    println!("{}", greet_all(&path).await?);
    Ok(fs::remove_dir_all(&folder)?)
}

//! The tools of the run: they only report to the world.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use threadfold_loop::{Effect, Probe, Tool, ToolContext, ToolError, ToolOutput, tool};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::story::{TOOLS, result_of};

#[derive(Deserialize, JsonSchema)]
struct ToolArguments {
    /// The object of the errand.
    #[expect(dead_code, reason = "the model supplies it, and the world ignores it")]
    at: String,
}

/// Returns the tools, each of which takes about `pace`.
pub(crate) fn tools(world: SocketAddr, pace: Duration) -> Vec<Arc<dyn Tool>> {
    let all = TOOLS.iter().map(|&(name, effect)| {
        let run = tool(name, "An errand", move |_: ToolArguments, context| {
            errand(world, name, context, pace)
        });
        let it: Arc<dyn Tool> = match effect {
            Effect::Probe => Arc::new(run.probe(move |_, context| probe(world, name, context))),
            Effect::Compensable => Arc::new(run.undo(move |_, context| undo(world, name, context))),
            effect => Arc::new(run.effect(effect)),
        };
        it
    });
    all.collect()
}

async fn errand(
    world: SocketAddr,
    name: &'static str,
    context: ToolContext,
    pace: Duration,
) -> Result<ToolOutput, ToolError> {
    report(world, "begin", name, &context).await?;
    sleep(pace / 2).await;
    report(world, "apply", name, &context).await?;
    sleep(pace / 2).await;
    Ok(ToolOutput::text(result_of(name)))
}

async fn probe(
    world: SocketAddr,
    name: &'static str,
    context: ToolContext,
) -> Result<Probe, ToolError> {
    Ok(match report(world, "applied", name, &context).await?.as_str() {
        "yes" => Probe::Happened(ToolOutput::text(result_of(name))),
        _ => Probe::DidNotHappen,
    })
}

async fn undo(
    world: SocketAddr,
    name: &'static str,
    context: ToolContext,
) -> Result<(), ToolError> {
    report(world, "undo", name, &context).await.map(|_| ())
}

async fn report(
    world: SocketAddr,
    verb: &str,
    name: &str,
    context: &ToolContext,
) -> Result<String, ToolError> {
    let mut stream = TcpStream::connect(world).await?;
    stream.write_all(format!("{verb} {name} {}\n", context.key).as_bytes()).await?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).await?;
    Ok(answer.trim().to_owned())
}

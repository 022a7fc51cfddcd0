//! An agent server: it answers prompts, and every client sees each session live.
//!
//! `POST /prompt/SESSION` with a text lets the agent work; `GET /v1/sessions/SESSION/stream` and all
//! other routes of Threadfold show what it does. The agent here only counts words.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::json;
use threadfold_core::SessionEvent;
use threadfold_engine::Host;
use threadfold_server::{Access, Server, ServerOptions};
use threadfold_sqlite::SqliteStore;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = SqliteStore::open(std::env::args().nth(1).ok_or("give the file of a store")?)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    // A real server would authenticate its clients here, around the router.
    let options = ServerOptions::new(Access::behind_own_auth(&[&url]));
    let server = Server::new(Host::new(Arc::new(store)), options);
    let own = Router::new().route("/prompt/{session}", post(prompt)).with_state(server.clone());
    println!("{url}");
    server.serve_router(own.merge(server.router()), listener, std::future::pending()).await?;
    Ok(())
}

/// Accepts a prompt. The agent works on, whether the client waits or not.
async fn prompt(State(server): State<Server>, Path(id): Path<String>, text: String) -> StatusCode {
    match run_agent(&server, &id, &text).await {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn run_agent(server: &Server, id: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let session = server.session(id);
    let turn = session.state().await.map_or(0, |(cursor, _)| cursor.seq);
    let (prompt, answer) = (format!("prompt-{turn}"), format!("answer-{turn}"));
    let block = |id: &str, kind: &str, content: &str, status: &str| {
        let block = json!({"id": id, "type": kind, "content": content, "status": status});
        SessionEvent::from_json(
            &json!({"type": "block:upsert", "payload": {"block": block}}).to_string(),
        )
    };
    session.emit(&[block(&prompt, "user_message", text, "complete")?]).await?;
    session.emit(&[block(&answer, "assistant_text", "", "pending")?]).await?;
    for word in format!("That was {} words.", text.split_whitespace().count()).split_inclusive(' ')
    {
        let delta = json!({"type": "block:delta", "payload": {"blockId": answer, "delta": word}});
        session.emit(&[SessionEvent::from_json(&delta.to_string())?]).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    session.emit(&[SessionEvent::from_json(r#"{"type":"session:idle"}"#)?]).await?;
    Ok(())
}

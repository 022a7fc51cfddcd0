//! An example session that plays live where there is no other, so that a newcomer sees it work.

use std::time::Duration;

use anyhow::Context;
use threadfold_core::SessionEvent;
use threadfold_server::{CatalogQuery, Server};

use crate::error::{CommandError, print_note};

/// The id of the example.
const ID: &str = "example";
/// The events of the example, one per line, of a session with another id.
const EVENTS: &str = include_str!("../../../../examples/first-session.jsonl");
/// The time between two events.
const PACE: Duration = Duration::from_millis(700);

/// Plays the example, if there is no session.
pub(super) async fn play_if_empty(server: &Server) -> Result<(), CommandError> {
    let query = CatalogQuery { limit: 2, ..CatalogQuery::default() };
    let others = server.catalog().list(&query).sessions;
    if !others.is_empty() {
        return Ok(());
    }
    print_note(format_args!("no sessions found: playing an example, as session `{ID}`"));
    let session = server.session(ID);
    for line in EVENTS.lines() {
        let line = line.replace("\"sessionId\":\"first\"", &format!("\"sessionId\":\"{ID}\""));
        let event = SessionEvent::from_json(&line).context("the example is damaged");
        let event = event.map_err(|error| CommandError::new(error, "report this as a defect"))?;
        session.emit(&[event]).await?;
        tokio::time::sleep(PACE).await;
    }
    Ok(())
}

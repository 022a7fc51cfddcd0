//! Tickets: each lets one WebSocket connect, once and within seconds.
//!
//! A browser cannot send a header with a WebSocket, and a token in a URL would be logged. A ticket
//! in a URL is worth nothing once it was used. The store has them, so that whichever server of the
//! store a client comes to next knows its ticket, and only one of them accepts it.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use threadfold_store::{Store, TicketHash, TicketUse};

use crate::problem::Problem;

/// How many unused tickets there may be.
const MOST: u64 = 10_000;

/// Issues and redeems tickets.
pub(crate) struct Tickets {
    store: Arc<dyn Store>,
    /// How long a ticket can be used.
    lifetime: Duration,
}

impl Tickets {
    pub(crate) fn new(store: Arc<dyn Store>, lifetime: Duration) -> Self {
        Self { store, lifetime }
    }

    /// Returns how long a ticket can be used.
    pub(crate) fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// Returns a new ticket.
    pub(crate) async fn issue(&self) -> Result<String, Problem> {
        let ticket = uuid::Uuid::new_v4().simple().to_string();
        match self.store.add_ticket(&TicketHash::of(&ticket), self.lifetime, MOST).await? {
            true => Ok(ticket),
            false => Err(Problem::busy("too many tickets were requested and not used")),
        }
    }

    /// Uses a ticket.
    pub(crate) async fn redeem(&self, ticket: Option<&str>) -> Result<(), Problem> {
        let hint = "`POST /v1/tickets` gives a ticket for one connection";
        let refused = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, detail, hint);
        let ticket = ticket.ok_or_else(|| refused("a WebSocket needs a ticket"))?;
        match self.store.use_ticket(&TicketHash::of(ticket)).await? {
            TicketUse::Accepted => Ok(()),
            TicketUse::Expired => Err(refused("the ticket has expired")),
            TicketUse::Unknown => Err(refused("the ticket is unknown, or was used before")),
        }
    }
}

#[cfg(test)]
mod tests {
    use threadfold_store::MemoryStore;
    use threadfold_testkit::ManualClock;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(30);

    fn tickets() -> (ManualClock, Tickets) {
        let clock = ManualClock::new(threadfold_fold::Timestamp(1_000));
        let store = Arc::new(MemoryStore::with_clock(clock.clock()));
        (clock, Tickets::new(store, LIFETIME))
    }

    #[tokio::test]
    async fn a_ticket_is_used_once_and_in_time() {
        let (clock, tickets) = tickets();
        let ticket = tickets.issue().await.unwrap();
        assert!(tickets.redeem(Some(&ticket)).await.is_ok());
        assert_eq!(tickets.redeem(Some(&ticket)).await.unwrap_err().status, 401);
        assert_eq!(tickets.redeem(Some("another")).await.unwrap_err().status, 401);
        assert_eq!(tickets.redeem(None).await.unwrap_err().status, 401);
        let late = tickets.issue().await.unwrap();
        clock.advance(LIFETIME);
        let refused = tickets.redeem(Some(&late)).await.unwrap_err();
        assert_eq!(refused.detail, "the ticket has expired");
    }

    #[tokio::test]
    async fn tickets_that_nobody_uses_are_limited() {
        let (clock, tickets) = tickets();
        for _ in 0..MOST {
            tickets.issue().await.unwrap();
        }
        assert_eq!(tickets.issue().await.unwrap_err().status, 503);
        clock.advance(LIFETIME);
        assert!(tickets.issue().await.is_ok());
    }
}

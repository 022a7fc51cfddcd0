//! Tickets: each lets one WebSocket connect, once and within seconds.
//!
//! A browser cannot send a header with a WebSocket, and a token in a URL would be logged. A ticket
//! in a URL is worth nothing once it was used.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;

use crate::problem::Problem;

/// How many unused tickets there may be.
const MOST: usize = 10_000;

/// The tickets that were not used yet.
pub(crate) struct Tickets {
    /// How long a ticket can be used.
    lifetime: Duration,
    /// When each expires, by the hash of the ticket: a lookup must not reveal how much of a guess
    /// was right.
    unused: Mutex<BTreeMap<[u8; 32], Instant>>,
}

impl Tickets {
    pub(crate) fn new(lifetime: Duration) -> Self {
        Self { lifetime, unused: Mutex::default() }
    }

    /// Returns how long a ticket can be used.
    pub(crate) fn lifetime(&self) -> Duration {
        self.lifetime
    }

    /// Returns a new ticket.
    pub(crate) fn issue(&self) -> Result<String, Problem> {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if unused.len() >= MOST {
            unused.retain(|_, expires| *expires > now);
        }
        if unused.len() >= MOST {
            return Err(Problem::busy("too many tickets were requested and not used"));
        }
        let ticket = uuid::Uuid::new_v4().simple().to_string();
        unused.insert(*blake3::hash(ticket.as_bytes()).as_bytes(), now + self.lifetime);
        Ok(ticket)
    }

    /// Uses a ticket.
    pub(crate) fn redeem(&self, ticket: Option<&str>) -> Result<(), Problem> {
        let hint = "`POST /v1/tickets` gives a ticket for one connection";
        let refused = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, detail, hint);
        let ticket = ticket.ok_or_else(|| refused("a WebSocket needs a ticket"))?;
        let hash = *blake3::hash(ticket.as_bytes()).as_bytes();
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        match unused.remove(&hash) {
            Some(expires) if expires > Instant::now() => Ok(()),
            Some(_) => Err(refused("the ticket has expired")),
            None => Err(refused("the ticket is unknown, or was used before")),
        }
    }

    /// Lets all tickets expire, for tests.
    #[cfg(test)]
    pub(crate) fn expire_all(&self) {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        unused.values_mut().for_each(|expires| *expires = Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_used_once_and_in_time() {
        let tickets = Tickets::new(Duration::from_secs(30));
        let ticket = tickets.issue().unwrap();
        assert!(tickets.redeem(Some(&ticket)).is_ok());
        assert_eq!(tickets.redeem(Some(&ticket)).unwrap_err().status, 401);
        assert_eq!(tickets.redeem(Some("another")).unwrap_err().status, 401);
        assert_eq!(tickets.redeem(None).unwrap_err().status, 401);
        let late = tickets.issue().unwrap();
        tickets.expire_all();
        assert_eq!(tickets.redeem(Some(&late)).unwrap_err().detail, "the ticket has expired");
    }

    #[test]
    fn tickets_that_nobody_uses_are_limited() {
        let tickets = Tickets::new(Duration::from_secs(30));
        for _ in 0..MOST {
            tickets.issue().unwrap();
        }
        assert_eq!(tickets.issue().unwrap_err().status, 503);
        tickets.expire_all();
        assert!(tickets.issue().is_ok());
    }
}

//! Tickets: each admits one client, once and within seconds.

use std::fmt;

/// The name under which a store has a ticket: the BLAKE3 hash of its text.
///
/// Whoever can read the store cannot use the ticket, and a lookup does not reveal how much of a guess
/// was right.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketHash([u8; 32]);

impl TicketHash {
    /// Returns the hash of a ticket.
    pub fn of(ticket: &str) -> Self {
        Self(*blake3::hash(ticket.as_bytes()).as_bytes())
    }

    /// Returns the hash as bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for TicketHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketHash")
    }
}

/// What became of a ticket that somebody wants to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketUse {
    /// It was good, and is used up.
    Accepted,
    /// It came too late.
    Expired,
    /// There is none: it was used before, or never issued.
    Unknown,
}

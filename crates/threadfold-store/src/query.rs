//! What callers ask for: stretches of a log, and pages of the list of sessions.

use threadfold_core::SessionId;

use crate::log::SessionEntry;

/// How much of a log one call returns. A record that exists is returned even if it alone exceeds
/// the limit.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The last record that is wanted.
    pub until: u64,
    /// About how many bytes of records are wanted.
    pub bytes: usize,
}

impl Default for Limit {
    /// Returns a limit of a few megabytes.
    fn default() -> Self {
        Self { until: u64::MAX, bytes: 4 << 20 }
    }
}

/// Which sessions one call lists, in the byte order of their ids.
///
/// The default is the first page of all sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Only sessions whose id starts with this.
    pub prefix: String,
    /// Only sessions after this one, which need not exist: the `next` of the page before.
    pub after: Option<SessionId>,
    /// At most this many; at least one.
    pub limit: usize,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self { prefix: String::new(), after: None, limit: 500 }
    }
}

impl ListQuery {
    /// Returns the query for the first page of the sessions whose id starts with `prefix`.
    pub fn with_prefix(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }
}

/// A page of the list of sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPage {
    /// The sessions, in the byte order of their ids.
    pub entries: Vec<SessionEntry>,
    /// Where the next page starts, for [`ListQuery::after`]; `None` after the last page.
    pub next: Option<SessionId>,
}

impl SessionPage {
    /// Returns a page of entries that were read with a limit of one more than `limit`: one entry
    /// too many shows that another page follows.
    pub fn cut(mut entries: Vec<SessionEntry>, limit: usize) -> Self {
        let has_more = entries.len() > limit;
        entries.truncate(limit);
        let last = entries.last().map(|it| it.session.clone());
        Self { next: last.filter(|_| has_more), entries }
    }
}

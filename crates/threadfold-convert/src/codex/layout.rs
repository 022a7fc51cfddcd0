//! Finds the files of a session, and the order in which they are read.
//!
//! A thread is one file; after a revert it is several. A subagent is a thread of its own, whose first
//! record names its parent. A fork continues the file of another thread.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::agent::is_rollout;
use super::wire::{Line, Object, SessionMeta};
use crate::lines::lines;

/// What the first record of a rollout says about its place among the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutHead {
    /// The thread.
    pub thread: String,
    /// The thread that started it, if it is a subagent.
    pub parent: Option<String>,
    /// The thread whose history precedes it, if it is a fork that did not copy the history.
    pub base: Option<String>,
}

/// Reads the first record of a rollout; nothing if it is something else.
///
/// ```
/// use threadfold_convert::codex::layout::head_of;
///
/// let line = br#"{"timestamp":"","type":"session_meta","payload":{"id":"t1","cli_version":"0.166.0"}}"#;
/// assert_eq!(head_of(line).map(|it| it.thread), Some("t1".to_owned()));
/// ```
pub fn head_of(bytes: &[u8]) -> Option<RolloutHead> {
    lines(bytes).take(crate::RECOGNIZED_LINES).find_map(|line| {
        let line: Line<'_> = serde_json::from_slice(line.bytes).ok()?;
        let is_head = line.kind.as_deref() == Some("session_meta") && is_rollout(&line);
        let meta = SessionMeta::of(&Object::read(line.payload.filter(|_| is_head)?)?);
        let thread = meta.id?.into_owned();
        let base = meta.base.map(|(base, _)| base.into_owned()).filter(|base| *base != thread);
        Some(RolloutHead { thread, parent: meta.parent.map(Cow::into_owned), base })
    })
}

/// A file's part in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutRole {
    /// A file of the session's own thread.
    Main,
    /// The file of a subagent.
    Subagent(String),
    /// A file of the thread that a fork continues.
    Base,
}

/// The rollouts of a place, by the threads that they belong to.
///
/// It is made once for all sessions: a search through all files for each of them would cost the
/// square of their number.
#[derive(Clone, Debug)]
pub struct RolloutIndex<'a> {
    heads: &'a [(String, RolloutHead)],
    by_thread: BTreeMap<&'a str, Vec<usize>>,
    children: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> RolloutIndex<'a> {
    /// Returns the index of files, which are sorted by name.
    pub fn new(heads: &'a [(String, RolloutHead)]) -> Self {
        let mut by_thread: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut children: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut known = BTreeSet::new();
        for (index, (_, head)) in heads.iter().enumerate() {
            by_thread.entry(&head.thread).or_default().push(index);
            if let Some(parent) = head.parent.as_deref()
                && known.insert((parent, head.thread.as_str()))
            {
                children.entry(parent).or_default().push(&head.thread);
            }
        }
        Self { heads, by_thread, children }
    }

    /// Returns the threads that nobody called, in the order of their files: each is a session.
    pub fn roots(&self) -> Vec<&'a str> {
        let is_called = |head: &RolloutHead| {
            head.parent
                .as_deref()
                .is_some_and(|parent| self.by_thread.contains_key(parent) && parent != head.thread)
        };
        let mut known = BTreeSet::new();
        let threads = self.heads.iter().map(|(_, head)| head).filter(|head| !is_called(head));
        threads.map(|head| head.thread.as_str()).filter(|it| known.insert(*it)).collect()
    }

    /// Returns the files of one session in reading order, by their index: the thread's own files,
    /// the files that it continues, then subagents, callers first.
    pub fn session_files(&self, root: &str) -> Vec<(usize, RolloutRole)> {
        let files = |thread: &str| self.by_thread.get(thread).cloned().unwrap_or_default();
        let base_of = |index: &usize| self.heads[*index].1.base.as_deref();
        let mut found: Vec<_> = files(root).into_iter().map(|it| (it, RolloutRole::Main)).collect();
        let mut seen: BTreeSet<&str> = BTreeSet::from([root]);
        let mut base = found.first().and_then(|(index, _)| base_of(index));
        while let Some(thread) = base.filter(|it| seen.insert(it)) {
            let own = files(thread);
            base = own.first().and_then(base_of);
            found.extend(own.into_iter().map(|it| (it, RolloutRole::Base)));
        }
        let mut callers = vec![root];
        while let Some(caller) = callers.pop() {
            let called = self.children.get(caller).map(Vec::as_slice).unwrap_or_default();
            for thread in called.iter().rev().filter(|it| !seen.contains(**it)) {
                callers.push(thread);
            }
            for thread in called {
                if seen.insert(thread) {
                    let role = || RolloutRole::Subagent((*thread).to_owned());
                    found.extend(files(thread).into_iter().map(|it| (it, role())));
                }
            }
        }
        found
    }
}

/// Returns the thread that started a thread and was started by nobody.
pub fn root_of(heads: &[(String, RolloutHead)], thread: &str) -> String {
    let mut root = thread;
    // The bound ends a cycle of parents.
    for _ in 0..heads.len() {
        let head = heads.iter().map(|(_, head)| head).find(|head| head.thread == root);
        let parent = head.and_then(|head| head.parent.as_deref());
        match parent.filter(|it| heads.iter().any(|(_, head)| head.thread == *it)) {
            Some(parent) => root = parent,
            None => break,
        }
    }
    root.to_owned()
}

/// Returns the thread that the name of a rollout contains: `rollout-<time>-<thread>[_<segment>]`, or
/// the thread alone.
pub fn thread_of_name(stem: &str) -> Option<&str> {
    let named = match stem.strip_prefix("rollout-") {
        Some(rest) => rest.get(20..)?,
        None => stem,
    };
    let thread = named.split('_').next().unwrap_or(named);
    is_thread_id(thread).then_some(thread)
}

/// Returns whether a text is a thread's id: a UUID.
pub fn is_thread_id(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(thread: &str, parent: Option<&str>, base: Option<&str>) -> (String, RolloutHead) {
        let owned = |it: Option<&str>| it.map(str::to_owned);
        let head =
            RolloutHead { thread: thread.to_owned(), parent: owned(parent), base: owned(base) };
        (thread.to_owned(), head)
    }

    #[test]
    fn a_session_is_its_thread_what_it_continues_and_its_subagents() {
        let heads = [
            head("a", None, None),
            head("a", None, None),
            head("b", Some("a"), None),
            head("c", Some("b"), None),
            head("f", None, Some("a")),
        ];
        let index = RolloutIndex::new(&heads);
        assert_eq!(index.roots(), ["a", "f"]);
        let indexes = |root| -> Vec<usize> {
            index.session_files(root).into_iter().map(|(index, _)| index).collect()
        };
        assert_eq!(indexes("a"), [0, 1, 2, 3]);
        assert_eq!(indexes("f"), [4, 0, 1]);
    }

    #[test]
    fn a_name_contains_the_thread() {
        let thread = "01a1e44a-4621-7f83-a75a-0ce0b9753d42";
        let name = format!("rollout-2026-11-16T12-17-15-{thread}");
        assert_eq!(thread_of_name(&name), Some(thread));
        assert_eq!(thread_of_name(&format!("{name}_01a1e44a")), Some(thread));
        assert_eq!(thread_of_name(thread), Some(thread));
        assert_eq!(thread_of_name("rollout-x"), None);
    }
}

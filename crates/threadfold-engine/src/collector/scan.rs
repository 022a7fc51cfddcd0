//! Searches the machine, and compares what is there with what was there before.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::{CollectedSession, Collector, FoundSessions, Key, SessionStamp};
use crate::discover::Discovery;

/// What a search brought.
pub(super) struct Search {
    /// The sessions that are to be read now: after the first search, all that are new or changed.
    pub(super) changed: Vec<Key>,
    /// The folders to watch.
    pub(super) folders: BTreeSet<PathBuf>,
    /// The places of agents, which may not exist.
    pub(super) places: Vec<PathBuf>,
}

impl Collector {
    /// Searches the machine. What the first search finds is imported in the background.
    pub(super) async fn search_machine(&self) -> Search {
        let discover = self.shared.options.discover.clone();
        let found = match tokio::task::spawn_blocking(move || discover()).await {
            Ok(found) => Arc::new(found),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let (changed, is_first) = self.note_found(&found);
        let ids = changed.iter().map(|it| it.1.clone()).collect();
        self.shared.observer.found(FoundSessions { discovery: found.clone(), changed: ids });
        let folders = found.watched.iter().map(|it| existing(it)).collect();
        let places = found.places.clone();
        if is_first {
            self.shared.observer.progress(self.state().count);
            self.shared.backlog.notify_one();
            return Search { changed: Vec::new(), folders, places };
        }
        Search { changed, folders, places }
    }

    /// Returns the sessions that are new or look different, and whether this is the first search.
    fn note_found(&self, found: &Arc<Discovery>) -> (Vec<Key>, bool) {
        let looks: Vec<SessionStamp> = found.sessions.iter().map(SessionStamp::of).collect();
        let mut state = self.state();
        let is_first = !std::mem::replace(&mut state.has_searched, true);
        let mut changed = Vec::new();
        let mut present = BTreeSet::new();
        for (session, looks) in found.sessions.iter().zip(looks) {
            let key: Key = (session.place.clone(), session.id.to_string());
            present.insert(key.clone());
            match state.sessions.get_mut(&key) {
                Some(known) => {
                    known.found = session.clone();
                    // One that waits in the backlog as it was found is read in its turn: followed, all
                    // of them would be open at once.
                    let is_behind = known.read.as_ref().is_some_and(|read| *read != looks);
                    if known.seen != looks || is_behind {
                        changed.push((looks.stamp.changed, key));
                    }
                    known.seen = looks;
                }
                None => {
                    let (found, seen) = (session.clone(), looks.clone());
                    let new = CollectedSession { found, seen, read: None, is_done: false };
                    state.sessions.insert(key.clone(), new);
                    state.count.total += 1;
                    changed.push((looks.stamp.changed, key));
                }
            }
        }
        state.sessions.retain(|key, _| present.contains(key));
        state.owners.clear();
        for session in &found.sessions {
            let key: Key = (session.place.clone(), session.id.to_string());
            for path in session.content.origins().unwrap_or_default() {
                state.owners.entry(path).or_default().push(key.clone());
            }
        }
        changed.sort_by_key(|(time, _)| Reverse(*time));
        let changed: Vec<Key> = changed.into_iter().map(|it| it.1).collect();
        if is_first {
            state.backlog = changed.iter().cloned().collect();
        }
        (changed, is_first)
    }
}

/// Returns a folder, or the nearest one above it that exists: it will be created there.
fn existing(folder: &std::path::Path) -> PathBuf {
    let found = folder.ancestors().find(|it| it.is_dir());
    found.unwrap_or(std::path::Path::new("/")).to_owned()
}

//! Under which name a session is kept: another one of the same name may be in the store.

use std::collections::BTreeMap;
use std::path::Path;

use threadfold_core::SessionId;
use threadfold_engine::{Slices, has_file, load};

use super::plan::{Content, Planned};
use crate::error::{CommandError, say};
use crate::store::{OpenStore, noted_summary};

/// Knows which names are taken, and by whose sessions.
pub(crate) struct Names<'a> {
    store: &'a OpenStore,
    taken: BTreeMap<String, Option<String>>,
}

impl<'a> Names<'a> {
    pub(crate) fn of(store: &'a OpenStore) -> Result<Self, CommandError> {
        let mut taken = BTreeMap::new();
        for entry in store.sessions()? {
            let agent = noted_summary(&entry).and_then(|it| it.agent);
            taken.insert(entry.session.to_string(), agent);
        }
        Ok(Self { store, taken })
    }

    /// Gives a session a name of its own if another has the one that it would have.
    ///
    /// What an agent calls a session is believed; the name of a file is not, for many have it.
    pub(crate) fn settle(&mut self, planned: &mut Planned) -> Result<(), CommandError> {
        let others = self.taken.range(planned.id.clone()..).map(|(id, _)| id);
        let others = others.take_while(|id| id.starts_with(&planned.id));
        let candidates = others.filter(|id| is_of_name(id, &planned.id)).cloned();
        for id in candidates.collect::<Vec<_>>() {
            if self.is_same(&id, planned)? {
                planned.id = id;
                return Ok(());
            }
        }
        if self.taken.contains_key(&planned.id) {
            let own = format!("{}-{}", planned.id, short_hash(&planned.place));
            say(format_args!(
                "`{}` is another session than `{}` of the store: it is kept as `{own}`",
                planned.place.display(),
                planned.id
            ));
            planned.id = own;
        }
        self.taken.insert(planned.id.clone(), planned.agent.map(|it| it.name().to_owned()));
        Ok(())
    }

    /// Says whether the session that has this name is the one that is planned.
    fn is_same(&self, id: &str, planned: &Planned) -> Result<bool, CommandError> {
        let agent = self.taken.get(id).and_then(Option::as_deref);
        if let (Some(known), Some(agent)) = (agent, planned.agent)
            && known != agent.name()
        {
            return Ok(false);
        }
        let files = match &planned.content {
            Content::Files(files) if !planned.is_told => files,
            _ => return Ok(self.taken.contains_key(&planned.id)),
        };
        let shared = self.store.shared();
        self.store.wait(async {
            let session = SessionId::from(id);
            let Some(head) = shared.head(&session).await? else { return Ok(false) };
            let loaded = load(&*shared, &session, u64::MAX, Slices::default()).await?;
            let mut is_same = head.seq == 0;
            for file in files {
                is_same = is_same || has_file(&*shared, &loaded.fold, file).await?;
            }
            Ok(is_same)
        })
    }
}

/// Says whether a name is this one, or one that was given to another session of this name.
fn is_of_name(id: &str, name: &str) -> bool {
    let hash = id.strip_prefix(name).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
    hash.is_some_and(|it| it.is_empty() || is_hash(it))
}

fn is_hash(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn short_hash(path: &Path) -> String {
    let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let hash = threadfold_store::BlobHash::of(place.to_string_lossy().as_bytes()).to_string();
    hash[..8].to_owned()
}

//! Opens a ledger, and decides whether it may be continued.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use threadfold_core::{ConversationTurn, Json, LogPayload, Payload, SessionId};
use threadfold_engine::{Options, Session};
use threadfold_fold::RecordKind;
use threadfold_store::Store;

use super::{Recorder, turn};
use crate::error::LoopError;
use crate::mark::{LedgerCheck, MarkKey, TrustContent, loop_record};

/// Whether turns are continued that no loop of this user wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Only what such a loop wrote is continued.
    #[default]
    Own,
    /// A person decided to continue what the log reports, and the decision is recorded.
    Reported,
}

impl Recorder {
    /// Opens a session's ledger. Creates the session if it does not exist.
    ///
    /// Turns that the log only reports, because they were imported or because an older version
    /// wrote them, are not continued: see [`open_marked`](Self::open_marked).
    pub async fn open(
        store: Arc<dyn Store>,
        session: &SessionId,
        options: Options,
    ) -> Result<Self, LoopError> {
        Self::open_with(store, session, options, None, Trust::Own).await
    }

    /// Opens a session's ledger with a key: what is written is marked, and what was written
    /// without a valid mark is continued only if a person [trusts](Trust) it.
    pub async fn open_marked(
        store: Arc<dyn Store>,
        session: &SessionId,
        options: Options,
        key: MarkKey,
        trust: Trust,
    ) -> Result<Self, LoopError> {
        Self::open_with(store, session, options, Some(key), trust).await
    }

    pub(crate) async fn open_with(
        store: Arc<dyn Store>,
        session: &SessionId,
        mut options: Options,
        marks: Option<MarkKey>,
        trust: Trust,
    ) -> Result<Self, LoopError> {
        let log = store.head(session).await?.map(|head| head.log);
        let check = marks.clone().zip(log).map(|(key, log)| {
            let check = LedgerCheck::new(key, session.clone(), log);
            Arc::new(Mutex::new(check))
        });
        if let Some(check) = check.clone() {
            // A snapshot in the store could claim any ledger, so the records are read.
            options.inspector = Some(Box::new(move |record| {
                check.lock().unwrap_or_else(PoisonError::into_inner).push(record);
            }));
        }
        let opened = Session::open(store, session, options).await?;
        let (answers, items) = (BTreeSet::new(), BTreeSet::new());
        let mut recorder = Self { session: opened, answers, items, marks };
        let (fault, records) = match &check {
            Some(check) => {
                let check = check.lock().unwrap_or_else(PoisonError::into_inner);
                (check.fault().map(str::to_owned), check.records_so_far())
            }
            // There was no log to check, so there must be none that somebody wrote meanwhile.
            None => {
                let is_unchecked = recorder.marks.is_some() && recorder.session.fold().seq() > 0;
                let fault = is_unchecked.then(|| "it was created meanwhile".to_owned());
                (fault, String::new())
            }
        };
        let settled = match (fault.or_else(|| recorder.missing_ledger()), trust) {
            (None, _) => Ok(()),
            (Some(why), Trust::Own) => Err(LoopError::Untrusted { session: session.clone(), why }),
            (Some(why), Trust::Reported) => recorder.trust(&why, records).await,
        };
        if let Err(error) = settled {
            // The caller needs the reason for the refusal, not an error of the cleanup.
            recorder.leave().await.ok();
            return Err(error);
        }
        recorder.collect_names();
        Ok(recorder)
    }

    /// Collects the ids that later answers must not reuse.
    fn collect_names(&mut self) {
        let turns = || self.session.fold().turns().turns();
        let name = |turn: &Arc<ConversationTurn>| turn.assistant_message()?.message_id.clone();
        let answers = turns().filter_map(name).collect();
        let messages = turns().filter_map(|turn| turn.assistant_message());
        let parts = messages.flat_map(|message| &message.content);
        let items = parts.filter_map(|part| part.item_id(turn::NAMED)).collect();
        (self.answers, self.items) = (answers, items);
    }

    /// Returns why there is no ledger, although the log reports turns.
    fn missing_ledger(&self) -> Option<String> {
        let fold = self.session.fold();
        let is_missing = fold.turns().last().is_none() && fold.reported_turns().last().is_some();
        is_missing.then(|| "its turns were not written by a loop that this one knows".to_owned())
    }

    /// Records the decision to continue what the log reports so far.
    async fn trust(&mut self, why: &str, records: String) -> Result<(), LoopError> {
        let content = Json::of(&TrustContent { records });
        let message = format!("continued by a person's decision: {why}").into();
        let note = Payload::Log(LogPayload { level: Some("warn".into()), message: Some(message) });
        let note = self.event_of(note);
        let records = [(RecordKind::Trust, content), (RecordKind::Loop, Json::of(&note))];
        let records = records.iter().map(|(kind, json)| {
            loop_record(self.marks.as_ref(), self.place(), *kind, json.as_str().to_owned())
        });
        let records = records.collect();
        self.session.append_ledger(records).await?;
        Ok(())
    }
}

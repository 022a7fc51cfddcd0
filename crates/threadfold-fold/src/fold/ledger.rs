//! The turns of a session: those that its own loop wrote, and those that the log reports.
//!
//! Only records of the loop move the ledger. A file of events can report turns as well, and those
//! are shown like any history, but nobody may act on them until a person decides so.

use threadfold_core::{Outcome, SessionEvent, TurnState};

use crate::record::RecordKind;

/// The turns of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// What the loop itself wrote.
    pub(super) ledger: TurnState,
    /// What all records report; `None` while that is the ledger.
    pub(super) reported: Option<TurnState>,
}

impl Turns {
    /// Applies an event from a record of this kind.
    pub(super) fn apply(&mut self, event: &SessionEvent, kind: RecordKind) -> Outcome {
        if !TurnState::concerns(event) {
            return Outcome::Unchanged;
        }
        if kind == RecordKind::Loop {
            if let Some(reported) = &mut self.reported {
                reported.extend([event]);
            }
            return self.ledger.apply(event);
        }
        self.reported.get_or_insert_with(|| self.ledger.clone()).apply(event)
    }

    /// Makes everything reported so far the ledger.
    pub(super) fn trust(&mut self) {
        if let Some(reported) = self.reported.take() {
            self.ledger = reported;
        }
    }

    /// Returns what all records report.
    pub(super) fn reported(&self) -> &TurnState {
        self.reported.as_ref().unwrap_or(&self.ledger)
    }
}

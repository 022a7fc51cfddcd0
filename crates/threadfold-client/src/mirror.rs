//! The state of a session, folded from frames by the same reducer as the server's.

use threadfold_core::{ConversationState, SessionEvent, SessionMetadata};
use threadfold_engine::{Frame, REDUCER};
use threadfold_fold::{Cursor, Snapshot};

/// Why a frame could not be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// Listen again without a cursor.
    #[error("the frame at `{cursor}` does not follow `{seen}`")]
    Gap {
        /// The cursor before.
        seen: String,
        /// The cursor of the frame.
        cursor: String,
    },
    /// Use a client of the server's version.
    #[error("the server sends `{found}`, and this client folds events of reducer {REDUCER}")]
    OtherReducer {
        /// What the server sends.
        found: String,
    },
    /// Report it: the server's snapshot is not valid.
    #[error("the snapshot at `{cursor}` cannot be read: {reason}")]
    Snapshot {
        /// Its cursor.
        cursor: String,
        /// What is wrong.
        reason: String,
    },
}

/// A copy of a session's state, as far as its frames were applied.
#[derive(Clone, Debug, Default)]
pub struct SessionMirror {
    state: ConversationState,
    metadata: SessionMetadata,
    cursor: Option<Cursor>,
    end: Option<String>,
    gaps: u64,
}

impl SessionMirror {
    /// Applies a frame, and returns whether the state changed.
    ///
    /// A frame that was applied already changes nothing; one that does not follow is an error.
    pub fn apply(&mut self, frame: &Frame) -> Result<bool, MirrorError> {
        match frame {
            Frame::Snapshot { cursor, snapshot, notice, .. } => {
                let Some(snapshot) = snapshot else {
                    let found = notice.clone().unwrap_or_else(|| "changes".to_owned());
                    return Err(MirrorError::OtherReducer { found });
                };
                let unreadable =
                    |reason: String| MirrorError::Snapshot { cursor: cursor.clone(), reason };
                self.restore(snapshot.as_str()).map_err(unreadable)?;
                let parsed: Result<Cursor, _> = cursor.parse();
                self.cursor = Some(parsed.map_err(|_| unreadable("its cursor".to_owned()))?);
                Ok(true)
            }
            Frame::Events { cursor, events, .. } => {
                let gap = || {
                    let seen = self.cursor.as_ref().map(ToString::to_string).unwrap_or_default();
                    MirrorError::Gap { seen, cursor: cursor.clone() }
                };
                let (Some(seen), Ok(next)) = (&self.cursor, cursor.parse::<Cursor>()) else {
                    return Err(gap());
                };
                if (&next.log, next.generation) != (&seen.log, seen.generation)
                    || next.seq > seen.seq + 1
                {
                    return Err(gap());
                }
                if next.seq <= seen.seq {
                    return Ok(false);
                }
                self.reduce(events);
                self.cursor = Some(next);
                Ok(true)
            }
            Frame::Gap { .. } => {
                self.gaps += 1;
                Ok(false)
            }
            Frame::End { reason, .. } => {
                self.end = Some(reason.clone());
                Ok(false)
            }
            Frame::Changes { .. } => Err(MirrorError::OtherReducer { found: "changes".to_owned() }),
            _ => Ok(false),
        }
    }

    fn reduce(&mut self, events: &[SessionEvent]) {
        self.state.extend(events);
        for event in events {
            self.metadata.apply(event);
        }
    }

    fn restore(&mut self, json: &str) -> Result<(), String> {
        let snapshot = Snapshot::from_json(json).map_err(|error| error.to_string())?;
        let item = |name: &str| snapshot.slice(name).and_then(|it| it.items.first());
        let conversation = item("conversation").ok_or("it has no conversation")?;
        let facts =
            serde_json::from_str(conversation.as_str()).map_err(|error| error.to_string())?;
        let state = ConversationState::restore(&facts).map_err(|error| error.to_string())?;
        if state.hash().to_string() != snapshot.state_hash {
            return Err("its state has another hash".to_owned());
        }
        if let Some(metadata) = item("metadata") {
            self.metadata =
                SessionMetadata::from_facts(metadata).map_err(|error| error.to_string())?;
        }
        self.state = state;
        Ok(())
    }

    /// Returns the conversation.
    pub fn state(&self) -> &ConversationState {
        &self.state
    }

    /// Returns the metadata of the session.
    pub fn metadata(&self) -> &SessionMetadata {
        &self.metadata
    }

    /// Returns the hash of the conversation, to be compared with the server's.
    pub fn state_hash(&self) -> String {
        self.state.hash().to_string()
    }

    /// Returns the cursor of the last record that was applied.
    pub fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// Returns why the session ended, if it did.
    pub fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }

    /// Returns how many gaps the server reported.
    pub fn gaps(&self) -> u64 {
        self.gaps
    }
}

//! Observes a transcript while it is followed, and records when its files change.
//!
//! An agent may write many times a second. So the first change after a quiet time is recorded at
//! once, later ones at most once a second, and the last one always.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use threadfold_core::{Json, Payload, SessionEvent, TranscriptPayload};
use threadfold_fold::{Chain, Fold, Source};

use crate::error::EngineError;
use crate::file_watcher::FileChanges;
use crate::files::Intake;
use crate::found_session::Follow;
use crate::session::Session;

/// The least time between two records of the same change.
const RECORD_EVERY: Duration = Duration::from_secs(1);

/// Follows a session's content, and records in the session when its files changed.
///
/// What the first poll reads of a file that the log did not have is where the file begins, and not a
/// change: so a session that is read once has no such records.
pub struct ObservedFollower {
    follower: Box<dyn Follow>,
    /// How far each source was read when that was last recorded; `None` before the first poll.
    recorded: Option<BTreeMap<u32, SourceExtent>>,
    /// When changes were last recorded.
    recorded_at: Option<Instant>,
    /// Something changed that is not recorded.
    is_pending: bool,
}

/// How far a source was read: the bytes of its lines, and the hash of its document.
type SourceExtent = (u64, Option<Chain>);

impl ObservedFollower {
    /// Returns a follower that also observes.
    pub fn new(follower: Box<dyn Follow>) -> Self {
        Self { follower, recorded: None, recorded_at: None, is_pending: false }
    }

    /// Returns when [`record_pending`](Self::record_pending) is to be called although nothing
    /// changes; nothing if all changes are recorded.
    pub fn deadline(&self) -> Option<Instant> {
        self.recorded_at.filter(|_| self.is_pending).map(|it| it + RECORD_EVERY)
    }

    /// Records changes that are not recorded yet.
    pub async fn record_pending(&mut self, session: &mut Session) -> Result<(), EngineError> {
        if !self.is_pending {
            return Ok(());
        }
        let recorded = self.recorded.get_or_insert_default();
        let (mut events, mut extents) = (Vec::new(), Vec::new());
        for source in session.fold().sources() {
            let extent = extent_of(source);
            if recorded.get(&source.number) != Some(&extent) {
                events.push(change_of(source));
                extents.push((source.number, extent));
            }
        }
        if !events.is_empty() {
            session.record_observations(&events).await?;
            recorded.extend(extents);
            self.recorded_at = Some(Instant::now());
        }
        self.is_pending = false;
        Ok(())
    }
}

#[async_trait]
impl Follow for ObservedFollower {
    async fn poll(
        &mut self,
        session: &mut Session,
        progress: &mut (dyn FnMut(u64) + Send),
    ) -> Result<Intake, EngineError> {
        let before = self.recorded.is_none().then(|| extents(session.fold()));
        let intake = self.follower.poll(session, progress).await?;
        if let Some(before) = before {
            // The first poll: sources that are new to the log begin here.
            let mut recorded = extents(session.fold());
            recorded.extend(before);
            self.recorded = Some(recorded);
        }
        self.is_pending |= intake.records > 0;
        let is_due = self.recorded_at.is_none_or(|it| it.elapsed() >= RECORD_EVERY);
        if is_due {
            self.record_pending(session).await?;
        }
        Ok(intake)
    }

    /// Stores unterminated last lines, and records all changes: nothing may follow.
    async fn flush_unterminated(&mut self, session: &mut Session) -> Result<Intake, EngineError> {
        let intake = self.follower.flush_unterminated(session).await?;
        self.is_pending |= intake.records > 0;
        self.record_pending(session).await?;
        Ok(intake)
    }

    fn notice(&mut self, changes: &FileChanges) {
        self.follower.notice(changes);
    }

    fn interval(&self) -> Duration {
        self.follower.interval()
    }

    fn pause(&self) -> Duration {
        self.follower.pause()
    }
}

fn extents(fold: &Fold) -> BTreeMap<u32, SourceExtent> {
    fold.sources().map(|source| (source.number, extent_of(source))).collect()
}

fn extent_of(source: &Source) -> SourceExtent {
    (source.line_bytes(), source.document())
}

/// Returns the event of a source that changed.
fn change_of(source: &Source) -> SessionEvent {
    let file = source.spec.path.as_deref().unwrap_or(&source.spec.name);
    // A document has no position: it was replaced as a whole.
    let position = source.document().is_none().then(|| Json::of(&source.line_bytes()));
    let changed = TranscriptPayload { file: Some(file.into()), position };
    SessionEvent::new(Payload::TranscriptChanged(changed))
}

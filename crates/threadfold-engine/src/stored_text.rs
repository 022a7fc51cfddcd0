//! The text of a stored snapshot, read piece by piece when somebody looks at it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};

use bytes::Bytes;
use threadfold_core::{SessionId, SpillStore};
use threadfold_fold::SnapshotFooter;
use threadfold_store::{BlobHash, SnapshotEnd, Store, StoreError};
use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;

use crate::error::EngineError;
use crate::piece_table::{FoundPiece, Lookup, PieceTable};

/// How many pieces are held: blocks that follow one another are in the same piece, or in the next.
const MOST_PIECES: usize = 16;

/// The text of a stored snapshot. Nothing is written to it.
///
/// After an error it returns nothing more, and readers of its data must call
/// [`check`](Self::check).
pub(crate) struct StoredText {
    store: Arc<dyn Store>,
    session: SessionId,
    runtime: Handle,
    pieces: PieceTable,
    /// Where the parts of the snapshot are, if it has an outline.
    footer: Option<SnapshotFooter>,
    /// The pieces that were read last by where they begin, the latest at the end.
    held: Mutex<VecDeque<(u64, Bytes)>>,
    trouble: OnceLock<Arc<StoreError>>,
}

impl StoredText {
    /// Returns the text of a snapshot, of which only the end is read. Called within the runtime that
    /// the store needs.
    pub(crate) async fn open(
        store: &Arc<dyn Store>,
        session: &SessionId,
        stored: SnapshotEnd,
    ) -> Result<Self, StoreError> {
        let last = match &stored.last {
            Some(hash) => store.blob(hash).await?,
            None => None,
        };
        let (footer, pieces) = match last.as_deref().and_then(PieceTable::read) {
            Some((footer, pieces)) => (Some(footer), pieces),
            // Of an older version, or with more subagents than an outline has.
            None => {
                let SnapshotEnd { generation, seq, .. } = stored;
                let listed = store.snapshot_pieces(session, generation, seq).await?;
                (None, PieceTable::listed(listed.map(|it| it.pieces).unwrap_or_default()))
            }
        };
        Ok(Self {
            store: store.clone(),
            session: session.clone(),
            runtime: Handle::current(),
            pieces,
            footer,
            held: Mutex::default(),
            trouble: OnceLock::new(),
        })
    }

    pub(crate) fn len(&self) -> u64 {
        self.pieces.end()
    }

    /// Returns where the parts of the snapshot are; nothing if it has no outline.
    pub(crate) fn footer(&self) -> Option<SnapshotFooter> {
        self.footer
    }

    /// Fails after an earlier error.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        match self.trouble.get() {
            None => Ok(()),
            Some(source) => {
                let (session, source) = (self.session.clone(), source.clone());
                Err(EngineError::StoredState { session, source })
            }
        }
    }

    /// Returns the end and the hash of the piece that begins at a place.
    pub(crate) async fn piece_at(&self, place: u64) -> Result<Option<(u64, BlobHash)>, StoreError> {
        let found = self.find(place).await?;
        Ok(found.filter(|it| it.start == place).map(|it| (it.end, it.hash)))
    }

    /// Returns the piece that contains a place.
    async fn find(&self, place: u64) -> Result<Option<FoundPiece>, StoreError> {
        loop {
            match self.pieces.find(place) {
                Lookup::Found(found) => return Ok(Some(found)),
                Lookup::Beyond => return Ok(None),
                Lookup::Unread(page, hash) => {
                    let bytes = self.blob(&hash).await?;
                    if !self.pieces.add_page(page, &bytes) {
                        return Err(self.corrupt("the table of its pieces is out of order"));
                    }
                }
            }
        }
    }

    /// Returns the bytes of a range.
    pub(crate) async fn read(&self, place: u64, length: u64) -> Result<Vec<u8>, StoreError> {
        let end = place.checked_add(length).filter(|end| *end <= self.len());
        let end = end.ok_or_else(|| self.corrupt("it refers to text beyond its end"))?;
        // It grows with what is there: lengths in a store from elsewhere may be anything.
        let mut bytes = Vec::new();
        let mut at = place;
        while at < end {
            let found = self.find(at).await?;
            let found = found.ok_or_else(|| self.corrupt("it refers to text beyond its end"))?;
            let piece = self.piece(found).await?;
            let skipped = usize::try_from(at - found.start).unwrap_or(usize::MAX);
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX);
            let part = piece.get(skipped..).unwrap_or_default();
            let part = &part[..part.len().min(wanted)];
            bytes.extend_from_slice(part);
            at += part.len() as u64;
        }
        Ok(bytes)
    }

    async fn piece(&self, found: FoundPiece) -> Result<Bytes, StoreError> {
        if let Some(piece) = self.held_piece(found.start) {
            return Ok(piece);
        }
        let piece = self.blob(&found.hash).await?;
        if piece.len() as u64 != found.end - found.start {
            return Err(self.corrupt("a piece is not as long as it was"));
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() == MOST_PIECES {
            held.pop_front();
        }
        held.push_back((found.start, piece.clone()));
        Ok(piece)
    }

    async fn blob(&self, hash: &BlobHash) -> Result<Bytes, StoreError> {
        let found = self.store.blob(hash).await?;
        found.ok_or_else(|| self.corrupt("a piece was deleted"))
    }

    /// Returns a piece that is held, and makes it the latest.
    fn held_piece(&self, start: u64) -> Option<Bytes> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let found = held.iter().position(|it| it.0 == start)?;
        let latest = held.remove(found)?;
        let piece = latest.1.clone();
        held.push_back(latest);
        Some(piece)
    }

    fn corrupt(&self, what: &str) -> StoreError {
        let place = format!("a snapshot of session `{}`", self.session);
        StoreError::Corrupt { place, what: what.to_owned() }
    }

    fn fail(&self, error: StoreError) {
        self.trouble.get_or_init(|| Arc::new(error));
    }
}

impl SpillStore for StoredText {
    fn put(&self, _: &[u8]) -> Option<u64> {
        None
    }

    fn fetch(&self, place: u64, length: usize) -> Option<Vec<u8>> {
        if self.trouble.get().is_some() {
            return None;
        }
        let _within = self.runtime.enter();
        // A block is read in the middle of a step, which does not wait for anything. The budget of
        // the task that the step is part of must not apply: nothing would renew it here.
        let read = wait_for(unconstrained(self.read(place, length as u64)));
        read.map_err(|error| self.fail(error)).ok()
    }

    fn report_corruption(&self, place: u64) {
        self.fail(self.corrupt(&format!("the text at byte {place} cannot be parsed")));
    }
}

/// Waits for a future on this thread. The store answers on threads of its own.
fn wait_for<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

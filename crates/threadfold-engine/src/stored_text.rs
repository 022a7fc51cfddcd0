//! The text of a stored snapshot, read piece by piece when somebody looks at it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};

use bytes::Bytes;
use threadfold_core::{SessionId, SpillStore};
use threadfold_store::{BlobHash, SnapshotPieces, Store, StoreError};
use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;

use crate::error::EngineError;

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
    /// Where each piece begins, and its hash.
    pieces: Vec<(u64, BlobHash)>,
    length: u64,
    /// The pieces that were read last, the latest at the end.
    held: Mutex<VecDeque<(usize, Bytes)>>,
    trouble: OnceLock<Arc<StoreError>>,
}

impl StoredText {
    /// Returns the text of a snapshot. Called within the runtime that the store needs.
    pub(crate) fn new(store: Arc<dyn Store>, session: &SessionId, stored: SnapshotPieces) -> Self {
        let mut length: u64 = 0;
        let place = |(hash, piece): (BlobHash, u64)| {
            let start = length;
            length = start.saturating_add(piece);
            (start, hash)
        };
        let pieces = stored.pieces.into_iter().map(place).collect();
        Self {
            store,
            session: session.clone(),
            runtime: Handle::current(),
            pieces,
            length,
            held: Mutex::default(),
            trouble: OnceLock::new(),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.length
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
    pub(crate) fn piece_at(&self, place: u64) -> Option<(u64, BlobHash)> {
        let index = self.pieces.binary_search_by_key(&place, |it| it.0).ok()?;
        let end = self.pieces.get(index + 1).map_or(self.length, |it| it.0);
        Some((end, self.pieces[index].1))
    }

    /// Returns the bytes of a range.
    pub(crate) async fn read(&self, place: u64, length: u64) -> Result<Vec<u8>, StoreError> {
        let end = place.checked_add(length).filter(|end| *end <= self.length);
        let end = end.ok_or_else(|| self.corrupt("it refers to text beyond its end"))?;
        // It grows with what is there: lengths in a store from elsewhere may be anything.
        let mut bytes = Vec::new();
        let mut at = place;
        while at < end {
            let index = self.pieces.partition_point(|it| it.0 <= at).saturating_sub(1);
            let piece = self.piece(index).await?;
            let skipped = usize::try_from(at - self.pieces[index].0).unwrap_or(usize::MAX);
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX);
            let part = piece.get(skipped..).unwrap_or_default();
            let part = &part[..part.len().min(wanted)];
            if part.is_empty() {
                return Err(self.corrupt("a piece is shorter than it was"));
            }
            bytes.extend_from_slice(part);
            at += part.len() as u64;
        }
        Ok(bytes)
    }

    async fn piece(&self, index: usize) -> Result<Bytes, StoreError> {
        if let Some(piece) = self.held_piece(index) {
            return Ok(piece);
        }
        let found = self.store.blob(&self.pieces[index].1).await?;
        let piece = found.ok_or_else(|| self.corrupt("a piece was deleted"))?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() == MOST_PIECES {
            held.pop_front();
        }
        held.push_back((index, piece.clone()));
        Ok(piece)
    }

    /// Returns a piece that is held, and makes it the latest.
    fn held_piece(&self, index: usize) -> Option<Bytes> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let found = held.iter().position(|it| it.0 == index)?;
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

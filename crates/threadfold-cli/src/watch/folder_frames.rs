//! Prints the frames of all sessions of a folder: one stream for each, between those of the others.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use threadfold_core::SessionId;
use threadfold_engine::{EngineError, FrameListener, Host, ListenOptions, SessionHandle};
use threadfold_fold::Cursor;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::show::{END, write_frame};

/// Prints the frames of the sessions that change.
pub(super) struct FolderFrames {
    host: Host,
    listening: ListenOptions,
    streams: BTreeMap<SessionId, Stream>,
    /// The folder is not followed any more, so sessions end for good.
    is_closing: Arc<AtomicBool>,
    failures: (mpsc::UnboundedSender<io::Error>, mpsc::UnboundedReceiver<io::Error>),
}

/// The frames of one session.
struct Stream {
    handle: SessionHandle,
    /// Ends with the session, and returns the last cursor that was printed.
    task: JoinHandle<Cursor>,
}

impl FolderFrames {
    pub(super) fn new(host: Host, listening: ListenOptions) -> Self {
        let (streams, is_closing) = (BTreeMap::new(), Arc::default());
        Self { host, listening, streams, is_closing, failures: mpsc::unbounded_channel() }
    }

    /// Prints the frames of a session from now on. One that was closed because it was idle continues
    /// after the last frame that was printed.
    pub(super) async fn follow(&mut self, id: &SessionId) -> Result<(), EngineError> {
        let mut after = None;
        match self.streams.remove(id) {
            Some(stream) if !stream.handle.is_ended() => {
                self.streams.insert(id.clone(), stream);
                return Ok(());
            }
            // Its last frames are printed before the next ones.
            // Without their cursor, the session begins again with a snapshot.
            Some(ended) => after = ended.task.await.ok(),
            None => {}
        }
        let listening = ListenOptions { after, ..self.listening.clone() };
        let listener = self.host.listen(id, listening).await?.continued();
        let handle = listener.handle().clone();
        let (is_closing, failures) = (self.is_closing.clone(), self.failures.0.clone());
        let task = tokio::spawn(print(listener, is_closing, failures));
        self.streams.insert(id.clone(), Stream { handle, task });
        Ok(())
    }

    /// Waits until a frame cannot be written.
    pub(super) async fn failed(&mut self) -> io::Error {
        match self.failures.1.recv().await {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// Announces that sessions end for good from now on.
    pub(super) fn begin_closing(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Waits until all frames are printed.
    pub(super) async fn close(self) {
        for stream in self.streams.into_values() {
            // What it could not write is among the failures.
            stream.task.await.ok();
        }
    }
}

/// Prints the frames of a session until it ends, and returns the last cursor.
async fn print(
    mut listener: FrameListener,
    is_closing: Arc<AtomicBool>,
    failures: mpsc::UnboundedSender<io::Error>,
) -> Cursor {
    let mut out = io::stdout();
    loop {
        let frames = listener.next_frames().await;
        let is_last = frames.last().is_some_and(|it| it.starts_with(END));
        // A session that was closed because it was idle may go on.
        let is_hidden = is_last && !is_closing.load(Ordering::Relaxed);
        for frame in frames.iter().filter(|_| !is_hidden) {
            if let Err(error) = write_frame(&mut out, frame) {
                // Whoever waits for failures may be gone.
                failures.send(error).ok();
                return listener.cursor().clone();
            }
        }
        if is_last {
            return listener.cursor().clone();
        }
    }
}

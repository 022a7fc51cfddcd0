//! Reads standard input without losing a byte, whatever else is waited for.

use std::io::{self, Read};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use threadfold_fold::{Detection, SessionNamer, detect};
use tokio::sync::mpsc;

use super::spool::Spool;
use crate::error::CommandError;

const CHUNK: usize = 64 << 10;
/// How many chunks wait while earlier ones are stored.
const WAITING: usize = 8;
/// How many bytes are read at most to find the session's id, and how long.
const MOST_NAMING: usize = 1 << 20;
const NAMING_TIME: Duration = Duration::from_secs(30);

/// Standard input.
pub(super) struct Input {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    is_ended: bool,
}

impl Input {
    /// Starts to read.
    pub(super) fn start() -> Self {
        let (sender, chunks) = mpsc::channel(WAITING);
        thread::spawn(move || {
            let mut stdin = io::stdin().lock();
            let mut chunk = vec![0; CHUNK];
            loop {
                let read = match stdin.read(&mut chunk) {
                    Ok(0) => return,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read.map(|count| Bytes::copy_from_slice(&chunk[..count])),
                };
                let is_over = read.is_err();
                if sender.blocking_send(read).is_err() || is_over {
                    return;
                }
            }
        });
        Self { chunks, is_ended: false }
    }

    /// Waits for more, and adds it. Dropping the future loses nothing; after the end, it never
    /// returns.
    pub(super) async fn read(&mut self, spool: &mut Spool) -> Result<(), CommandError> {
        if self.is_ended {
            return std::future::pending().await;
        }
        match self.chunks.recv().await {
            Some(chunk) => {
                let chunk = chunk
                    .context("standard input cannot be read")
                    .map_err(|error| CommandError::new(error, "what was read before is sent"))?;
                spool.push(&chunk)
            }
            None => {
                self.is_ended = true;
                Ok(())
            }
        }
    }

    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Reads nothing more.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
    }

    /// Reads until the stream names its session.
    pub(super) async fn name_session(
        &mut self,
        spool: &mut Spool,
    ) -> Result<Option<String>, CommandError> {
        let deadline = tokio::time::Instant::now() + NAMING_TIME;
        loop {
            let head = spool.front(MOST_NAMING)?;
            if let Some(id) = detect(&head).and_then(|input| named(input, &head)) {
                return Ok(Some(id));
            }
            if self.is_ended || head.len() >= MOST_NAMING {
                return Ok(None);
            }
            match tokio::time::timeout_at(deadline, self.read(spool)).await {
                Ok(read) => read?,
                // A stream that names no session has one of its own.
                Err(_) if !head.is_empty() => return Ok(None),
                Err(_) => self.read(spool).await?,
            }
        }
    }
}

/// Returns the id of the session that complete lines name.
fn named(input: Detection, head: &[u8]) -> Option<String> {
    let whole = head.iter().rposition(|it| *it == b'\n').map_or(0, |end| end + 1);
    let mut namer = SessionNamer::new(input);
    namer.push(&head[..whole]);
    namer.finish().map(|it| it.id.to_string())
}

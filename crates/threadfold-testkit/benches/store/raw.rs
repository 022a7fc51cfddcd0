//! A plain file: the minimum cost of durable appends.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use tokio::sync::oneshot;

use crate::Outcome;

/// A file that is synced after each write.
pub(crate) struct RawFile(File);

impl RawFile {
    pub(crate) fn new(path: &Path) -> Outcome<Self> {
        Ok(Self(File::create(path)?))
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.0.write_all(bytes)?;
        Ok(self.0.sync_data()?)
    }
}

/// Bytes to write, and a signal once they are synced.
type PendingWrite = (Vec<u8>, oneshot::Sender<()>);

/// A file with group commit: whatever waits is written and synced at once.
#[derive(Clone)]
pub(crate) struct GroupedFile(Sender<PendingWrite>);

impl GroupedFile {
    pub(crate) fn new(path: &Path) -> Outcome<Self> {
        let mut file = RawFile::new(path)?;
        let (sender, receiver) = channel::<PendingWrite>();
        thread::spawn(move || {
            while let Ok(first) = receiver.recv() {
                let group: Vec<PendingWrite> =
                    std::iter::once(first).chain(receiver.try_iter().take(1023)).collect();
                let bytes: Vec<u8> = group.iter().flat_map(|(bytes, _)| bytes).copied().collect();
                if file.append(&bytes).is_err() {
                    return;
                }
                for (_, answer) in group {
                    answer.send(()).ok();
                }
            }
        });
        Ok(Self(sender))
    }

    pub(crate) async fn append(&self, bytes: Vec<u8>) -> Outcome<()> {
        let (answer, answered) = oneshot::channel();
        self.0.send((bytes, answer)).map_err(|_| "the thread has ended")?;
        Ok(answered.await?)
    }
}

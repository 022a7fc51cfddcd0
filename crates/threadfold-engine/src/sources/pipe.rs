//! What comes through a pipe: an agent's own words, as it says them.

use std::io::{self, Read};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use threadfold_convert::{Agent, Converter, Feed, FeedKind, Record, converter, lines};
use threadfold_core::SessionId;
use threadfold_store::RecordKind;
use tokio::sync::mpsc;

use crate::cut::{Cut, Cutter};
use crate::error::EngineError;
use crate::session::{Incoming, Session};
use crate::source::SourceSpec;

const CHUNK: usize = 64 << 10;
/// How many chunks wait while the ones before them are written.
const WAITING: usize = 64;
/// How many bytes are looked at to find the session's name.
const LOOKED_AT: usize = 8 << 20;
/// How long is waited for what was read last, when no more is to be read.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// A stream that is read on a thread of its own, a chunk at a time.
#[derive(Debug)]
pub struct Pipe {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    /// What was read already, and is still to be taken.
    held: BytesMut,
    ended: bool,
    /// No more is to be read.
    is_stopped: Arc<AtomicBool>,
}

impl Pipe {
    /// Begins to read.
    pub fn new(reader: impl Read + Send + 'static) -> Self {
        let (sender, chunks) = mpsc::channel(WAITING);
        let is_stopped = Arc::new(AtomicBool::new(false));
        let reading = is_stopped.clone();
        thread::spawn(move || read_all(reader, &sender, &reading));
        Self { chunks, held: BytesMut::new(), ended: false, is_stopped }
    }

    /// Reads on until the stream tells which session it is of; nothing if it never does.
    pub async fn session(&mut self, agent: Agent) -> io::Result<Option<SessionId>> {
        let mut looking = Looking::new(agent);
        let mut session = looking.hear(&self.held);
        while session.is_none() && !self.ended && self.held.len() < LOOKED_AT {
            let before = self.held.len();
            self.read().await?;
            session = looking.hear(&self.held[before..]);
        }
        Ok(session)
    }

    /// Waits for a chunk, takes all others that are there, and notes the end.
    async fn read(&mut self) -> io::Result<()> {
        match self.chunks.recv().await {
            Some(chunk) => self.held.extend_from_slice(&chunk?),
            None => self.ended = true,
        }
        while let Ok(chunk) = self.chunks.try_recv() {
            self.held.extend_from_slice(&chunk?);
        }
        Ok(())
    }

    /// Takes what was read by now, and reads no more; says whether there is anything.
    pub async fn stop(&mut self) -> io::Result<bool> {
        self.is_stopped.store(true, Ordering::Relaxed);
        // The thread may wait for bytes that never come, or hold some that it is about to hand on.
        while !self.ended
            && let Ok(read) = tokio::time::timeout(LAST_WAIT, self.read()).await
        {
            read?;
        }
        Ok(!self.held.is_empty())
    }
}

fn read_all(
    mut reader: impl Read,
    chunks: &mpsc::Sender<io::Result<Bytes>>,
    is_stopped: &AtomicBool,
) {
    let mut chunk = vec![0; CHUNK];
    // What is there already is read, however soon it is stopped.
    loop {
        let read = match reader.read(&mut chunk) {
            Ok(0) => return,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map(|count| Bytes::copy_from_slice(&chunk[..count])),
        };
        let is_over = read.is_err();
        let is_over = is_over || is_stopped.load(Ordering::Relaxed);
        if chunks.blocking_send(read).is_err() || is_over {
            return;
        }
    }
}

/// Looks for the name of a session.
struct Looking {
    feed: Feed,
    converter: Box<dyn Converter>,
    cutter: Cutter,
    line: u64,
}

impl Looking {
    fn new(agent: Agent) -> Self {
        Self {
            feed: Feed::new(agent, FeedKind::Stream, "-"),
            converter: converter(agent),
            cutter: Cutter::default(),
            line: 0,
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> Option<SessionId> {
        let mut cuts = Vec::new();
        self.cutter.push(bytes, &mut cuts);
        let mut events = Vec::new();
        for cut in cuts.iter().filter(|cut| cut.kind == RecordKind::Line) {
            self.line += 1;
            if let Some(line) = lines::line(lines::Position::default(), &cut.bytes) {
                let record = Record { feed: &self.feed, line: self.line, bytes: line.bytes };
                self.converter.push(&record, &mut events);
            }
        }
        events.into_iter().find_map(|event| event.context.session_id)
    }
}

/// Takes all that comes through a pipe, until its end or until `stop` is done; then what was read
/// by that time is kept as well, an unfinished line as far as it has come.
///
/// What comes while a write is under way is written together with the next: one write to the
/// disk for many deltas. Every stream is a part of its own.
pub async fn follow_pipe(
    session: &mut Session,
    spec: &SourceSpec,
    mut pipe: Pipe,
    stop: impl Future<Output = ()>,
) -> Result<(), EngineError> {
    let mut stop = pin!(stop);
    let source = match session.fold().source(spec) {
        Some(_) => session.new_part(spec).await?,
        None => session.source(spec).await?,
    };
    let mut cutter = Cutter::default();
    let mut failed = None;
    let mut is_stopped = false;
    loop {
        let mut cuts = Vec::new();
        cutter.push(&pipe.held.split(), &mut cuts);
        match (pipe.ended, is_stopped) {
            (true, _) => cutter.finish(&mut cuts),
            (false, true) => cuts.extend(cutter.unfinished()),
            (false, false) => {}
        }
        session.accept(cuts.into_iter().map(|cut| incoming(source, cut)).collect()).await?;
        if pipe.ended || is_stopped {
            break;
        }
        let read = tokio::select! {
            read = pipe.read() => read,
            () = &mut stop => {
                is_stopped = true;
                pipe.stop().await.map(drop)
            }
        };
        if let Err(error) = read {
            failed = Some(error);
            pipe.ended = true;
        }
    }
    if pipe.ended {
        let position = cutter.end();
        let end = Incoming { kind: RecordKind::End, source, position, bytes: Bytes::new() };
        session.accept(vec![end]).await?;
    }
    match failed {
        Some(source) => Err(EngineError::File { path: spec.name.as_str().into(), source }),
        None => Ok(()),
    }
}

fn incoming(source: u32, cut: Cut) -> Incoming {
    Incoming { kind: cut.kind, source, position: cut.position, bytes: cut.bytes }
}

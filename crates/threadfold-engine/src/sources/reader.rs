//! What comes through a pipe: an agent's own words, as it says them.

use bytes::{Bytes, BytesMut};
use threadfold_convert::{Agent, Converter, Feed, FeedKind, Record, converter, lines};
use threadfold_core::SessionId;
use threadfold_store::RecordKind;
use tokio::io::{AsyncRead, AsyncReadExt};
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

/// The beginning of a stream, which tells whose it is.
#[derive(Debug)]
pub struct Opening {
    /// The session that it is of, if it says so.
    pub session: Option<SessionId>,
    /// What was read.
    pub bytes: Bytes,
    /// There is nothing more.
    pub ended: bool,
}

/// Reads on from `head` until the stream tells which session it is of, or ends.
pub async fn open_reader(
    agent: Agent,
    head: &[u8],
    reader: &mut (impl AsyncRead + Unpin),
) -> std::io::Result<Opening> {
    let mut looking = Looking::new(agent);
    let mut held = BytesMut::from(head);
    let mut session = looking.hear(head);
    let mut ended = false;
    while session.is_none() && !ended && held.len() < LOOKED_AT {
        let before = held.len();
        held.reserve(CHUNK);
        ended = reader.read_buf(&mut held).await? == 0;
        session = looking.hear(&held[before..]);
    }
    Ok(Opening { session, bytes: held.freeze(), ended })
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

/// Takes all that comes through `reader`, after `opening`, until its end.
///
/// What comes while a write is under way is written together with the next: one write to the
/// disk for many deltas. Every stream is a part of its own.
pub async fn follow_reader(
    session: &mut Session,
    spec: &SourceSpec,
    opening: Bytes,
    reader: impl AsyncRead + Unpin + Send + 'static,
) -> Result<(), EngineError> {
    let source = match session.fold().source(spec) {
        Some(_) => session.new_part(spec).await?,
        None => session.source(spec).await?,
    };
    let (sender, mut chunks) = mpsc::channel(WAITING);
    let reading = tokio::spawn(read_all(reader, sender));
    let mut cutter = Cutter::default();
    let mut cuts = Vec::new();
    cutter.push(&opening, &mut cuts);
    let mut more = true;
    while more {
        match chunks.recv().await {
            Some(chunk) => cutter.push(&chunk, &mut cuts),
            None => more = false,
        }
        while let Ok(chunk) = chunks.try_recv() {
            cutter.push(&chunk, &mut cuts);
        }
        if !more {
            cutter.finish(&mut cuts);
        }
        session.accept(cuts.drain(..).map(|cut| incoming(source, cut)).collect()).await?;
    }
    let position = cutter.end();
    let end = Incoming { kind: RecordKind::End, source, position, bytes: Bytes::new() };
    session.accept(vec![end]).await?;
    match reading.await {
        Ok(Err(source)) => Err(EngineError::File { path: spec.name.as_str().into(), source }),
        _ => Ok(()),
    }
}

async fn read_all(
    mut reader: impl AsyncRead + Unpin,
    chunks: mpsc::Sender<Bytes>,
) -> std::io::Result<()> {
    loop {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        let count = reader.read_buf(&mut chunk).await?;
        if count == 0 || chunks.send(chunk.freeze()).await.is_err() {
            return Ok(());
        }
    }
}

fn incoming(source: u32, cut: Cut) -> Incoming {
    Incoming { kind: cut.kind, source, position: cut.position, bytes: cut.bytes }
}

//! Reads an agent's live stream from a pipe.

use std::io::{self, Read};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde::de::IgnoredAny;
use threadfold_convert::lines::lines;
use threadfold_core::SessionId;
use threadfold_fold::{
    Agent, Cutter, Detection, Fold, HEAD_BYTES, InputHead, Record, RecordKind, SessionNamer, Shape,
    SourceSpec, content_name, detect, is_document, is_enough, may_be_document,
};
use threadfold_store::Store;
use tokio::sync::mpsc;

use crate::error::EngineError;
use crate::files::{Form, has_bytes, longest_lines};
use crate::found_session::{IdOrigin, LostContent};
use crate::open_path::{InputError, InputOptions, extend_first_record, may_be_packed, source_spec};
use crate::packed::{PackedState, PlainReader};
use crate::session::Session;

const CHUNK: usize = 64 << 10;
/// How many chunks are queued while earlier ones are written.
const WAITING: usize = 64;
/// How many bytes are read at most to find the session's id.
const MAX_NAMING: usize = 8 << 20;
/// The name of a pipe's source, in logs and messages.
const NAME: &str = "stdin";
/// How long to wait for a line that shows the format, once a record of no known format is complete.
const NEXT_LINES: Duration = Duration::from_millis(200);
/// How long to wait for the last read to finish, once reading stops.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// A stream that is read in chunks.
pub struct Pipe {
    chunks: Chunks,
    /// Chunks that were read but not processed yet.
    held: BytesMut,
    ended: bool,
    /// Reading has ended.
    is_stopped: Arc<AtomicBool>,
    /// Whether it is compressed, and what of it is lost.
    packed: PackedState,
}

/// Where the chunks come from.
enum Chunks {
    /// A thread reads them, so that the caller can wait for something else as well.
    Thread(mpsc::Receiver<io::Result<Bytes>>),
    /// They are read on demand, which blocks the caller.
    Blocking(Box<dyn Read + Send>),
}

impl Pipe {
    /// Starts a reader thread.
    pub fn new(reader: impl Read + Send + 'static) -> Self {
        let (sender, chunks) = mpsc::channel(WAITING);
        let is_stopped = Arc::new(AtomicBool::new(false));
        let reading = is_stopped.clone();
        let reader = PlainReader::new(reader);
        let packed = reader.state();
        thread::spawn(move || read_all(reader, &sender, &reading));
        let chunks = Chunks::Thread(chunks);
        Self { chunks, held: BytesMut::new(), ended: false, is_stopped, packed }
    }

    /// Returns a pipe that is read without a thread: waiting for a chunk blocks.
    pub fn blocking(reader: impl Read + Send + 'static) -> Self {
        let reader = PlainReader::new(reader);
        let packed = reader.state();
        let chunks = Chunks::Blocking(Box::new(reader));
        Self { chunks, held: BytesMut::new(), ended: false, is_stopped: Arc::default(), packed }
    }

    /// Reads until the format and the session of the stream are known. The chunks stay in the
    /// pipe.
    ///
    /// It is cancellation-safe: it can be dropped and called again without loss.
    pub async fn recognize(&mut self, options: &InputOptions<'_>) -> Result<PipeInput, InputError> {
        self.recognize_with(options, MAX_NAMING).await
    }

    /// Reads until the format of the stream is known, without waiting for its session's id.
    pub async fn recognize_format(
        &mut self,
        options: &InputOptions<'_>,
    ) -> Result<PipeInput, InputError> {
        self.recognize_with(options, 0).await
    }

    async fn recognize_with(
        &mut self,
        options: &InputOptions<'_>,
        max_naming: usize,
    ) -> Result<PipeInput, InputError> {
        let mut is_recognizable = is_enough(&self.held);
        while !self.is_over() && !is_recognizable {
            let before = self.held.len();
            let is_readable = has_record(&self.held);
            // A format that was specified need not be detected.
            if is_readable && options.format.is_some() {
                break;
            }
            let read = match is_readable {
                // A later line may show the format, but a live stream must not wait for it.
                true => match tokio::time::timeout(NEXT_LINES, self.read()).await {
                    Ok(read) => read,
                    Err(_) => break,
                },
                false => self.read().await,
            };
            match read {
                // Nothing of it can be decompressed.
                Err(_) if self.packed.is_packed() => self.ended = true,
                read => read?,
            }
            // Only a line end can complete a record; see `read_head`.
            let may_be_enough = before == 0 || self.held[before..].contains(&b'\n');
            is_recognizable =
                self.held.len() >= HEAD_BYTES || (may_be_enough && is_enough(&self.held));
        }
        let head = InputHead { bytes: &self.held, is_complete: self.is_over() };
        let path = || PathBuf::from(NAME);
        let is_packed = self.packed.is_packed();
        let input = match options.format.or_else(|| detect(&self.held)) {
            Some(input) if is_packed && !may_be_packed(input) => {
                return Err(InputError::Unrecognized { path: path() });
            }
            None if is_packed => return Err(InputError::Unrecognized { path: path() }),
            Some(input) if matches!(input.shape(), Shape::Database | Shape::Folder) => {
                let format = input.format.name;
                let reason = "this format needs random access; give its path";
                return Err(InputError::Mismatch { path: path(), format, reason });
            }
            Some(input) => input,
            None if head.is_before_first_record() => {
                return Err(InputError::NothingYet { path: path() });
            }
            None if head.is_text() => Detection::unknown(),
            None => return Err(InputError::Unrecognized { path: path() }),
        };
        let may_be_document = may_be_document(input, &self.held);
        while may_be_document && !self.is_over() {
            self.read().await?;
        }
        let form = match may_be_document && is_document(input, &self.held) {
            true => Form::Document,
            false => Form::Lines,
        };
        let (id, naming) = self.name(input, form, options, max_naming).await?;
        let (spec, packed) = (source_spec(input, NAME), self.packed.clone());
        Ok(PipeInput { id, naming, input, form, spec, is_repeated: false, packed })
    }

    /// Returns whether a stored session has all that the pipe carries. Reads on as long as that may
    /// be, so a stream that begins like the session waits until it differs or ends.
    pub(crate) async fn is_repeated_in(
        &mut self,
        (store, fold): (&dyn Store, &Fold),
        input: &PipeInput,
    ) -> Result<bool, EngineError> {
        let longest = match input.form {
            Form::Lines => longest_lines(fold, &input.spec).min(MAX_NAMING as u64),
            Form::Document => u64::MAX,
        };
        let mut compared = 0;
        while self.held.len() as u64 <= longest {
            let is_over = self.is_over();
            // To compare again after every chunk would cost the square of the length.
            if is_over || self.held.len() >= 2 * compared {
                if !has_bytes((store, fold), &input.spec, input.form, &self.held).await? {
                    return Ok(false);
                }
                compared = self.held.len();
            }
            if is_over {
                return Ok(true);
            }
            self.read().await?;
        }
        Ok(false)
    }

    /// Reads until the stream names its session, or a limit is reached.
    async fn name(
        &mut self,
        input: Detection,
        form: Form,
        options: &InputOptions<'_>,
        max_naming: usize,
    ) -> Result<(SessionId, IdOrigin), InputError> {
        if let Some(session) = options.session {
            return Ok((SessionId::from(session), IdOrigin::Agent));
        }
        let mut namer = SessionNamer::new(input);
        match (form, input.agent) {
            (Form::Document, Some(agent)) => namer.push_document(agent, &self.held),
            _ => {
                // Events written by hand need not name a session.
                let may_come = input.agent.is_some_and(Agent::is_known);
                let mut needs_more = namer.push(&self.held) && may_come;
                while needs_more && !self.is_over() && self.held.len() < max_naming {
                    let before = self.held.len();
                    self.read().await?;
                    needs_more = namer.push(&self.held[before..]);
                }
            }
        }
        if let Some(name) = namer.finish() {
            return Ok(IdOrigin::of(name));
        }
        if form == Form::Document {
            return Ok((content_name(input, &self.held), IdOrigin::Content));
        }
        let mut first = Vec::new();
        extend_first_record(&mut first, &self.held);
        Ok((content_name(input, &first), IdOrigin::Content))
    }

    /// Returns whether reading has ended.
    fn is_over(&self) -> bool {
        self.ended || self.is_stopped.load(Ordering::Relaxed)
    }

    /// Waits for a chunk, drains the queue, and detects the end.
    async fn read(&mut self) -> Result<(), EngineError> {
        let chunks = match &mut self.chunks {
            Chunks::Thread(chunks) => chunks,
            Chunks::Blocking(reader) => {
                let mut chunk = vec![0; CHUNK];
                let count = loop {
                    match reader.read(&mut chunk) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        read => break read.map_err(unreadable)?,
                    }
                };
                self.held.extend_from_slice(&chunk[..count]);
                self.ended = count == 0;
                return Ok(());
            }
        };
        match chunks.recv().await {
            Some(chunk) => self.held.extend_from_slice(&chunk.map_err(unreadable)?),
            None => self.ended = true,
        }
        while let Ok(chunk) = chunks.try_recv() {
            self.held.extend_from_slice(&chunk.map_err(unreadable)?);
        }
        Ok(())
    }

    /// Drains the queue and stops reading; returns whether there were any chunks.
    pub async fn stop(&mut self) -> Result<bool, EngineError> {
        self.is_stopped.store(true, Ordering::Relaxed);
        // The thread may be blocked in a read, or about to send a chunk.
        while !self.ended
            && let Ok(read) = tokio::time::timeout(LAST_WAIT, self.read()).await
        {
            read?;
        }
        Ok(!self.held.is_empty())
    }
}

/// Returns whether one of the lines is a complete record, of whatever format.
fn has_record(head: &[u8]) -> bool {
    let whole = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let is_record = |line: &[u8]| serde_json::from_slice::<IgnoredAny>(line).is_ok();
    lines(&head[..whole]).any(|line| is_record(line.bytes))
}

fn read_all(
    mut reader: impl Read,
    chunks: &mpsc::Sender<io::Result<Bytes>>,
    is_stopped: &AtomicBool,
) {
    let mut chunk = vec![0; CHUNK];
    // Available chunks are read, however soon the pipe is stopped.
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

/// The session and format of a pipe, as detected from its beginning.
#[derive(Clone, Debug)]
pub struct PipeInput {
    /// The session.
    pub id: SessionId,
    /// Where the id comes from.
    pub naming: IdOrigin,
    /// Its format.
    pub input: Detection,
    form: Form,
    spec: SourceSpec,
    /// The session has all of it already.
    pub(crate) is_repeated: bool,
    packed: PackedState,
}

impl PipeInput {
    /// Returns what of a compressed pipe is lost; known once it was read.
    pub fn loss(&self) -> Option<LostContent> {
        let reason = self.packed.loss()?;
        Some(LostContent { place: NAME.to_owned(), reason })
    }

    /// Returns whether a stored session had all of it already, so that nothing is stored again.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }
}

/// Stores everything that arrives on a pipe, until its end or until `stop` is done; what was read
/// by then is stored as well, including an unterminated line.
///
/// Chunks that arrive during a write are batched into the next one: one disk write for many
/// deltas. Every stream is a separate part.
pub async fn follow_pipe(
    session: &mut Session,
    input: &PipeInput,
    mut pipe: Pipe,
    stop: impl Future<Output = ()>,
) -> Result<(), EngineError> {
    if input.is_repeated {
        return Ok(());
    }
    let mut stop = pin!(stop);
    let spec = &input.spec;
    let source = match session.fold().source(spec) {
        Some(_) => session.new_part(spec).await?,
        None => session.source(spec).await?,
    };
    let mut cutter = Cutter::new(source);
    let mut failure = None;
    let mut is_stopped = pipe.is_over() && !pipe.ended;
    loop {
        let mut records = Vec::new();
        if input.form == Form::Document {
            let bytes = pipe.held.split().freeze();
            records.push(Record::new(RecordKind::Document, source, 0, bytes));
        } else {
            cutter.push(&pipe.held.split(), &mut records);
        }
        match (pipe.ended, is_stopped) {
            (true, _) => cutter.finish(&mut records),
            (false, true) => records.extend(cutter.unfinished()),
            (false, false) => {}
        }
        session.accept_in_batches(records).await?;
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
            failure = Some(error);
            pipe.ended = true;
        }
    }
    if pipe.ended {
        let end = Record::new(RecordKind::End, source, cutter.end(), "");
        session.accept(vec![end]).await?;
    }
    failure.map_or(Ok(()), Err)
}

fn unreadable(source: io::Error) -> EngineError {
    EngineError::File { path: PathBuf::from(NAME), source }
}

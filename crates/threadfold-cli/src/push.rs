//! Sends a stream to a server: everything once, whatever happens to the connection.

mod input;
mod spool;

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use bytes::Bytes;
use threadfold_client::{Client, ClientError, Pauses, PushOutcome};
use uuid::Uuid;

use crate::error::{CommandError, print_note};
use crate::view::size;
use input::Input;
use spool::Spool;

/// How many bytes one request has, if a line is not longer.
const PORTION: usize = 1 << 20;
/// The longest line that is sent.
const LONGEST_LINE: usize = 48 << 20;

/// What is pushed, and where to.
pub(crate) struct PushOptions {
    pub(crate) url: String,
    pub(crate) session: Option<String>,
    pub(crate) stream: Option<String>,
    pub(crate) position: u64,
    pub(crate) patience: Duration,
}

/// Sends standard input to a server.
pub(crate) struct Push {
    client: Client,
    options: PushOptions,
    stream: String,
    input: Input,
    spool: Spool,
    pauses: Pauses,
    /// A failure was reported, and no success since.
    is_failing: bool,
}

/// What is sent next.
struct Portion {
    bytes: Bytes,
    is_end: bool,
}

impl Push {
    pub(crate) fn new(client: Client, options: PushOptions) -> Result<Self, CommandError> {
        let stream = options.stream.clone();
        let stream = stream.unwrap_or_else(|| Uuid::new_v4().simple().to_string());
        let spool = Spool::new(&stream, options.position)?;
        let (input, pauses) = (Input::start(), Pauses::default());
        Ok(Self { client, options, stream, input, spool, pauses, is_failing: false })
    }

    /// Sends everything until the input ends and the server has all of it.
    pub(crate) async fn run(mut self) -> Result<(), CommandError> {
        let session = match self.options.session.clone() {
            Some(session) => session,
            None => self
                .input
                .name_session(&mut self.spool)
                .await?
                .unwrap_or_else(|| self.stream.clone()),
        };
        if self.input.is_ended() && self.spool.length() == 0 {
            print_note("there is nothing to push: the input is empty");
            return Err(CommandError::No);
        }
        let mut stop = pin!(crate::stop::stop());
        let mut is_stopped = false;
        let mut ended_at = None;
        loop {
            if self.input.is_ended() {
                let since: &mut Instant = ended_at.get_or_insert_with(Instant::now);
                if since.elapsed() > self.options.patience {
                    return self.give_up(&session, anyhow!("the server could not be reached"));
                }
            }
            let Some(portion) = self.portion()? else {
                if self.spool.is_finished() {
                    return self.spool.remove();
                }
                tokio::select! {
                    read = self.input.read(&mut self.spool) => read?,
                    stopped = &mut stop, if !is_stopped => {
                        stopped?;
                        is_stopped = true;
                        self.input.end();
                    }
                }
                continue;
            };
            let sent = self.send(&session, &portion, is_stopped, stop.as_mut()).await?;
            match sent {
                SendOutcome::Stopped => {
                    is_stopped = true;
                    self.input.end();
                }
                SendOutcome::Done(Ok(outcome)) => {
                    self.note_success();
                    self.spool.advance_to(outcome.position, portion.is_end)?;
                }
                SendOutcome::Done(Err(error)) => match self.spool.recovers(&error) {
                    true => {}
                    false if error.is_temporary() => {
                        self.note_failure(&error);
                        if is_stopped {
                            return self.give_up(&session, anyhow::Error::new(error));
                        }
                        let mut pause = pin!(tokio::time::sleep(self.pauses.next_pause()));
                        loop {
                            tokio::select! {
                                () = &mut pause => break,
                                read = self.input.read(&mut self.spool) => read?,
                            }
                        }
                    }
                    false => return self.give_up(&session, anyhow::Error::new(error)),
                },
            }
        }
    }

    /// Returns complete lines to send; at the end of the input, the rest.
    fn portion(&mut self) -> Result<Option<Portion>, CommandError> {
        let is_ended = self.input.is_ended();
        if self.spool.is_finished() {
            return Ok(None);
        }
        let mut most = PORTION;
        loop {
            let bytes = self.spool.front(most)?;
            let is_all = bytes.len() as u64 == self.spool.length();
            if is_all && is_ended {
                return Ok(Some(Portion { bytes, is_end: true }));
            }
            if let Some(end) = bytes.iter().rposition(|it| *it == b'\n') {
                return Ok(Some(Portion { bytes: bytes.slice(..=end), is_end: false }));
            }
            if is_all || bytes.is_empty() {
                return Ok(None);
            }
            if most >= LONGEST_LINE {
                return Err(CommandError::new(
                    anyhow!("a line has more than {}", size(LONGEST_LINE)),
                    "such a stream can be imported from a file on the server",
                ));
            }
            most = (most * 4).min(LONGEST_LINE);
        }
    }

    /// Sends a portion, and reads on meanwhile.
    async fn send(
        &mut self,
        session: &str,
        portion: &Portion,
        is_stopped: bool,
        mut stop: std::pin::Pin<&mut impl Future<Output = Result<(), CommandError>>>,
    ) -> Result<SendOutcome, CommandError> {
        let (client, stream) = (self.client.clone(), self.stream.clone());
        let (position, bytes, is_end) =
            (self.spool.position(), portion.bytes.clone(), portion.is_end);
        let mut sending = pin!(client.push(session, &stream, position, bytes, is_end));
        loop {
            tokio::select! {
                sent = &mut sending => return Ok(SendOutcome::Done(sent)),
                read = self.input.read(&mut self.spool), if !self.input.is_ended() => read?,
                stopped = &mut stop, if !is_stopped => {
                    stopped?;
                    return Ok(SendOutcome::Stopped);
                }
            }
        }
    }

    fn note_success(&mut self) {
        self.pauses.reset();
        if std::mem::take(&mut self.is_failing) {
            print_note("the server answers again");
        }
    }

    fn note_failure(&mut self, error: &ClientError) {
        if !std::mem::replace(&mut self.is_failing, true) {
            print_note(format_args!("{error}: trying again, and holding what comes meanwhile"));
        }
    }

    /// Keeps what was not sent in a file, and reports how to send it.
    fn give_up(mut self, session: &str, error: anyhow::Error) -> Result<(), CommandError> {
        let file = self.spool.keep()?;
        let (url, stream, position) = (&self.options.url, &self.stream, self.spool.position());
        Err(CommandError::new(
            error,
            format!(
                "what was not sent is in `{file}`; send it with `threadfold push --url {url} \
                 --session {session} --stream {stream} --position {position} < {file}`",
                file = file.display()
            ),
        ))
    }
}

/// What became of a request.
enum SendOutcome {
    Done(Result<PushOutcome, ClientError>),
    /// The user stopped the program meanwhile.
    Stopped,
}

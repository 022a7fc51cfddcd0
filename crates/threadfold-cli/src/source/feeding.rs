//! Bytes on their way through a converter, whichever agent they are of.

use std::fs;
use std::io::{self, Cursor, Read};
use std::path::Path;

use anyhow::anyhow;
use threadfold_convert::lines::{LineBuffer, LineOrLoss};
use threadfold_convert::opencode::OpencodeConverter;
use threadfold_convert::{Agent, Converter, Feed, FeedKind, Record, TooLong, converter};
use threadfold_core::SessionEvent;

use super::unreadable;
use crate::error::CommandError;

/// What is done with an event and the line it came from.
pub(crate) type Each<'a> = dyn FnMut(u64, &SessionEvent) -> Result<(), CommandError> + 'a;

/// Returns a converter for a session of `agent`; one that is named is the only one it listens to.
pub(crate) fn converter_of(agent: Agent, session: Option<&str>) -> Box<dyn Converter> {
    match session {
        Some(session) if agent == Agent::Opencode => {
            Box::new(OpencodeConverter::of_session(session))
        }
        _ => converter(agent),
    }
}

/// Bytes on their way through a converter.
pub(super) struct Feeding<'a> {
    agent: Agent,
    session: Option<String>,
    converter: Box<dyn Converter>,
    each: &'a mut Each<'a>,
    events: u64,
    failed: Option<CommandError>,
}

impl<'a> Feeding<'a> {
    /// Begins with nothing heard. A session that is named is the only one that is listened to.
    pub(super) fn new(agent: Agent, session: Option<String>, each: &'a mut Each<'a>) -> Self {
        let converter = converter_of(agent, session.as_deref());
        Self { agent, session, converter, each, events: 0, failed: None }
    }

    /// Says whether there was anything of the session that was asked for.
    pub(super) fn end(self, name: &str) -> Result<(), CommandError> {
        match self.session {
            Some(session) if self.events == 0 => Err(CommandError::new(
                anyhow!("{name} holds nothing of session `{session}`"),
                "without `--session` the first session of the input is taken",
            )),
            _ => Ok(()),
        }
    }

    /// Feeds lines.
    pub(super) fn all(
        &mut self,
        kind: FeedKind,
        name: &str,
        reader: &mut dyn Read,
    ) -> Result<(), CommandError> {
        let feed = Feed::new(self.agent, kind, name);
        let mut buffer = LineBuffer::default();
        let mut chunk = vec![0; 256 * 1024];
        let mut events = Vec::new();
        loop {
            let count = match reader.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(|error| unreadable(name, error))?,
            };
            if count == 0 {
                break;
            }
            buffer.push(&chunk[..count], |line| self.line(&feed, line, &mut events));
            self.failed.take().map_or(Ok(()), Err)?;
        }
        buffer.finish(|line| self.line(&feed, line, &mut events));
        self.failed.take().map_or(Ok(()), Err)?;
        self.finish(&feed)
    }

    /// Feeds one record; more of the same source may follow.
    pub(super) fn record(
        &mut self,
        feed: &Feed,
        line: u64,
        bytes: &[u8],
    ) -> Result<(), CommandError> {
        let mut events = Vec::new();
        self.converter.push(&Record { feed, line, bytes }, &mut events);
        self.hand_on(line, &mut events);
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Says that a source is at its end.
    pub(super) fn finish(&mut self, feed: &Feed) -> Result<(), CommandError> {
        let mut events = Vec::new();
        self.converter.finish(feed, &mut events);
        self.hand_on(0, &mut events);
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Feeds a file that is one record.
    pub(super) fn note(&mut self, kind: FeedKind, path: &Path) -> Result<(), CommandError> {
        let name = format!("`{}`", path.display());
        let bytes = fs::read(path).map_err(|error| unreadable(&name, error))?;
        let feed = Feed::new(self.agent, kind, &path.to_string_lossy());
        self.record(&feed, 1, &bytes)
    }

    /// Feeds the files that stood in one.
    pub(super) fn files(&mut self, files: Vec<(String, Vec<u8>)>) -> Result<(), CommandError> {
        for (name, bytes) in files {
            let agent = name.strip_prefix("agent-").and_then(|rest| rest.strip_suffix(".jsonl"));
            let kind = agent.map_or(FeedKind::Main, |agent| FeedKind::Subagent(agent.into()));
            self.all(kind, &name, &mut Cursor::new(bytes))?;
        }
        Ok(())
    }

    fn line(&mut self, feed: &Feed, line: LineOrLoss<'_>, events: &mut Vec<SessionEvent>) {
        if self.failed.is_some() {
            return;
        }
        let number = match line {
            LineOrLoss::Line(line) => {
                let record = Record { feed, line: line.number, bytes: line.bytes };
                self.converter.push(&record, events);
                line.number
            }
            LineOrLoss::TooLong { number, length, head, .. } => {
                self.converter.too_long(&TooLong { feed, line: number, length, head }, events);
                number
            }
        };
        self.hand_on(number, events);
    }

    fn hand_on(&mut self, line: u64, events: &mut Vec<SessionEvent>) {
        for event in events.drain(..) {
            self.events += 1;
            if self.failed.is_none() {
                self.failed = (self.each)(line, &event).err();
            }
        }
    }
}

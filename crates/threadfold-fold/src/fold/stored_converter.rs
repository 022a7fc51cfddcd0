//! A converter whose memory is still in a snapshot: it is read when the first record comes.
//!
//! Whoever looks at a session converts nothing, and the memory may be as large as the input.

use std::io;
use std::sync::{Arc, OnceLock};

use threadfold_convert::{Agent, Converter, EndProgress, Feed, FeedLine, TooLong};
use threadfold_core::{Json, SessionEvent, SessionId, SpillStore};

use super::snapshot::ConverterItem;
use crate::snapshot::TextRange;

/// A converter whose memory is read on first use.
pub(super) struct StoredConverter {
    agent: Agent,
    session: Option<SessionId>,
    text: Arc<dyn SpillStore>,
    item: TextRange,
    resumed: OnceLock<Box<dyn Converter>>,
}

impl StoredConverter {
    pub(super) fn new(
        agent: Agent,
        session: Option<SessionId>,
        text: Arc<dyn SpillStore>,
        item: TextRange,
    ) -> Self {
        Self { agent, session, text, item, resumed: OnceLock::new() }
    }

    /// Returns the memory; nothing if the text cannot be read, which its owner finds out.
    fn read(&self) -> Option<Json> {
        let length = usize::try_from(self.item.length).ok()?;
        let bytes = self.text.fetch(self.item.place, length)?;
        let item: Option<ConverterItem> = serde_json::from_slice(&bytes).ok();
        if item.is_none() {
            self.text.report_corruption(self.item.place);
        }
        item.map(|it| it.memory)
    }

    fn resume(&self) -> Box<dyn Converter> {
        let resumed = self.read().and_then(|memory| {
            let resumed = self.agent.resume_converter(&memory).ok();
            if resumed.is_none() {
                self.text.report_corruption(self.item.place);
            }
            resumed
        });
        // Without its memory the session cannot be continued, and the owner of the text knows.
        resumed.unwrap_or_else(|| self.agent.converter())
    }

    fn resumed(&mut self) -> &mut Box<dyn Converter> {
        if self.resumed.get().is_none() {
            let resumed = self.resume();
            self.resumed.get_or_init(|| resumed);
        }
        self.resumed.get_mut().expect("it was just resumed")
    }
}

impl Converter for StoredConverter {
    fn push(&mut self, line: &FeedLine<'_>, out: &mut Vec<SessionEvent>) {
        self.resumed().push(line, out);
    }

    fn finish_portion(&mut self, feed: &Feed, out: &mut Vec<SessionEvent>) -> EndProgress {
        self.resumed().finish_portion(feed, out)
    }

    fn too_long(&mut self, lost: &TooLong<'_>, out: &mut Vec<SessionEvent>) {
        self.resumed().too_long(lost, out);
    }

    fn session(&self) -> Option<SessionId> {
        match self.resumed.get() {
            Some(resumed) => resumed.session(),
            None => self.session.clone(),
        }
    }

    fn memory(&self) -> Json {
        match self.resumed.get() {
            Some(resumed) => resumed.memory(),
            None => self.read().unwrap_or_else(|| self.agent.converter().memory()),
        }
    }

    fn write_memory(&self, out: &mut dyn io::Write) -> io::Result<()> {
        match self.resumed.get() {
            Some(resumed) => resumed.write_memory(out),
            None => out.write_all(self.memory().as_str().as_bytes()),
        }
    }

    fn fork(&self) -> Box<dyn Converter> {
        if let Some(resumed) = self.resumed.get() {
            return resumed.fork();
        }
        let Self { agent, session, text, item, .. } = self;
        Box::new(Self::new(*agent, session.clone(), text.clone(), *item))
    }
}

//! One side of a comparison: the state that its records fold to, and what each record states.

use std::collections::{BTreeMap, BTreeSet};

use threadfold_convert::parity::Facts;
use threadfold_convert::{Agent, Bundle, Feed, FeedKind, FeedLine};
use threadfold_core::{BlockId, ConversationId, ConversationState, Payload, SessionId, reduce};

use super::file_order::{EarlyLines, in_stated_order};
use crate::fold::Fold;
use crate::record::{Record, RecordKind};
use crate::slice::Slices;
use crate::source::SourceSpec;

/// One side of a comparison.
#[derive(Clone, Debug)]
pub struct SideState {
    /// The state, as if every source ended here.
    pub state: ConversationState,
    /// What each record states.
    pub facts: Facts,
    /// The session that the records name.
    pub session: Option<SessionId>,
    /// How many events the records gave.
    pub events: usize,
    /// The stream is of a view that names nothing, and repeats no prompts.
    pub is_unnamed: bool,
    /// The blocks of lines that name nothing, where a stream has such lines and others: a session
    /// that was continued in another view.
    pub unnamed: BTreeSet<BlockId>,
    /// The blocks of lines that name nothing, with their conversations, in the order of the lines.
    /// Their names and with them their places in the state are those of the transcript, so the state
    /// does not show in which order the stream has them.
    pub arrival: Vec<(ConversationId, BlockId)>,
    /// The side with the lines of its files in the order that they state, if that is another one than
    /// the one in which they stand.
    pub in_stated_order: Option<Box<StatedOrder>>,
}

/// A side whose files have lines before the lines that they continue.
#[derive(Clone, Debug)]
pub struct StatedOrder {
    /// The side, with each of these lines after the one that it continues.
    pub side: SideState,
    /// The files.
    pub early_lines: Vec<EarlyLines>,
}

impl SideState {
    /// Folds the records of one side, including declarations and ends of sources.
    pub fn fold(agent: Agent, session: &SessionId, records: &[Record]) -> Self {
        let stated = in_stated_order(records).map(|(records, early_lines)| {
            Box::new(StatedOrder { side: Self::as_written(agent, session, &records), early_lines })
        });
        Self { in_stated_order: stated, ..Self::as_written(agent, session, records) }
    }

    fn as_written(agent: Agent, session: &SessionId, records: &[Record]) -> Self {
        let mut fold = Fold::new(session.clone(), Slices::default()).conversation_only();
        let mut events = 0;
        for record in records {
            let seq = fold.seq() + 1;
            events += fold.push(&record.clone().at(seq)).events.len();
        }
        let (asked, state, session) = (session, fold.settled(), fold.agent_session());
        let (unnamed, arrival) = (BTreeSet::new(), Vec::new());
        let (mut facts, is_unnamed) = (read_facts(agent, records), false);
        facts.name_session(asked.as_str());
        let in_stated_order = None;
        Self { state, facts, session, events, is_unnamed, unnamed, arrival, in_stated_order }
    }
}

impl SideState {
    /// Folds the records of a stream that is compared with a transcript.
    ///
    /// A stream that names nothing gets the names of the transcript: the converter reads the
    /// transcript first, and what that means is left out of the state.
    pub fn fold_stream(
        agent: Agent,
        session: &SessionId,
        stream: &[Record],
        transcript: &[Record],
    ) -> Self {
        let is_unnamed = |record: &Record| {
            record.kind == RecordKind::Line && agent.is_unnamed(record.bytes.trim_ascii())
        };
        if !stream.iter().any(is_unnamed) {
            return Self::fold(agent, session, stream);
        }
        let mut fold = Fold::new(session.clone(), Slices::default()).conversation_only();
        let mut push = |record: &Record| {
            let seq = fold.seq() + 1;
            fold.push(&record.clone().at(seq)).events
        };
        transcript.iter().for_each(|record| {
            push(record);
        });
        let (mut state, mut events) = (ConversationState::default(), 0);
        let (mut unnamed, mut is_mixed) = (BTreeSet::new(), false);
        let (mut arrival, mut arrived) = (Vec::new(), BTreeSet::new());
        for record in stream {
            let found = push(record);
            events += found.len();
            for event in &found {
                let conversation = event.context.conversation_id.clone();
                match &event.payload {
                    Payload::BlockUpsert(_) if !is_unnamed(record) => is_mixed = true,
                    Payload::BlockUpsert(upsert) => {
                        let block = (conversation, upsert.block.id.clone());
                        if arrived.insert(block.clone()) {
                            unnamed.insert(block.1.clone());
                            arrival.push(block);
                        }
                    }
                    // A further part of a block follows the parts before it.
                    Payload::BlockDelta(delta) if is_unnamed(record) => {
                        arrival.push((conversation, delta.block_id.clone()));
                    }
                    _ => {}
                }
            }
            state = found.iter().fold(state, reduce);
        }
        if !is_mixed {
            unnamed.clear();
        }
        let (session, facts) = (fold.agent_session(), read_facts(agent, stream));
        let (is_unnamed, in_stated_order) = (!is_mixed, None);
        Self { state, facts, session, events, is_unnamed, unnamed, arrival, in_stated_order }
    }
}

fn read_facts(agent: Agent, records: &[Record]) -> Facts {
    let mut reader = agent.fact_reader();
    let mut feeds: BTreeMap<u32, Feed> = BTreeMap::new();
    for record in records {
        if record.kind == RecordKind::Source {
            let spec: Option<SourceSpec> = serde_json::from_slice(&record.bytes).ok();
            let feed = spec.and_then(|spec| spec.feed("parity"));
            feeds.extend(feed.map(|feed| (record.source, feed)));
            continue;
        }
        let Some(feed) = feeds.get(&record.source) else { continue };
        let mut push = |feed: &Feed, bytes: &[u8]| {
            reader.push(&FeedLine { feed, number: 0, bytes: bytes.trim_ascii() });
        };
        match record.kind {
            RecordKind::Line | RecordKind::Partial => push(feed, &record.bytes),
            RecordKind::Document => {
                let may_be_packed = matches!(feed.kind, FeedKind::Main | FeedKind::Stream);
                match agent.unpack(&record.bytes).filter(|_| may_be_packed) {
                    Some(Bundle::Lines(lines)) => {
                        lines.split(|byte| *byte == b'\n').for_each(|line| push(feed, line));
                    }
                    Some(Bundle::Files(files)) => {
                        for file in &files {
                            let feed = Feed::new(agent, file.kind.clone(), "parity");
                            let lines = file.bytes.split(|byte| *byte == b'\n');
                            lines.for_each(|line| push(&feed, line));
                        }
                    }
                    None => push(feed, &record.bytes),
                }
            }
            _ => {}
        }
    }
    reader.finish()
}

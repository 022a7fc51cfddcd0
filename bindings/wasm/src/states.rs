//! States: apply events, read, hash, snapshot.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use threadfold_core::{
    Anomaly, BlockDelta, BlockId, Change, ConversationId, ConversationState, Outcome, Payload,
    SessionEvent, TextField,
};

use crate::engine::Engine;
use crate::input::{EventsFrame, Parts, each_event, find_state, text};
use crate::output::{EventAnomaly, join_texts};

/// The state changed, and the output has the changes.
const CHANGED: i32 = 1;
/// Something was odd, and `anomalies` has it.
const ODD: i32 = 2;
/// The change is the delta itself, so there is no output.
const APPENDED: i32 = 4;
/// The state may know more than before, although it shows the same.
const TOUCHED: i32 = 8;

/// Applies events, as lines or as a list, and writes the changes.
pub(crate) fn apply(engine: &mut Engine, handle: u32, input: &[u8]) -> Result<i32, String> {
    let events = text(input)?;
    let mut run = Run::default();
    let state = engine.state(handle)?;
    each_event(events, |event| run.apply(state, event))?;
    Ok(run.finish(engine))
}

/// Applies the events of a list of frames.
pub(crate) fn apply_frames(engine: &mut Engine, handle: u32, input: &[u8]) -> Result<i32, String> {
    let frames: Vec<EventsFrame<'_>> =
        serde_json::from_str(text(input)?).map_err(|error| error.to_string())?;
    let mut run = Run::default();
    let state = engine.state(handle)?;
    for frame in frames {
        each_event(frame.events.get(), |event| run.apply(state, event))?;
    }
    Ok(run.finish(engine))
}

/// Appends text to the content of a block: what most events are, without JSON on the way.
pub(crate) fn append_text(
    engine: &mut Engine,
    handle: u32,
    input: &[u8],
    (conversation, block): (usize, usize),
) -> Result<i32, String> {
    let mut parts = Parts::new(input);
    let (conversation, block) = (parts.text(conversation)?, parts.text(block)?);
    let delta = text(parts.rest())?;
    let payload = BlockDelta {
        block_id: block.into(),
        delta: delta.into(),
        field: TextField::Content,
        offset: None,
    };
    let event = SessionEvent::new(Payload::BlockDelta(payload)).within(conversation);
    let mut run = Run::default();
    run.reduce(engine.state(handle)?, &event);
    let is_delta = matches!(&run.changes[..], [Change::TextAppended { conversation_id, block_id, text, .. }]
        if conversation_id.as_str() == conversation && block_id.as_str() == block && **text == *delta);
    if is_delta {
        run.changes.clear();
        return Ok(run.finish(engine) | APPENDED);
    }
    Ok(run.finish(engine))
}

/// The events of one call.
#[derive(Default)]
struct Run {
    changes: Vec<Change>,
    anomalies: Vec<EventAnomaly>,
    index: usize,
    is_touched: bool,
}

impl Run {
    fn apply(&mut self, state: &mut ConversationState, event: &str) {
        match SessionEvent::from_json(event) {
            Ok(event) => self.reduce(state, &event),
            Err(error) => self.report(true, error.to_string()),
        }
        self.index += 1;
    }

    fn reduce(&mut self, state: &mut ConversationState, event: &SessionEvent) {
        let outcome = state.apply_with(event, &mut self.changes);
        self.is_touched |= may_touch(event, &outcome);
        match outcome {
            Outcome::Applied | Outcome::Unchanged => {}
            Outcome::Noted(anomaly) => self.report(false, anomaly.to_string()),
            Outcome::Ignored(anomaly) => self.report(true, anomaly.to_string()),
        }
    }

    fn report(&mut self, ignored: bool, message: String) {
        self.anomalies.push(EventAnomaly { index: self.index, ignored, message });
    }

    fn finish(mut self, engine: &mut Engine) -> i32 {
        let mut flags = 0;
        if !self.changes.is_empty() {
            flags |= CHANGED;
            if self.changes.len() > 1 {
                join_texts(&mut self.changes);
            }
            engine.write_json(&self.changes);
        }
        if !self.anomalies.is_empty() {
            flags |= ODD;
        }
        if self.is_touched {
            flags |= TOUCHED;
        }
        engine.anomalies = self.anomalies;
        flags
    }
}

/// Returns whether an event may have changed what the state knows. What it shows may be the same:
/// another source can confirm a block, and later events depend on that.
fn may_touch(event: &SessionEvent, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Applied | Outcome::Noted(_) => true,
        Outcome::Unchanged => event.payload.is_of_conversation(),
        // Whatever does not exist is looked for before anything is changed.
        Outcome::Ignored(anomaly) => !matches!(
            anomaly,
            Anomaly::UnknownEvent { .. }
                | Anomaly::UnknownConversation { .. }
                | Anomaly::UnknownBlock { .. }
                | Anomaly::UnknownRequest { .. }
                | Anomaly::UnknownText { .. }
                | Anomaly::UnknownCall { .. }
                | Anomaly::Gap { .. }
                | Anomaly::BadOffset { .. }
                | Anomaly::TextMismatch { .. }
        ),
    }
}

/// The whole state for a host that keeps it up to date with changes, which name conversations.
struct NamedState<'a>(&'a ConversationState);

impl Serialize for NamedState<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let subagents = self.0.subagents();
        let names: Vec<_> = subagents.iter().map(|it| it.conversation_id()).collect();
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("blocks", &self.0.blocks())?;
        map.serialize_entry("names", &names)?;
        map.serialize_entry("subagents", &subagents)?;
        map.end()
    }
}

/// Writes the whole state, with the names of its conversations.
pub(crate) fn read_named(engine: &mut Engine, handle: u32) -> Result<i32, String> {
    let state = engine.state(handle)?.clone();
    Ok(engine.write_json(&NamedState(&state)))
}

/// Writes the names of the subagents' conversations, in the order in which the state shows them.
pub(crate) fn read_order(engine: &mut Engine, handle: u32) -> Result<i32, String> {
    let state = engine.state(handle)?.clone();
    let names: Vec<_> = state.subagents().iter().map(|it| it.conversation_id()).collect();
    Ok(engine.write_json(&names))
}

/// Writes the name of a conversation's blocks, by any of the conversation's names; 1 if there is
/// no such subagent.
pub(crate) fn find_subagent(engine: &mut Engine, handle: u32, input: &[u8]) -> Result<i32, String> {
    let name = ConversationId::from(text(input)?);
    let found = engine.state(handle)?.subagent(&name).map(|it| it.conversation_id());
    Ok(match found {
        Some(name) => engine.write(name.as_str()),
        None => 1,
    })
}

/// Returns the position of a block in its conversation; −2 if there is none.
pub(crate) fn find_block(
    engine: &mut Engine,
    handle: u32,
    input: &[u8],
    conversation: usize,
) -> Result<i32, String> {
    let mut parts = Parts::new(input);
    let conversation = ConversationId::from(parts.text(conversation)?);
    let block = BlockId::from(text(parts.rest())?);
    let state = engine.state(handle)?;
    let position = state.conversation(&conversation).and_then(|it| it.position(&block));
    Ok(position.and_then(|it| i32::try_from(it).ok()).unwrap_or(-2))
}

/// Writes a block; 1 if there is none.
pub(crate) fn read_block(
    engine: &mut Engine,
    handle: u32,
    input: &[u8],
    conversation: usize,
) -> Result<i32, String> {
    let mut parts = Parts::new(input);
    let conversation = ConversationId::from(parts.text(conversation)?);
    let block = BlockId::from(text(parts.rest())?);
    let state = engine.state(handle)?.clone();
    let found = state.block(&conversation, &block);
    Ok(found.map_or(1, |block| engine.write_json(&*block)))
}

/// Returns the state of a snapshot.
pub(crate) fn restore(engine: &mut Engine, input: &[u8]) -> Result<i32, String> {
    let (facts, hash) = find_state(text(input)?)?;
    let facts = serde_json::from_str(facts).map_err(|error| error.to_string())?;
    let state = ConversationState::restore(&facts).map_err(|error| error.to_string())?;
    if let Some(wanted) = hash
        && wanted != state.hash().to_string()
    {
        return Err("the state of the snapshot has another hash than the snapshot names".to_owned());
    }
    Ok(engine.states.add(state))
}

//! Parity: compares the state of a stream with the state of the transcript of the same session.
//!
//! States are compared field by field. What the agent always reports on one side only is a known gap
//! ([`KnownGap`]); what one side lacks in some runs is a gap of the run ([`RunGap`]); everything
//! else is a difference.

mod file_order;
mod pair;
mod records;
mod replay;
mod run_gap;
mod side;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use threadfold_convert::Agent;
use threadfold_core::{Block, BlockId, ConversationId, ConversationState, Json};

use pair::{Pair, Run, Shared, Sides, collect_blocks, subagent_pairs};

pub use file_order::EarlyLines;
pub use replay::{Replay, replay};
pub use run_gap::RunGap;
pub use side::{SideState, StatedOrder};
use threadfold_convert::parity::FieldPlace;
pub use threadfold_convert::parity::{
    Facts, KnownGap, RecordName, Side, Versions, is_within, normalize,
};

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything that both sides can have is equal.
    Equal,
    /// One side lacks something for a known reason; everything else is equal.
    Partial,
    /// Something differs.
    Different,
}

/// The comparison of a stream's state with a transcript's.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// How many blocks both sides have.
    pub blocks: usize,
    /// How many subagents both sides have.
    pub subagents: usize,
    /// How many fields were compared.
    pub fields: usize,
    /// The differences.
    pub differences: Vec<Difference>,
    /// How many differences each known gap explains, by its name.
    pub explained: BTreeMap<&'static str, usize>,
    /// What one side lacks in a run like this, with the number of differences.
    pub lacking: BTreeMap<RunGap, usize>,
    /// The files whose lines were compared in the order of their parents, because they stand in another
    /// one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub early_lines: Vec<EarlyLines>,
    /// Fields of records that one side has and no known gap names, as `record.field`, with their number.
    ///
    /// A newer version may add them. They are reported, and do not decide the verdict.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unlisted: BTreeMap<String, usize>,
    /// Blocks that one side lacks for a known reason.
    #[serde(skip)]
    lacking_blocks: BTreeSet<BlockId>,
    /// Subagents of which the stream lacks what they did after their caller was interrupted.
    #[serde(skip)]
    unfinished: BTreeSet<ConversationId>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The conversation.
    pub conversation: ConversationId,
    /// The block; none for a field of the subagent itself, or the order of blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockId>,
    /// The field; `block` if a whole block is on one side only, `order` if the blocks are in
    /// different orders.
    pub field: String,
    /// The stream's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<Json>,
    /// The transcript's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<Json>,
}

impl Comparison {
    /// Adds what a replay found, so that its differences decide the verdict and are listed.
    pub fn add_replay(&mut self, replay: &Replay) {
        let mut add = |conversation: ConversationId, block: Option<BlockId>, field: &str| {
            let (stream, transcript) = (None, None);
            let field = field.to_owned();
            self.differences.push(Difference { conversation, block, field, stream, transcript });
        };
        for records in &replay.astray {
            add(ConversationId::main(), None, &format!("merge after {records} records"));
        }
        for conversation in &replay.out_of_order {
            add(conversation.as_str().into(), None, "merge order");
        }
        for block in &replay.lost {
            add(ConversationId::main(), Some(block.clone()), "merge lost");
        }
    }

    /// Returns the result.
    pub fn verdict(&self) -> Verdict {
        match (self.differences.is_empty(), self.lacking.is_empty()) {
            (false, _) => Verdict::Different,
            (true, false) => Verdict::Partial,
            (true, true) => Verdict::Equal,
        }
    }
}

/// Compares the records of a stream with those of a transcript: the states that they fold to, and
/// what each record states.
///
/// A file with lines before the lines that they continue is compared in the order that its lines
/// state, if its version may write such files and the stream has that order and not the one in which
/// they stand.
pub fn compare_sides(agent: Agent, stream: &SideState, transcript: &SideState) -> Comparison {
    let as_written = compare_as_folded(agent, stream, transcript);
    let Some(stated) = &transcript.in_stated_order else { return as_written };
    let run = Run::new(agent, stream, transcript);
    if as_written.verdict() == Verdict::Equal || !agent.disorders_lines(run.version.as_deref()) {
        return as_written;
    }
    let mut comparison = compare_as_folded(agent, stream, &stated.side);
    // What is out of order may look like something that one side lacks.
    let amount = |it: &Comparison| (it.differences.len(), it.lacking.values().sum::<usize>());
    if amount(&comparison) >= amount(&as_written) {
        return as_written;
    }
    let lines = stated.early_lines.iter().map(|it| it.lines).sum();
    comparison.lacking.insert(RunGap::FileOrder, lines);
    comparison.early_lines.clone_from(&stated.early_lines);
    comparison
}

fn compare_as_folded(agent: Agent, stream: &SideState, transcript: &SideState) -> Comparison {
    let run = Run::new(agent, stream, transcript);
    let mut comparison = compare_states(&run, &stream.state, &transcript.state);
    records::compare_facts(&mut comparison, agent, &stream.facts, &transcript.facts);
    comparison
}

/// Compares the state of a stream with the state of a transcript.
///
/// Without the records nothing is known about how the run ended, so what one side lacks is a
/// difference if only a kill would explain it.
pub fn compare(
    agent: Agent,
    stream: &ConversationState,
    transcript: &ConversationState,
) -> Comparison {
    compare_states(&Run::unknown(agent), stream, transcript)
}

fn compare_states(
    run: &Run,
    stream: &ConversationState,
    transcript: &ConversationState,
) -> Comparison {
    let mut comparison = Comparison::default();
    let main = Pair {
        run,
        name: ConversationId::main(),
        depth: 0,
        stream: Some(stream.blocks()),
        transcript: Some(transcript.blocks()),
        headers: [None, None],
    };
    let mut pairs = vec![main];
    pairs.extend(subagent_pairs(run, stream, transcript));
    let shared = Shared::new(&pairs);
    for pair in &pairs {
        compare_pair(&mut comparison, pair, &shared);
    }
    comparison
}

fn compare_pair(comparison: &mut Comparison, pair: &Pair<'_>, shared: &Shared) {
    let [streamed, stored] = &pair.headers;
    if let (Some(streamed), Some(stored)) = (streamed, stored) {
        comparison.subagents += 1;
        compare_fields(comparison, (pair, shared), None, &object(streamed), &object(stored));
    }
    let stream: Vec<Block> = collect_blocks(pair.stream.as_ref());
    let transcript: Vec<Block> = collect_blocks(pair.transcript.as_ref());
    let sides = Sides::new(pair, &stream, &transcript, shared);
    for stored in &transcript {
        match sides.in_stream.get(&stored.id) {
            Some(twin) => {
                comparison.blocks += 1;
                let block = Some((&sides, &stored.id));
                let fields = (&object(twin), &object(stored));
                compare_fields(comparison, (pair, shared), block, fields.0, fields.1);
            }
            None => add_one_sided(comparison, &sides, stored, Side::Transcript),
        }
    }
    for block in &stream {
        if !sides.in_transcript.contains_key(&block.id) {
            add_one_sided(comparison, &sides, block, Side::Stream);
        }
    }
    compare_order(comparison, pair, &stream, &transcript, &sides);
}

/// Adds a block on one side only: as explained, as lacking, or as a difference.
///
/// Known gaps come first: they hold in every run, while a gap of the run only excuses this one.
fn add_one_sided(comparison: &mut Comparison, sides: &Sides<'_>, block: &Block, side: Side) {
    let agent = sides.pair.run.agent;
    if let Some(gap) = agent.explain_block(&sides.place(block), block, side) {
        *comparison.explained.entry(gap).or_default() += 1;
    } else if let Some(gap) = run_gap::of(sides, block, side) {
        *comparison.lacking.entry(gap).or_default() += 1;
        comparison.lacking_blocks.insert(block.id.clone());
        if gap == RunGap::AfterInterruption {
            comparison.unfinished.insert(sides.pair.name.clone());
        }
    } else {
        let json = Json::of(block);
        comparison.differences.push(Difference {
            conversation: sides.pair.name.clone(),
            block: Some(block.id.clone()),
            field: "block".into(),
            stream: (side == Side::Stream).then(|| json.clone()),
            transcript: (side == Side::Transcript).then_some(json),
        });
    }
}

/// Returns the fields of a block or header, with those of its metadata as `metadata.<name>`, so that
/// known gaps can name them.
fn object<T: Serialize>(value: &T) -> BTreeMap<String, Json> {
    let json = Json::of(value);
    let fields: threadfold_core::Fields =
        serde_json::from_str(json.as_str()).expect("blocks and headers are objects");
    let mut flat = BTreeMap::new();
    for (name, value) in fields.iter() {
        if name == "metadata" {
            let inner: threadfold_core::Fields =
                serde_json::from_str(value.as_str()).expect("metadata is an object");
            flat.extend(inner.iter().map(|(key, it)| (format!("metadata.{key}"), it.clone())));
        } else if name != "conversationId" {
            // Conversations are compared in pairs, whichever of their names each side used first.
            flat.insert(name.to_owned(), value.clone());
        }
    }
    flat
}

fn compare_fields(
    comparison: &mut Comparison,
    (pair, shared): (&Pair<'_>, &Shared),
    block: Option<(&Sides<'_>, &BlockId)>,
    stream: &BTreeMap<String, Json>,
    transcript: &BTreeMap<String, Json>,
) {
    let names: BTreeSet<&String> = stream.keys().chain(transcript.keys()).collect();
    let block_type = transcript.get("type");
    for name in names {
        comparison.fields += 1;
        let (streamed, stored) = (stream.get(name), transcript.get(name));
        if streamed == stored {
            continue;
        }
        let is_only_stored = streamed.is_none() && stored.is_some();
        let gap = is_only_stored
            .then(|| pair.run.agent.explain_field(block_type, name, pair.run.version.as_deref()))
            .flatten();
        if let Some(gap) = gap {
            *comparison.explained.entry(gap).or_default() += 1;
            continue;
        }
        let place = FieldPlace {
            blocks: block.and_then(|(sides, id)| {
                Some((*sides.in_stream.get(id)?, *sides.in_transcript.get(id)?))
            }),
            field: name,
            side: match (streamed, stored) {
                (Some(_), Some(_)) => None,
                (Some(_), None) => Some(Side::Stream),
                _ => Some(Side::Transcript),
            },
            depth: pair.depth,
            has_prompts: shared.has_prompts(pair, block.map(|(_, id)| id)),
            version: pair.run.version.as_deref(),
            history: pair.run.history.as_deref(),
        };
        if let Some(gap) = pair.run.agent.explain_place(&place) {
            *comparison.explained.entry(gap).or_default() += 1;
            continue;
        }
        let gap = match block {
            Some((sides, id)) => run_gap::of_field(sides, id, name),
            None => gap_of_header(pair, shared, name, stored),
        };
        if let Some(gap) = gap {
            *comparison.lacking.entry(gap).or_default() += 1;
            continue;
        }
        // The file may end before the call that started this subagent.
        let has_no_call = !transcript.contains_key("toolUseId") && block.is_none();
        let lost = run_gap::lost_end(pair.run).filter(|_| has_no_call && stored.is_none());
        if let Some(gap) = lost {
            *comparison.lacking.entry(gap).or_default() += 1;
            continue;
        }
        comparison.differences.push(Difference {
            conversation: pair.name.clone(),
            block: block.map(|(_, id)| id.clone()),
            field: name.clone(),
            stream: streamed.cloned(),
            transcript: stored.cloned(),
        });
    }
}

/// Returns the known reason why only the stream has a field of a subagent: the file lacks the result
/// of its call.
fn gap_of_header(
    pair: &Pair<'_>,
    shared: &Shared,
    name: &str,
    stored: Option<&Json>,
) -> Option<RunGap> {
    let call = pair.headers[1].as_ref()?.tool_use_id.as_ref()?;
    if name == "agentId" {
        return run_gap::unreported_agent(pair.run, call.as_str());
    }
    let is_outcome = matches!(name, "output" | "durationMs") && stored.is_none();
    let is_outcome = is_outcome || name == "status";
    run_gap::lost_outcome(pair.run, shared, &BlockId::from(call)).filter(|_| is_outcome)
}

/// Compares the order of the blocks that both sides have.
fn compare_order(
    comparison: &mut Comparison,
    pair: &Pair<'_>,
    stream: &[Block],
    transcript: &[Block],
    sides: &Sides<'_>,
) {
    let common = |blocks: &[Block], other: &BTreeMap<&BlockId, &Block>| -> Vec<BlockId> {
        blocks.iter().map(|it| it.id.clone()).filter(|id| other.contains_key(id)).collect()
    };
    let streamed = common(stream, &sides.in_transcript);
    let stored = common(transcript, &sides.in_stream);
    compare_arrival(comparison, pair, &stored);
    if streamed != stored {
        // Calls that run at once are streamed as they start, which is a race.
        let parallel = &pair.run.parallel_calls;
        if in_groups(&streamed, parallel) == in_groups(&stored, parallel) {
            *comparison.lacking.entry(RunGap::ParallelOrder).or_default() += 1;
            return;
        }
        comparison.differences.push(Difference {
            conversation: pair.name.clone(),
            block: None,
            field: "order".into(),
            stream: Some(Json::of(&streamed)),
            transcript: Some(Json::of(&stored)),
        });
    }
}

/// Compares the order of the lines of a view that names nothing with the order of the blocks that the
/// transcript has for them.
///
/// A result arrives when its call ends, and stands after the call.
fn compare_arrival(comparison: &mut Comparison, pair: &Pair<'_>, stored: &[BlockId]) {
    let arrival = pair.arrival();
    let is_result = |id: &BlockId| id.as_str().starts_with("result:");
    let known: BTreeSet<&BlockId> = stored.iter().collect();
    let reported: BTreeSet<&BlockId> = arrival.iter().copied().collect();
    let arrived = arrival.into_iter().filter(|it| known.contains(it) && !is_result(it));
    let mut arrived: Vec<BlockId> = arrived.cloned().collect();
    arrived.dedup();
    let stored = stored.iter().filter(|it| reported.contains(it) && !is_result(it));
    let stored: Vec<BlockId> = stored.cloned().collect();
    let parallel = &pair.run.parallel_calls;
    if in_groups(&arrived, parallel) != in_groups(&stored, parallel) {
        comparison.differences.push(Difference {
            conversation: pair.name.clone(),
            block: None,
            field: "order".into(),
            stream: Some(Json::of(&arrived)),
            transcript: Some(Json::of(&stored)),
        });
    }
}

/// Returns blocks in an order that does not depend on which of parallel calls came first.
fn in_groups(blocks: &[BlockId], parallel: &[BTreeSet<String>]) -> Vec<BlockId> {
    let group = |id: &BlockId| {
        let call = id.as_str().strip_prefix("result:").unwrap_or(id.as_str());
        parallel.iter().position(|calls| calls.contains(call))
    };
    let mut ordered = blocks.to_vec();
    for run in ordered.chunk_by_mut(|a, b| group(a).is_some() && group(a) == group(b)) {
        run.sort();
    }
    ordered
}

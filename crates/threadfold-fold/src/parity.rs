//! Parity: compares the state of a stream with the state of the transcript of the same session.
//!
//! States are compared field by field. What the agent reports on one side only is covered by rules
//! ([`Rule`]); what one side lacks in some runs is named ([`Lack`]); everything else is a
//! difference.

mod lack;
mod pair;
mod replay;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use threadfold_convert::Agent;
use threadfold_convert::parity::Side;
use threadfold_core::{Block, BlockId, ConversationId, ConversationState, Json};

use pair::{Pair, Sides, collect_blocks, subagent_pairs};

pub use lack::Lack;
pub use replay::{Replay, replay};
pub use threadfold_convert::parity::Rule;

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
    /// How many differences each rule explains, by the rule's name.
    pub explained: BTreeMap<&'static str, usize>,
    /// What one side lacks in a run like this, with the number of differences.
    pub lacking: BTreeMap<Lack, usize>,
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
    /// Returns the result.
    pub fn verdict(&self) -> Verdict {
        match (self.differences.is_empty(), self.lacking.is_empty()) {
            (false, _) => Verdict::Different,
            (true, false) => Verdict::Partial,
            (true, true) => Verdict::Equal,
        }
    }
}

/// Compares the state of a stream with the state of a transcript.
pub fn compare(
    agent: Agent,
    stream: &ConversationState,
    transcript: &ConversationState,
) -> Comparison {
    let mut comparison = Comparison::default();
    let main = Pair {
        agent,
        name: ConversationId::main(),
        depth: 0,
        stream: Some(stream.blocks()),
        transcript: Some(transcript.blocks()),
        headers: [None, None],
    };
    let mut pairs = vec![main];
    pairs.extend(subagent_pairs(agent, stream, transcript));
    let earlier = lack::earlier_calls(&pairs[0]);
    for pair in &pairs {
        compare_pair(&mut comparison, pair, &earlier);
    }
    comparison
}

fn compare_pair(comparison: &mut Comparison, pair: &Pair<'_>, earlier: &BTreeSet<BlockId>) {
    let [streamed, stored] = &pair.headers;
    if let (Some(streamed), Some(stored)) = (streamed, stored) {
        comparison.subagents += 1;
        compare_fields(comparison, pair, None, &object(streamed), &object(stored));
    }
    let stream: Vec<Block> = collect_blocks(pair.stream);
    let transcript: Vec<Block> = collect_blocks(pair.transcript);
    let sides = Sides::new(pair, &stream, &transcript, earlier);
    for stored in &transcript {
        match sides.in_stream.get(&stored.id) {
            Some(twin) => {
                comparison.blocks += 1;
                let block = Some((&sides, &stored.id));
                compare_fields(comparison, pair, block, &object(twin), &object(stored));
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
/// Rules come first: they hold in every run, while a lack only excuses this one.
fn add_one_sided(comparison: &mut Comparison, sides: &Sides<'_>, block: &Block, side: Side) {
    if let Some(rule) = sides.pair.agent.explain_block(&sides.pair.place(), block, side) {
        *comparison.explained.entry(rule).or_default() += 1;
    } else if let Some(lack) = lack::of(sides, block, side) {
        *comparison.lacking.entry(lack).or_default() += 1;
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
/// rules can name them.
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
        } else {
            flat.insert(name.to_owned(), value.clone());
        }
    }
    flat
}

fn compare_fields(
    comparison: &mut Comparison,
    pair: &Pair<'_>,
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
        let rule = is_only_stored.then(|| pair.agent.explain_field(block_type, name)).flatten();
        if let Some(rule) = rule {
            *comparison.explained.entry(rule).or_default() += 1;
            continue;
        }
        if let Some(lack) = block.and_then(|(sides, id)| lack::of_field(sides, id, name, stored)) {
            *comparison.lacking.entry(lack).or_default() += 1;
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
    if streamed != stored {
        comparison.differences.push(Difference {
            conversation: pair.name.clone(),
            block: None,
            field: "order".into(),
            stream: Some(Json::of(&streamed)),
            transcript: Some(Json::of(&stored)),
        });
    }
}

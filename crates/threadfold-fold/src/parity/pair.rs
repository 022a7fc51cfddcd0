//! Pairs of conversations: each conversation of a stream with that of the transcript.

use std::collections::{BTreeMap, BTreeSet};

use threadfold_convert::Agent;
use threadfold_convert::parity::{BlockPlace, Facts, PlaceNotice, PlaceRun};
use threadfold_core::{
    Block, BlockBody, BlockId, Blocks, Content, ConversationId, ConversationState, SubagentHeader,
    SubagentRef, ToolUseId,
};

use super::SideState;

/// The two sides of one conversation.
pub(super) struct Pair<'a> {
    pub(super) run: &'a Run,
    pub(super) name: ConversationId,
    /// The depth of nesting; 0 for the main conversation.
    pub(super) depth: usize,
    pub(super) stream: Option<Blocks<'a>>,
    pub(super) transcript: Option<Blocks<'a>>,
    /// The subagent's header in the stream and in the transcript.
    pub(super) headers: [Option<SubagentHeader>; 2],
}

/// What the records state about the run as a whole.
pub(super) struct Run {
    pub(super) agent: Agent,
    pub(super) version: Option<String>,
    /// The stream shows that the run was cut off: it began, and did not report its end.
    pub(super) was_cut_off: bool,
    /// The run was killed: it was cut off, and neither side shows that it came to its end.
    pub(super) was_killed: bool,
    /// What known gaps may ask about the run.
    about: PlaceRun,
    /// A signal interrupted the agent, which reported that and exited.
    pub(super) was_interrupted_by_signal: bool,
    /// A run of the stream ended before its first message, so the stream did not begin in the middle
    /// of a session.
    pub(super) has_empty_run: bool,
    /// Calls that return before their subagent ends.
    background: BTreeSet<String>,
    /// Calls whose subagent was stopped before its end.
    stopped: BTreeSet<String>,
    /// Calls with a result in the stream and none in the transcript.
    unanswered: BTreeSet<String>,
    /// Messages that were cut off and replaced.
    pub(super) replaced_answers: BTreeSet<String>,
    /// Prompts that the file has in the agent's queue.
    pub(super) queued_prompts: BTreeSet<String>,
    /// The blocks of prompts that the file has as delivered while the agent was at work.
    delivered: BTreeSet<String>,
    /// Calls of the stream without a record that names their subagent.
    pub(super) unnamed: BTreeSet<String>,
    /// The transcript lacks the session in which the stream began.
    pub(super) lacks_first_session: bool,
    /// The transcript lacks the session in which the stream ended.
    pub(super) lacks_last_session: bool,
    /// Sessions that the transcript contains, with or without messages.
    pub(super) stored_sessions: BTreeSet<String>,
    /// The subagents of which the transcript has a file.
    pub(super) subagent_files: BTreeSet<String>,
    /// Calls of one response of the model, which ran at the same time.
    pub(super) parallel_calls: Vec<BTreeSet<String>>,
    /// Blocks of a view that repeats no prompts, where the stream has another view as well.
    unprompted: BTreeSet<BlockId>,
    /// Whether the view repeats prompts; nothing if a view of this agent may or may not.
    repeats_prompts: Option<bool>,
    /// The form of the stored history, where one version has several.
    pub(super) history: Option<String>,
    /// The blocks of a view that names nothing, with their conversations, in the order of its lines.
    arrival: Vec<(ConversationId, BlockId)>,
}

impl Run {
    pub(super) fn new(agent: Agent, stream: &SideState, transcript: &SideState) -> Self {
        let (streamed, stored) = (&stream.facts, &transcript.facts);
        let lacks = |session: Option<&String>| {
            session.is_some_and(|session| !stored.sessions.contains(session))
        };
        let results = |facts: &Facts| -> BTreeSet<String> {
            let records = facts.records().keys().filter(|record| record.kind == "tool_result");
            records.map(|record| record.id.clone()).collect()
        };
        let version = stored.version.clone().or_else(|| streamed.version.clone());
        let was_killed = was_killed(streamed, stored);
        let loses_end = was_killed && agent.loses_end_at_kill();
        let is_signal = streamed.was_interrupted && agent.loses_end_at_signal(version.as_deref());
        let is_queue_kept = agent.leaves_prompts_in_queue(version.as_deref());
        let queued_prompts = stored.queued_prompts.iter().filter(|_| is_queue_kept);
        Self {
            agent,
            queued_prompts: queued_prompts.cloned().collect(),
            version,
            was_cut_off: !streamed.has_ended,
            was_killed,
            about: PlaceRun {
                lost_end: loses_end || is_signal,
                has_reset: !streamed.successive_sessions.is_empty(),
                was_resumed: streamed.evidence.was_resumed,
                turns: streamed.evidence.turns,
                dequeued: stored.evidence.dequeued,
                has_scripts: stored.evidence.has_scripts,
            },
            was_interrupted_by_signal: streamed.was_interrupted,
            has_empty_run: streamed.has_empty_run,
            background: streamed.background.union(&stored.background).cloned().collect(),
            stopped: streamed.stopped.clone(),
            unanswered: results(streamed).difference(&results(stored)).cloned().collect(),
            replaced_answers: streamed.replaced_answers.clone(),
            delivered: stored.evidence.delivered.clone(),
            unnamed: streamed.unnamed_calls.clone(),
            lacks_first_session: lacks(streamed.successive_sessions.first()),
            lacks_last_session: lacks(streamed.successive_sessions.last()),
            stored_sessions: stored.sessions.clone(),
            subagent_files: stored.evidence.subagent_files.clone(),
            parallel_calls: stored.parallel_calls.clone(),
            unprompted: stream.unnamed.clone(),
            repeats_prompts: agent.has_unnamed_view().then_some(!stream.is_unnamed),
            history: stored.history.clone(),
            arrival: stream.arrival.clone(),
        }
    }

    /// Returns whether the transcript lacks a session of the stream.
    pub(super) fn lacks_session(&self) -> bool {
        self.lacks_first_session || self.lacks_last_session
    }

    /// Returns a run of which only the states are known.
    pub(super) fn unknown(agent: Agent) -> Self {
        Self {
            agent,
            version: None,
            was_cut_off: false,
            was_killed: false,
            about: PlaceRun::default(),
            was_interrupted_by_signal: false,
            has_empty_run: false,
            background: BTreeSet::new(),
            stopped: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            replaced_answers: BTreeSet::new(),
            queued_prompts: BTreeSet::new(),
            delivered: BTreeSet::new(),
            unnamed: BTreeSet::new(),
            lacks_first_session: false,
            lacks_last_session: false,
            stored_sessions: BTreeSet::new(),
            subagent_files: BTreeSet::new(),
            parallel_calls: Vec::new(),
            unprompted: BTreeSet::new(),
            repeats_prompts: None,
            history: None,
            arrival: Vec::new(),
        }
    }
}

/// Returns whether a run was killed: its stream ends without a report and in the middle of a turn, and
/// its file without the agent's own account. An agent that a signal stops within a call writes the
/// account, and not the result of the call.
pub(super) fn was_killed(stream: &Facts, transcript: &Facts) -> bool {
    let has_exited = transcript.evidence.has_account && !stream.evidence.is_in_call;
    !stream.has_ended && !stream.evidence.is_complete && !has_exited
}

impl Pair<'_> {
    /// Returns the blocks of this conversation in a view that names nothing, in the order of its lines.
    pub(super) fn arrival(&self) -> Vec<&BlockId> {
        let headers = self.headers.iter().flatten();
        let names = headers.flat_map(|header| {
            let call = header.tool_use_id.as_ref().map(|it| it.as_str());
            let agent = header.agent_id.as_ref().map(|it| it.as_str());
            call.into_iter().chain(agent)
        });
        let names: BTreeSet<&str> = names.chain([self.name.as_str()]).collect();
        let own = self.run.arrival.iter().filter(|(it, _)| names.contains(it.as_str()));
        own.map(|(_, block)| block).collect()
    }

    /// Returns whether the call of this subagent returns before the subagent ends.
    pub(super) fn is_background(&self) -> bool {
        let headers = self.headers.iter().flatten();
        let mut calls = headers.filter_map(|header| header.tool_use_id.as_ref());
        calls.any(|call| self.run.background.contains(call.as_str()))
    }
}

/// What all conversations of a comparison share.
pub(super) struct Shared {
    /// The blocks of the turns before the stream began.
    pub(super) earlier: BTreeSet<BlockId>,
    /// The stream has text of a subagent that it has only if forwarding was enabled.
    pub(super) forwards_text: bool,
    /// The stream repeats prompts of the main conversation.
    has_prompts: bool,
    /// Blocks of turns that a view reports which repeats no prompts, beside one that does.
    unprompted: BTreeSet<BlockId>,
    /// Conversations of subagents that were stopped before their end.
    pub(super) stopped: BTreeSet<ConversationId>,
    /// The main conversation of the stream ends with an interruption.
    pub(super) ends_interrupted: bool,
    /// Calls of subagents whose outcome was streamed after everything that the file has.
    pub(super) lost_outcomes: BTreeSet<BlockId>,
}

impl Shared {
    pub(super) fn new(pairs: &[Pair<'_>]) -> Self {
        let main = &pairs[0];
        let is_forwarded = |pair: &&Pair<'_>| !pair.is_background();
        let foreground = pairs[1..].iter().filter(is_forwarded);
        let mut streamed = foreground.flat_map(|pair| collect_blocks(pair.stream.as_ref()));
        let is_prompt = |block: &Block| matches!(block.body, BlockBody::UserMessage(_));
        Self {
            earlier: earlier_blocks(pairs),
            forwards_text: streamed.any(|block| is_words(&block)),
            has_prompts: main
                .run
                .repeats_prompts
                .unwrap_or_else(|| collect_blocks(main.stream.as_ref()).iter().any(is_prompt)),
            unprompted: unprompted_blocks(main),
            stopped: stopped_conversations(pairs),
            ends_interrupted: collect_blocks(main.stream.as_ref())
                .last()
                .is_some_and(is_interruption),
            lost_outcomes: pairs.iter().flat_map(lost_outcomes).collect(),
        }
    }
}

impl Shared {
    /// Returns whether the stream repeats the prompts of the turn that a block is in: one of this
    /// conversation, or the call that started it.
    pub(super) fn has_prompts(&self, pair: &Pair<'_>, block: Option<&BlockId>) -> bool {
        let caller = || pair.headers.iter().flatten().find_map(|it| it.tool_use_id.as_ref());
        let block = match pair.depth {
            0 => block.cloned(),
            _ => caller().map(BlockId::from),
        };
        self.has_prompts && !block.is_some_and(|block| self.unprompted.contains(&block))
    }
}

/// Returns whether a block is the mark of an interruption.
fn is_interruption(block: &Block) -> bool {
    matches!(&block.body, BlockBody::System(body) if &*body.subtype == "interrupted")
}

/// Returns the blocks of the turns that a view without prompts reports, if the stream has another view
/// as well. A turn is what follows a prompt in the transcript.
fn unprompted_blocks(main: &Pair<'_>) -> BTreeSet<BlockId> {
    let unnamed = &main.run.unprompted;
    if unnamed.is_empty() {
        return BTreeSet::new();
    }
    let streamed: BTreeSet<_> =
        collect_blocks(main.stream.as_ref()).into_iter().map(|it| it.id).collect();
    let transcript = collect_blocks(main.transcript.as_ref());
    let mut blocks = BTreeSet::new();
    let mut is_unprompted = true;
    let is_prompt = |block: &Block| matches!(block.body, BlockBody::UserMessage(_));
    for turn in transcript.chunk_by(|_, next| !is_prompt(next)) {
        let mut common = turn.iter().filter(|it| streamed.contains(&it.id)).peekable();
        if common.peek().is_some() {
            is_unprompted = common.all(|it| unnamed.contains(&it.id));
        }
        if is_unprompted {
            blocks.extend(turn.iter().map(|it| it.id.clone()));
        }
    }
    blocks
}

/// Returns the conversations of subagents that were stopped, and of those that they waited for.
fn stopped_conversations(pairs: &[Pair<'_>]) -> BTreeSet<ConversationId> {
    let calls = |pair: &Pair<'_>| -> Vec<ToolUseId> {
        pair.headers.iter().flatten().filter_map(|header| header.tool_use_id.clone()).collect()
    };
    let is_named =
        |pair: &&Pair<'_>| calls(pair).iter().any(|call| pair.run.stopped.contains(call.as_str()));
    let mut stopped: BTreeSet<_> =
        pairs[1..].iter().filter(is_named).map(|pair| pair.name.clone()).collect();
    loop {
        let known = stopped.len();
        let callers = pairs.iter().filter(|pair| stopped.contains(&pair.name));
        let open: BTreeSet<BlockId> = callers
            .flat_map(|pair| collect_blocks(pair.stream.as_ref()))
            .filter(|block| block.interrupted)
            .map(|block| block.id)
            .collect();
        let is_called =
            |pair: &&Pair<'_>| calls(pair).iter().any(|call| open.contains(&BlockId::from(call)));
        stopped.extend(pairs[1..].iter().filter(is_called).map(|pair| pair.name.clone()));
        if stopped.len() == known {
            return stopped;
        }
    }
}

/// Returns the calls of subagents that only the stream answers, after the last words of the file.
fn lost_outcomes(pair: &Pair<'_>) -> Vec<BlockId> {
    let transcript = collect_blocks(pair.transcript.as_ref());
    let stored: BTreeMap<_, _> = transcript.iter().map(|block| (&block.id, block)).collect();
    let stream = collect_blocks(pair.stream.as_ref());
    let is_call =
        |block: &Block| matches!(block.body, BlockBody::ToolUse(_) | BlockBody::Subagent(_));
    let last_words = stream.iter().rposition(|it| stored.contains_key(&it.id) && !is_call(it));
    let calls = stream.iter().enumerate().filter(|(place, block)| {
        matches!(block.body, BlockBody::Subagent(_))
            && pair.run.unanswered.contains(block.id.as_str())
            && stored.get(&block.id).is_some_and(|stored| stored.interrupted)
            && last_words.is_none_or(|last| *place > last)
    });
    calls.map(|(_, block)| block.id.clone()).collect()
}

/// Returns whether a block is what a model wrote, apart from its calls.
pub(super) fn is_words(block: &Block) -> bool {
    matches!(block.body, BlockBody::AssistantText(_) | BlockBody::Thinking(_))
}

/// Returns the text of a prompt.
pub(super) fn prompt_text(block: &Block) -> Option<String> {
    let BlockBody::UserMessage(body) = &block.body else { return None };
    match &body.content {
        Content::Text(text) => Some(text.to_string()),
        Content::Parts(_) => None,
    }
}

/// Pairs the subagents of both sides, by call or by id.
pub(super) fn subagent_pairs<'a>(
    run: &'a Run,
    stream: &'a ConversationState,
    transcript: &'a ConversationState,
) -> Vec<Pair<'a>> {
    let twin = |subagent: &SubagentRef<'_>, other: &'a ConversationState| {
        let by_call = subagent.tool_use_id().and_then(|call| other.subagent(&(&call).into()));
        by_call.or_else(|| other.subagent(&(&subagent.agent_id()?).into()))
    };
    let mut pairs = Vec::new();
    let mut paired = BTreeSet::new();
    for stored in transcript.subagents() {
        let streamed = twin(&stored, stream);
        paired.extend(streamed.map(|it| it.conversation_id()));
        pairs.push(Pair {
            run,
            name: stored.conversation_id(),
            depth: depth(transcript, &stored),
            headers: [streamed.map(|it| it.header()), Some(stored.header())],
            stream: streamed.map(|it| it.blocks()),
            transcript: Some(stored.blocks()),
        });
    }
    for streamed in stream.subagents() {
        if !paired.contains(&streamed.conversation_id()) {
            pairs.push(Pair {
                run,
                name: streamed.conversation_id(),
                depth: depth(stream, &streamed),
                headers: [Some(streamed.header()), None],
                stream: Some(streamed.blocks()),
                transcript: None,
            });
        }
    }
    pairs
}

/// Returns how many calls lead from the main conversation to a subagent.
fn depth(state: &ConversationState, subagent: &SubagentRef<'_>) -> usize {
    let Some(call) = subagent.tool_use_id() else { return 1 };
    let id = BlockId::from(&call);
    if state.blocks().find(&id).is_some() {
        return 1;
    }
    let caller = state.subagents().into_iter().find(|it| it.blocks().find(&id).is_some());
    match caller {
        Some(caller) if caller.conversation_id() != subagent.conversation_id() => {
            1 + depth(state, &caller)
        }
        // The call is missing, so the caller is not the main conversation.
        _ => 2,
    }
}

/// Both sides of a conversation, with their blocks by id.
pub(super) struct Sides<'a> {
    pub(super) pair: &'a Pair<'a>,
    pub(super) stream: &'a [Block],
    pub(super) transcript: &'a [Block],
    pub(super) in_stream: BTreeMap<&'a BlockId, &'a Block>,
    pub(super) in_transcript: BTreeMap<&'a BlockId, &'a Block>,
    pub(super) shared: &'a Shared,
}

impl<'a> Sides<'a> {
    pub(super) fn new(
        pair: &'a Pair<'a>,
        stream: &'a [Block],
        transcript: &'a [Block],
        shared: &'a Shared,
    ) -> Self {
        let in_stream = stream.iter().map(|block| (&block.id, block)).collect();
        let in_transcript = transcript.iter().map(|block| (&block.id, block)).collect();
        Self { pair, stream, transcript, in_stream, in_transcript, shared }
    }

    /// Returns the text of the harness's line directly before a block of the transcript.
    fn harness_text_before(&self, block: &Block) -> Option<String> {
        let place = self.transcript.iter().position(|stored| stored.id == block.id)?;
        match &self.transcript.get(place.checked_sub(1)?)?.body {
            BlockBody::System(body) => body.message.as_ref().map(ToString::to_string),
            _ => None,
        }
    }

    /// Returns how many blocks before this one open a turn, and are not in the stream: since the stream
    /// began, and in all.
    fn openers_before(&self, block: &Block) -> (usize, usize) {
        let agent = self.pair.run.agent;
        let is_opener = |it: &&Block| {
            !self.in_stream.contains_key(&it.id) && agent.opens_turn(it) && !self.is_delivered(it)
        };
        let before = self.transcript.iter().take_while(|it| it.id != block.id).filter(is_opener);
        let (earlier, since): (Vec<_>, Vec<_>) =
            before.partition(|it| self.shared.earlier.contains(&it.id));
        (since.len(), since.len() + earlier.len())
    }

    /// Returns whether a block of the transcript is a prompt that was delivered while the agent was at
    /// work.
    fn is_delivered(&self, block: &Block) -> bool {
        self.pair.run.delivered.contains(block.id.as_str())
    }

    /// Returns whether a later block of the transcript is in the stream as well.
    fn is_answered(&self, block: &Block) -> bool {
        let mut later = self.transcript.iter().skip_while(|it| it.id != block.id).skip(1);
        later.any(|it| self.in_stream.contains_key(&it.id))
    }

    /// Returns the notices of the transcript before the next common block after a block of the stream.
    fn notices_before(&self, block: &Block) -> Vec<PlaceNotice> {
        let Some(place) = self.stream.iter().position(|it| it.id == block.id) else {
            return Vec::new();
        };
        let stored_place = |streamed: &Block| {
            self.in_transcript.get(&streamed.id)?;
            self.transcript.iter().position(|it| it.id == streamed.id)
        };
        let before = self.stream[..place].iter().rev().find_map(stored_place);
        let after = self.stream[place..].iter().find_map(stored_place);
        let end = after.unwrap_or(self.transcript.len());
        let notice = |(number, block): (usize, &Block)| match &block.body {
            BlockBody::System(body) => Some(PlaceNotice {
                subtype: body.subtype.to_string(),
                is_beside: before.is_none_or(|before| number > before),
            }),
            _ => None,
        };
        self.transcript[..end].iter().enumerate().filter_map(notice).collect()
    }

    /// Returns what known gaps may ask about the place of a block that only one side has.
    pub(super) fn place(&self, block: &Block) -> BlockPlace {
        let stored = self.pair.headers[1].as_ref();
        let has_no_call = stored.is_some_and(|header| header.tool_use_id.is_none());
        BlockPlace {
            depth: self.pair.depth,
            conversation: self.pair.name.to_string(),
            is_uncalled: self.pair.depth > 0 && has_no_call,
            opening: self.transcript.first().and_then(prompt_text),
            after: self.harness_text_before(block),
            is_first: self.transcript.first().is_some_and(|first| first.id == block.id),
            called_with: stored.and_then(|header| header.prompt.as_deref()).map(str::to_owned),
            is_background: self.pair.is_background(),
            has_prompts: self.shared.has_prompts(self.pair, Some(&block.id)),
            is_answered: self.is_answered(block),
            is_earlier: self.shared.earlier.contains(&block.id),
            is_delivered: self.is_delivered(block),
            openers_before: self.openers_before(block),
            has_earlier: self
                .transcript
                .iter()
                .any(|it| is_words(it) && self.shared.earlier.contains(&it.id)),
            run: self.pair.run.about.clone(),
            notices: self.notices_before(block),
            version: self.pair.run.version.clone(),
        }
    }
}

/// Returns the blocks of the turns before the stream began: everything before the prompt that
/// precedes the first common block, with the subagents that were called there.
fn earlier_blocks(pairs: &[Pair<'_>]) -> BTreeSet<BlockId> {
    let main = &pairs[0];
    let stream = collect_blocks(main.stream.as_ref());
    if main.run.has_empty_run && !begins_with_compaction(&stream) {
        return BTreeSet::new();
    }
    let transcript = collect_blocks(main.transcript.as_ref());
    let streamed: BTreeSet<_> = stream.iter().map(|block| &block.id).collect();
    let Some(first) = transcript.iter().position(|block| streamed.contains(&block.id)) else {
        return BTreeSet::new();
    };
    let is_prompt = |block: &Block| matches!(block.body, BlockBody::UserMessage(_));
    let began = match begins_with_compaction(&stream) {
        // Only earlier turns can be compacted, so all before the compaction is earlier.
        true => first,
        false => transcript[..first].iter().rposition(is_prompt).unwrap_or(0),
    };
    let mut earlier: BTreeSet<_> =
        transcript[..began].iter().map(|block| block.id.clone()).collect();
    // A subagent may have called others, which stand anywhere in the list.
    loop {
        let known = earlier.len();
        for pair in pairs[1..].iter().filter(|pair| collect_blocks(pair.stream.as_ref()).is_empty())
        {
            let header = pair.headers[1].as_ref();
            let call = header.and_then(|header| header.tool_use_id.as_ref());
            if call.is_some_and(|call| earlier.contains(&BlockId::from(call))) {
                earlier
                    .extend(collect_blocks(pair.transcript.as_ref()).into_iter().map(|it| it.id));
            }
        }
        if earlier.len() == known {
            return earlier;
        }
    }
}

/// Returns whether a compaction is the first thing that happens in a stream.
fn begins_with_compaction(stream: &[Block]) -> bool {
    let subtype = |block: &Block| match &block.body {
        BlockBody::System(notice) => Some(notice.subtype.to_string()),
        _ => None,
    };
    let mut notices = stream.iter().map_while(subtype);
    notices.any(|subtype| subtype == "compaction")
}

pub(super) fn collect_blocks(blocks: Option<&Blocks<'_>>) -> Vec<Block> {
    blocks.map_or(Vec::new(), |blocks| blocks.iter().map(|block| block.into_owned()).collect())
}

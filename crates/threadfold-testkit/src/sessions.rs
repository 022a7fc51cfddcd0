//! Generated sessions for property tests: plausible ones that an agent could produce, and hostile
//! ones that no agent would.

use proptest::prelude::*;
use proptest::sample::select;
use threadfold_core::{
    AssistantTextBlock, Block, BlockDelta, BlockId, BlockRemove, BlockStatus, BlockUpsert,
    CompletedStatus, ContextChange, ContextChanged, ConversationId, ConversationMessage,
    EmptyPayload, Json, MessagePart, Payload, PermissionRequested, PermissionResolved, Placement,
    RemoveReason, ResultSource, Role, SessionEvent, SourceKind, SubagentCompleted, SubagentMarked,
    SubagentSpawned, TextField, ThinkingBlock, ToolCall, ToolFailed, ToolFinished, ToolResultBlock,
    ToolUnknown, ToolUseBlock, TurnAnswered, TurnStarted, UserMessageBlock,
};

/// Returns events in any order with few ids, so that they collide: duplicates, missing parents,
/// unknown ids, all sources.
pub fn hostile() -> impl Strategy<Value = Vec<SessionEvent>> {
    prop::collection::vec(any_event(), 0..60)
}

/// Returns one event with one of few ids.
pub fn any_event() -> impl Strategy<Value = SessionEvent> {
    let conversation =
        select(vec!["main", "main", "c1", "c2", "A", "agent-A", "B", "d1", "toolu_1"]);
    let source = select(vec![
        None,
        Some(SourceKind::Stream),
        Some(SourceKind::Stream),
        Some(SourceKind::Transcript),
        Some(SourceKind::Server),
    ]);
    (any_payload(), conversation, source).prop_map(|(payload, conversation, source)| {
        let event = SessionEvent::new(payload).within(conversation);
        match source {
            Some(kind) => event.from_source(kind),
            None => event,
        }
    })
}

fn block_id() -> impl Strategy<Value = BlockId> {
    select(vec!["a", "b", "c", "d", "e", "c1", "d1", "result:c1", "permission:q"])
        .prop_map(BlockId::from)
}

fn call_id() -> impl Strategy<Value = &'static str> {
    select(vec!["c1", "c2", "d1", "A", "toolu_1"])
}

fn agent_id() -> impl Strategy<Value = Option<&'static str>> {
    select(vec![None, Some("A"), Some("agent-A"), Some("B"), Some("c1"), Some("c2")])
}

fn text() -> impl Strategy<Value = String> {
    select(vec!["", "x", "hé", "lo 😀", " \n"]).prop_map(str::to_owned)
}

fn place() -> impl Strategy<Value = Placement> {
    prop_oneof![
        Just(Placement::Unspecified),
        Just(Placement::First),
        block_id().prop_map(Placement::After),
        block_id().prop_map(Placement::After),
    ]
}

fn any_payload() -> impl Strategy<Value = Payload> {
    let upsert = (any_block(), place(), prop::option::weighted(0.1, block_id()), any::<bool>())
        .prop_map(|(block, after, replaces, preview)| {
            Payload::BlockUpsert(BlockUpsert { block, after, replaces, preview })
        });
    let delta = (block_id(), text(), any::<bool>(), prop::option::of(0..9u64)).prop_map(
        |(block_id, delta, input, offset)| {
            let field = if input { TextField::Input } else { TextField::Content };
            Payload::BlockDelta(BlockDelta { block_id, delta: delta.into(), field, offset })
        },
    );
    let reasons = [RemoveReason::Abandoned, RemoveReason::Superseded, RemoveReason::Deleted];
    let remove = (block_id(), select(reasons.to_vec()))
        .prop_map(|(block_id, reason)| Payload::BlockRemove(BlockRemove { block_id, reason }));
    let kinds = [
        ContextChange::Rewind,
        ContextChange::Edit,
        ContextChange::Revert,
        ContextChange::Compaction,
        ContextChange::Microcompaction,
        ContextChange::Reset,
    ];
    let context =
        (select(kinds.to_vec()), prop::option::of(block_id())).prop_map(|(kind, head)| {
            Payload::ContextChanged(ContextChanged {
                kind,
                head,
                summary: None,
                blocks: Vec::new(),
            })
        });
    prop_oneof![
        8 => upsert,
        5 => delta,
        1 => remove,
        1 => context,
        2 => spawned(),
        2 => completed(),
        1 => marked(),
        1 => Just(Payload::SessionIdle(EmptyPayload {})),
        1 => permission(),
        3 => of_a_loop(),
    ]
}

/// Returns events that our loop emits, but in any order.
fn of_a_loop() -> impl Strategy<Value = Payload> {
    let message = (block_id(), text(), prop::collection::vec(call_id(), 0..3)).prop_map(
        |(id, text, calls)| ConversationMessage {
            message_id: (id.as_str() != "e").then(|| id.as_str().into()),
            content: vec![MessagePart::thinking(&text, "sig"), MessagePart::text(&text)],
            tool_calls: calls.iter().map(|call| ToolCall::new(*call, "Bash", &text)).collect(),
            ..ConversationMessage::new(Role::Assistant)
        },
    );
    let prompt = |(id, text): (BlockId, String)| ConversationMessage {
        message_id: (id.as_str() != "e").then(|| id.as_str().into()),
        ..ConversationMessage::text(Role::User, &text)
    };
    let prompts = prop::collection::vec((block_id(), text()).prop_map(prompt), 0..3);
    prop_oneof![
        prompts.prop_map(|messages| Payload::TurnStarted(TurnStarted {
            turn: 1,
            evaluation_id: "e1".into(),
            provider: "anthropic".into(),
            model: "model-1".into(),
            prompt_namespace: None,
            prompt_key: None,
            system: None,
            tools: None,
            parameters: None,
            messages,
            items: Vec::new(),
            restart: false,
            withdraws: false,
            prefix_hash: "".into(),
        })),
        message.prop_map(|message| Payload::TurnAnswered(TurnAnswered {
            turn: 1,
            payload: Json::of(&message),
            message,
            usage: None,
            stop_reason: None,
        })),
        (call_id(), text(), any::<bool>()).prop_map(|(call, text, is_error)| {
            Payload::ToolFinished(ToolFinished {
                call_id: call.into(),
                attempt: 1,
                result: ConversationMessage::result(call, &text),
                is_error,
                duration_ms: None,
                source: ResultSource::Tool,
            })
        }),
        call_id().prop_map(|call| {
            let error = Json::string("no such file");
            Payload::ToolFailed(ToolFailed { call_id: call.into(), attempt: 1, error })
        }),
        call_id().prop_map(|call| {
            let reason = "the process ended".into();
            Payload::ToolUnknown(ToolUnknown { call_id: call.into(), attempt: 1, reason })
        }),
    ]
}

fn spawned() -> impl Strategy<Value = Payload> {
    let unplaced = prop::bool::weighted(0.3);
    (call_id(), agent_id(), prop::option::of(text()), any::<bool>(), unplaced).prop_map(
        |(call, agent, prompt, background, unplaced)| {
            Payload::SubagentSpawned(SubagentSpawned {
                agent_id: agent.map(Into::into),
                prompt: prompt.map(Into::into),
                background,
                unplaced,
                ..SubagentSpawned::by(call)
            })
        },
    )
}

fn marked() -> impl Strategy<Value = Payload> {
    any::<bool>().prop_map(|internal| Payload::SubagentMarked(SubagentMarked { internal }))
}

fn completed() -> impl Strategy<Value = Payload> {
    let unplaced = prop::bool::weighted(0.3);
    (call_id(), agent_id(), any::<bool>(), prop::option::of(text()), unplaced).prop_map(
        |(call, agent, failed, output, unplaced)| {
            Payload::SubagentCompleted(SubagentCompleted {
                tool_use_id: call.into(),
                agent_id: agent.map(Into::into),
                subagent_id: None,
                status: match failed {
                    true => CompletedStatus::Error,
                    false => CompletedStatus::Completed,
                },
                output: output.map(|text| Json::string(&text)),
                duration_ms: None,
                unplaced,
            })
        },
    )
}

fn permission() -> impl Strategy<Value = Payload> {
    any::<bool>().prop_map(|asked| match asked {
        true => Payload::PermissionRequested(PermissionRequested {
            request_id: "q".into(),
            tool_use_id: None,
            question: Some(Json::string("may I?")),
            options: None,
        }),
        false => Payload::PermissionResolved(PermissionResolved {
            request_id: "q".into(),
            answer: Some(Json::string("yes")),
        }),
    })
}

fn any_block() -> impl Strategy<Value = Block> {
    let body = prop_oneof![
        (block_id(), text()).prop_map(|(id, text)| Block::new(
            id,
            AssistantTextBlock { content: text.into(), model: None }
        )),
        (block_id(), text()).prop_map(|(id, text)| Block::new(
            id,
            ThinkingBlock { content: text.into(), signature: None, redacted: false }
        )),
        (block_id(), text()).prop_map(|(id, text)| Block::new(
            id,
            UserMessageBlock { content: text.as_str().into() }
        )),
        (block_id(), call_id(), any::<bool>()).prop_map(|(id, call, whole)| {
            let input = whole.then(|| Json::string("in"));
            Block::new(id, tool_use(call, input))
        }),
        (block_id(), call_id(), any::<bool>()).prop_map(|(id, call, is_error)| {
            Block::new(id, tool_result(call, "out", is_error))
        }),
        (call_id(), agent_id()).prop_map(|(call, agent)| Block::new(call, edge(call, agent))),
    ];
    (body, any::<bool>(), prop::bool::weighted(0.1)).prop_map(|(mut block, open, inactive)| {
        if open {
            block.status = BlockStatus::Pending;
        }
        block.inactive = inactive;
        block
    })
}

fn tool_use(call: &str, input: Option<Json>) -> ToolUseBlock {
    ToolUseBlock {
        tool_name: "Bash".into(),
        tool_use_id: call.into(),
        input,
        input_text: None,
        display_name: None,
        description: None,
    }
}

fn tool_result(call: &str, output: &str, is_error: bool) -> ToolResultBlock {
    ToolResultBlock {
        tool_use_id: call.into(),
        output: Some(Json::string(output)),
        is_error,
        duration_ms: None,
    }
}

fn edge(call: &str, agent: Option<&str>) -> threadfold_core::SubagentBlock {
    threadfold_core::SubagentBlock {
        tool_use_id: Some(call.into()),
        agent_id: agent.map(Into::into),
        name: "explorer".into(),
        description: None,
        input: Some(Json::string("look")),
        output: None,
        duration_ms: None,
    }
}

/// A generated session, as its stream and as its files.
#[derive(Clone, Debug)]
pub struct Session {
    /// The events of the stream, in order.
    pub stream: Vec<SessionEvent>,
    /// The events of the files, in order: the main file, then the subagents' files.
    pub files: Vec<SessionEvent>,
}

/// One step of a conversation.
#[derive(Clone, Debug)]
enum Piece {
    /// A prompt; only the file has it.
    Prompt,
    /// A text of the model: the stream emits a preview, then confirms it.
    Speech(Vec<String>),
    /// A preview that is removed; the file never has it.
    Abandoned(String),
    /// Thinking whose text only the stream has.
    HiddenThought(String),
    /// A block that only the stream has.
    Notice,
    /// A block that only the file has.
    Bookkeeping,
    /// A tool call, with or without a result.
    Tool { answered: bool, failed: bool },
    /// A call that starts a subagent, with the subagent's steps.
    Subagent { done: bool, background: bool, start: Start, inside: Vec<Piece> },
    /// The end of a turn.
    Idle,
    /// Everything before it leaves the active path.
    Compaction,
}

/// How the stream reports the start of a subagent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    /// After its call.
    Usual,
    /// Before its call and without its caller.
    Early,
    /// Without its caller, and the stream never shows the call.
    Unseen,
}

fn piece() -> impl Strategy<Value = Piece> {
    let leaf = prop_oneof![
        2 => Just(Piece::Prompt),
        4 => prop::collection::vec(text(), 1..4).prop_map(Piece::Speech),
        1 => text().prop_map(Piece::Abandoned),
        1 => text().prop_map(Piece::HiddenThought),
        1 => Just(Piece::Notice),
        1 => Just(Piece::Bookkeeping),
        3 => (any::<bool>(), any::<bool>())
            .prop_map(|(answered, failed)| Piece::Tool { answered, failed }),
        1 => Just(Piece::Idle),
        1 => Just(Piece::Compaction),
    ];
    leaf.prop_recursive(2, 20, 5, |inner| {
        let starts = vec![Start::Usual, Start::Early, Start::Unseen];
        (any::<bool>(), any::<bool>(), select(starts), prop::collection::vec(inner, 0..5)).prop_map(
            |(done, background, start, inside)| Piece::Subagent { done, background, start, inside },
        )
    })
}

/// Returns plausible sessions of an agent.
pub fn plausible() -> impl Strategy<Value = Session> {
    prop::collection::vec(piece(), 0..12).prop_map(|pieces| {
        let mut teller = SessionBuilder { count: 0, stream: Vec::new() };
        let mut files = Vec::new();
        let mut nested = Vec::new();
        teller.tell(
            &ConversationId::main(),
            &ConversationId::main(),
            &pieces,
            &mut files,
            &mut nested,
        );
        files.extend(nested);
        Session { stream: teller.stream, files }
    })
}

/// Writes a session to both sides.
struct SessionBuilder {
    count: usize,
    stream: Vec<SessionEvent>,
}

impl SessionBuilder {
    fn fresh(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}{}", self.count)
    }

    /// Writes the steps of one conversation, which has different ids in the stream and in the
    /// file.
    fn tell(
        &mut self,
        in_stream: &ConversationId,
        in_file: &ConversationId,
        pieces: &[Piece],
        file: &mut Vec<SessionEvent>,
        nested: &mut Vec<SessionEvent>,
    ) {
        let mut streamed = Placement::First;
        let mut filed = Placement::First;
        let main = in_stream.is_main();
        for piece in pieces {
            match piece {
                Piece::Prompt => {
                    let id = self.fresh("u");
                    let block = Block::new(id, UserMessageBlock { content: "prompt".into() });
                    file.push(told(block, &mut filed, in_file, SourceKind::Transcript));
                }
                Piece::Notice => {
                    let id = self.fresh("n");
                    let block = Block::new(
                        id,
                        threadfold_core::SystemBlock { subtype: "status".into(), message: None },
                    );
                    self.stream.push(told(block, &mut streamed, in_stream, SourceKind::Stream));
                }
                Piece::Bookkeeping => {
                    let id = self.fresh("k");
                    let block = Block::new(
                        id,
                        threadfold_core::SystemBlock {
                            subtype: "hook".into(),
                            message: Some("kept".into()),
                        },
                    );
                    file.push(told(block, &mut filed, in_file, SourceKind::Transcript));
                }
                Piece::Speech(parts) => {
                    let id = self.fresh("a");
                    self.preview(&id, parts, &streamed, in_stream);
                    let body = AssistantTextBlock { content: parts.concat().into(), model: None };
                    let block = Block::new(id, body);
                    self.stream.push(told(
                        block.clone(),
                        &mut streamed,
                        in_stream,
                        SourceKind::Stream,
                    ));
                    file.push(told(block, &mut filed, in_file, SourceKind::Transcript));
                }
                Piece::Abandoned(text) => {
                    let id = self.fresh("x");
                    self.preview(&id, std::slice::from_ref(text), &streamed, in_stream);
                    let remove =
                        BlockRemove { block_id: id.into(), reason: RemoveReason::Abandoned };
                    self.stream.push(
                        SessionEvent::new(Payload::BlockRemove(remove))
                            .within(in_stream.clone())
                            .from_source(SourceKind::Stream),
                    );
                }
                Piece::HiddenThought(text) => {
                    let id = self.fresh("t");
                    let thought = |text: &str| ThinkingBlock {
                        content: text.into(),
                        signature: Some("sig".into()),
                        redacted: false,
                    };
                    let block = Block::new(id.clone(), thought(text));
                    self.stream.push(told(block, &mut streamed, in_stream, SourceKind::Stream));
                    let block = Block::new(id, thought(""));
                    file.push(told(block, &mut filed, in_file, SourceKind::Transcript));
                }
                Piece::Tool { answered, failed } => {
                    let call = self.fresh("c");
                    let mut block =
                        Block::new(call.clone(), tool_use(&call, Some(Json::string("in"))));
                    block.status = BlockStatus::Pending;
                    self.both(block, [&mut streamed, &mut filed], [in_stream, in_file], file);
                    if *answered {
                        let body = tool_result(&call, "out", *failed);
                        let block = Block::new(format!("result:{call}"), body);
                        self.both(block, [&mut streamed, &mut filed], [in_stream, in_file], file);
                    }
                }
                Piece::Subagent { done, background, start, inside } => {
                    let call = self.fresh("s");
                    let agent = self.fresh("agent-A");
                    let mut block =
                        Block::new(call.clone(), tool_use(&call, Some(Json::string("in"))));
                    block.status = BlockStatus::Pending;
                    let spawned = |unplaced: bool| {
                        SessionEvent::new(Payload::SubagentSpawned(SubagentSpawned {
                            prompt: Some("look".into()),
                            background: *background,
                            unplaced,
                            ..SubagentSpawned::by(call.as_str())
                        }))
                    };
                    if *start != Start::Usual {
                        self.stream.push(spawned(true).from_source(SourceKind::Stream));
                    }
                    if *start == Start::Unseen {
                        file.push(told(block, &mut filed, in_file, SourceKind::Transcript));
                    } else {
                        self.both(block, [&mut streamed, &mut filed], [in_stream, in_file], file);
                    }
                    if *start == Start::Usual {
                        let placed = spawned(false).within(in_stream.clone());
                        self.stream.push(placed.from_source(SourceKind::Stream));
                    }
                    let spawned = spawned(false);
                    file.push(spawned.within(in_file.clone()).from_source(SourceKind::Transcript));
                    let names =
                        [ConversationId::from(call.as_str()), ConversationId::from(agent.as_str())];
                    let mut own = Vec::new();
                    self.tell(&names[0], &names[1], inside, &mut own, nested);
                    let ended = SessionEvent::new(Payload::SubagentCompleted(SubagentCompleted {
                        tool_use_id: call.as_str().into(),
                        agent_id: Some(agent.trim_start_matches("agent-").into()),
                        subagent_id: None,
                        status: CompletedStatus::Completed,
                        output: Some(Json::string("found")),
                        duration_ms: Some(7),
                        unplaced: false,
                    }));
                    let linked = SessionEvent::new(Payload::SubagentSpawned(SubagentSpawned {
                        agent_id: Some(agent.as_str().into()),
                        background: *background,
                        ..SubagentSpawned::by(call.as_str())
                    }));
                    let last = if *done { ended } else { linked };
                    let mut streamed_last = last.clone().within(in_stream.clone());
                    if *start == Start::Unseen {
                        match &mut streamed_last.payload {
                            Payload::SubagentSpawned(payload) => payload.unplaced = true,
                            Payload::SubagentCompleted(payload) => payload.unplaced = true,
                            _ => {}
                        }
                    }
                    self.stream.push(streamed_last.from_source(SourceKind::Stream));
                    file.push(last.within(in_file.clone()).from_source(SourceKind::Transcript));
                    nested.extend(own);
                }
                Piece::Idle => {
                    let idle = SessionEvent::new(Payload::SessionIdle(EmptyPayload {}));
                    self.stream.push(
                        idle.clone().within(in_stream.clone()).from_source(SourceKind::Stream),
                    );
                    file.push(idle.within(in_file.clone()).from_source(SourceKind::Transcript));
                }
                Piece::Compaction if main => {
                    let compaction = SessionEvent::new(Payload::ContextChanged(ContextChanged {
                        kind: ContextChange::Compaction,
                        head: None,
                        summary: None,
                        blocks: Vec::new(),
                    }));
                    self.stream.push(compaction.clone().from_source(SourceKind::Stream));
                    file.push(compaction.from_source(SourceKind::Transcript));
                }
                Piece::Compaction => {}
            }
        }
    }

    /// Writes one block to both sides.
    fn both(
        &mut self,
        block: Block,
        places: [&mut Placement; 2],
        names: [&ConversationId; 2],
        file: &mut Vec<SessionEvent>,
    ) {
        let [streamed, filed] = places;
        self.stream.push(told(block.clone(), streamed, names[0], SourceKind::Stream));
        file.push(told(block, filed, names[1], SourceKind::Transcript));
    }

    fn preview(&mut self, id: &str, parts: &[String], after: &Placement, name: &ConversationId) {
        let mut block = Block::new(id, AssistantTextBlock { content: "".into(), model: None });
        block.status = BlockStatus::Pending;
        let start = BlockUpsert { block, after: after.clone(), replaces: None, preview: true };
        let mut said = vec![Payload::BlockUpsert(start)];
        let mut offset = 0;
        for part in parts {
            said.push(Payload::BlockDelta(BlockDelta {
                block_id: id.into(),
                delta: part.as_str().into(),
                field: TextField::Content,
                offset: Some(offset),
            }));
            offset += part.len() as u64;
        }
        self.stream.extend(said.into_iter().map(|payload| {
            SessionEvent::new(payload).within(name.clone()).from_source(SourceKind::Stream)
        }));
    }
}

/// Returns the upsert of a block, placed after the source's previous block.
fn told(
    block: Block,
    place: &mut Placement,
    name: &ConversationId,
    kind: SourceKind,
) -> SessionEvent {
    let after = std::mem::replace(place, Placement::After(block.id.clone()));
    let said = BlockUpsert { block, after, replaces: None, preview: false };
    SessionEvent::new(Payload::BlockUpsert(said)).within(name.clone()).from_source(kind)
}

/// Interleaves both sides of a session, keeping each side's order: `turns` selects the next
/// side.
pub fn interleave(session: &Session, turns: &[bool]) -> Vec<SessionEvent> {
    let (mut stream, mut files) = (session.stream.iter(), session.files.iter());
    let mut woven = Vec::new();
    for &streams in turns {
        woven.extend(if streams { stream.next() } else { files.next() }.cloned());
    }
    woven.extend(stream.cloned());
    woven.extend(files.cloned());
    woven
}

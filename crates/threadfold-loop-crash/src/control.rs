//! The control: a loop that records a turn only after its tools have run, as many loops do.
//!
//! After a crash it asks the model again, so its tools run twice. The harness must detect that.

use std::sync::Arc;
use std::time::Instant;

use threadfold_core::{CallKey, ConversationMessage, Dialect, NextStep, Role, SessionId};
use threadfold_engine::{Options, holder};
use threadfold_loop::{
    AgentLoop, Deltas, Effect, Provider, Recorder, ScriptedProvider, Tool, ToolContext, request,
};
use threadfold_store::{Epoch, Store};

use crate::BoxError;
use crate::story::script;

pub(crate) async fn record_after(
    store: &Arc<dyn Store>,
    session: &SessionId,
    agent_loop: &AgentLoop,
    tools: &[Arc<dyn Tool>],
) -> Result<(), BoxError> {
    let options = Options::new(holder("a child"));
    let mut recorder = Recorder::open(store.clone(), session, options).await?;
    let model = ScriptedProvider::new(script());
    loop {
        match recorder.resume_plan(|_| Effect::Pure).next {
            NextStep::BeginTurn { turn } => {
                let prompt = ConversationMessage::text(Role::User, "Do the errands.");
                let new = if turn == 1 { vec![prompt] } else { Vec::new() };
                recorder.begin(agent_loop.new_turn(new)).await?;
            }
            NextStep::AskAgain { .. } => {
                let (deltas, pieces) = Deltas::channel();
                drop(pieces);
                let body = request(Dialect::Anthropic, recorder.state());
                let answer = model.ask(body, &deltas).await?;
                let mut results = Vec::new();
                for (ordinal, call) in answer.message.tool_calls.iter().enumerate() {
                    let tool = tools.iter().find(|it| it.definition().name == *call.name);
                    let tool = tool.ok_or("the script calls an unknown tool")?;
                    let context = context(session, &call.call_id, recorder.cursor().seq, ordinal);
                    results
                        .push((call.call_id.clone(), tool.call(&call.arguments, &context).await?));
                }
                recorder.answer(answer).await?;
                for (call, output) in results {
                    recorder.start(&call, Effect::Pure).await?;
                    recorder.finish(&call, output).await?;
                }
            }
            NextStep::RunTools { .. } => {
                // Only half of the turn was recorded: such a loop does not know the other half.
                let plan = recorder.resume_plan(|_| Effect::Pure);
                for planned in plan.calls.iter().filter(|it| it.call.result().is_none()) {
                    let call = &planned.call;
                    let tool = tools.iter().find(|it| it.definition().name == *call.name);
                    let tool = tool.ok_or("the script calls an unknown tool")?;
                    let context = context(session, &call.call_id, recorder.cursor().seq, 0);
                    let output = tool.call(&call.arguments, &context).await?;
                    recorder.start(&call.call_id, Effect::Pure).await?;
                    recorder.finish(&call.call_id, output).await?;
                }
            }
            NextStep::CloseTurn { .. } => recorder.complete().await?,
            NextStep::Done => {
                recorder.close().await?;
                return Ok(());
            }
        }
    }
}

/// Returns the context of a call. The control has no idempotency keys, only the model's call ids.
fn context(
    session: &SessionId,
    call: &threadfold_core::CallId,
    seq: u64,
    ordinal: usize,
) -> ToolContext {
    ToolContext {
        call_id: call.clone(),
        key: CallKey::from(call.as_str()),
        attempt: 1,
        is_resume: seq > 0 && ordinal > 0,
        session: session.clone(),
        epoch: Epoch(0),
        deadline: Some(Instant::now()),
        cancel: Default::default(),
    }
}

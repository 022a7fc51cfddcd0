//! Questions to a person.

use crate::block::{Block, BlockBody, BlockStatus, PermissionBlock};
use crate::event::{BlockUpsert, PermissionRequested, PermissionResolved, Placement};
use crate::id::{BlockId, ConversationId, RequestId};
use crate::outcome::{Anomaly, Outcome};

use super::block;
use super::step::Step;

pub(super) fn requested(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    payload: &PermissionRequested,
) -> Outcome {
    let body = PermissionBlock {
        request_id: payload.request_id.clone(),
        tool_use_id: payload.tool_use_id.clone(),
        question: payload.question.clone(),
        options: payload.options.clone(),
        answer: None,
    };
    let mut question = Block::new(block_id(&payload.request_id), body);
    question.status = BlockStatus::Pending;
    if let Some(known) =
        step.find(conversation).and_then(|slot| step.conversation(slot).entry(&question.id))
        && let BlockBody::Permission(known) = &known.shown().body
        && let BlockBody::Permission(asked) = &mut question.body
    {
        asked.answer.clone_from(&known.answer);
    }
    upsert_question(step, conversation, question)
}

pub(super) fn resolved(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    payload: &PermissionResolved,
) -> Outcome {
    let known = step
        .find(conversation)
        .and_then(|slot| step.conversation(slot).entry(&block_id(&payload.request_id)))
        .map(|entry| Block::clone(&entry.shown()))
        .filter(|block| matches!(block.body, BlockBody::Permission(_)));
    let Some(mut question) = known else {
        let request = payload.request_id.clone();
        return Outcome::Ignored(Anomaly::UnknownRequest { request });
    };
    if let BlockBody::Permission(body) = &mut question.body {
        body.answer.clone_from(&payload.answer);
    }
    question.status = BlockStatus::Complete;
    question.interrupted = false;
    upsert_question(step, conversation, question)
}

/// Returns the id of the block that shows a request.
fn block_id(request: &RequestId) -> BlockId {
    format!("permission:{request}").into()
}

fn upsert_question(step: &mut Step<'_>, conversation: &ConversationId, question: Block) -> Outcome {
    let payload = BlockUpsert {
        block: question,
        after: Placement::Unspecified,
        replaces: None,
        preview: false,
    };
    block::upsert(step, conversation, &payload)
}

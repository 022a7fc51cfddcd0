//! Permission: the agent asks its host whether a tool may be used, and goes on when it hears.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{Json, Payload, PermissionRequested, PermissionResolved};

use super::emitter::Emitter;
use super::wire::Line;
use crate::borrowed::Str;

/// Hears a question of the agent's.
pub(super) fn asked(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let Some(request) = &line.request else { return };
    let (Some("can_use_tool"), Some(id)) = (request.subtype.as_deref(), line.request_id.as_deref())
    else {
        return;
    };
    if let Some(call) = request.tool_use_id.as_deref() {
        emitter.memory.questions.insert(call.into(), id.into());
    }
    let tool = request.tool_name.as_deref().unwrap_or("a tool");
    emitter.emit(Payload::PermissionRequested(PermissionRequested {
        request_id: id.into(),
        tool_use_id: request.tool_use_id.as_deref().map(Into::into),
        question: Some(Json::string(&format!("May {tool} be used?"))),
        options: request.permission_suggestions.map(Json::from),
    }));
}

/// Hears the host's answer, where the host's words are part of what is fed.
pub(super) fn answered(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    #[derive(serde::Deserialize)]
    struct Response<'a> {
        #[serde(borrow)]
        request_id: Option<Str<'a>>,
        #[serde(borrow)]
        response: Option<&'a RawValue>,
    }
    let response = line.response.and_then(|raw| serde_json::from_str(raw.get()).ok());
    if let Some(Response { request_id: Some(id), response }) = response {
        resolve(emitter, &id, response.map(Json::from));
    }
}

/// Hears that a question is not asked any more.
pub(super) fn withdrawn(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    if let Some(id) = line.request_id.as_deref() {
        resolve(emitter, id, Some(Json::string("cancelled")));
    }
}

/// A tool that has its result was answered for, though the answer itself is not in the stream.
pub(super) fn answered_by_result(emitter: &mut Emitter<'_>, call: &str, failed: bool) {
    if let Some(id) = emitter.memory.questions.get(call).cloned() {
        resolve(emitter, &id, Some(Json::string(if failed { "deny" } else { "allow" })));
    }
}

fn resolve(emitter: &mut Emitter<'_>, id: &str, answer: Option<Json>) {
    let asked: Vec<Arc<str>> = emitter
        .memory
        .questions
        .iter()
        .filter(|(_, request)| ***request == *id)
        .map(|(call, _)| call.clone())
        .collect();
    if asked.is_empty() {
        return;
    }
    asked.iter().for_each(|call| {
        emitter.memory.questions.remove(call);
    });
    emitter.emit(Payload::PermissionResolved(PermissionResolved { request_id: id.into(), answer }));
}

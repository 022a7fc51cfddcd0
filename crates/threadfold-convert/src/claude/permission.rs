//! Permissions: the agent asks its host whether it may use a tool, and waits for the answer.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{Json, Payload, PermissionRequested, PermissionResolved};

use super::emitter::Emitter;
use super::wire::Line;
use crate::borrowed::Str;

/// Converts the agent's request for permission. Other control requests mean no event.
pub(super) fn convert_request(emitter: &mut Emitter<'_>, line: &Line<'_>) {
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

/// Converts the host's answer. Most recordings hold only what the agent wrote, and lack it.
pub(super) fn convert_response(emitter: &mut Emitter<'_>, line: &Line<'_>) {
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

/// Converts the agent's cancellation of a request.
pub(super) fn convert_cancellation(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    if let Some(id) = line.request_id.as_deref() {
        resolve(emitter, id, Some(Json::string("cancelled")));
    }
}

/// Resolves the open request of a call that now has a result.
///
/// This is the fallback for streams without the host's answer: a result proves that there was one.
pub(super) fn resolve_by_result(emitter: &mut Emitter<'_>, call: &str, is_error: bool) {
    if let Some(id) = emitter.memory.questions.get(call).cloned() {
        resolve(emitter, &id, Some(Json::string(if is_error { "deny" } else { "allow" })));
    }
}

/// Emits the answer, unless the request is unknown or already resolved.
fn resolve(emitter: &mut Emitter<'_>, id: &str, answer: Option<Json>) {
    let calls: Vec<Arc<str>> = emitter
        .memory
        .questions
        .iter()
        .filter(|(_, request)| ***request == *id)
        .map(|(call, _)| call.clone())
        .collect();
    if calls.is_empty() {
        return;
    }
    calls.iter().for_each(|call| {
        emitter.memory.questions.remove(call);
    });
    emitter.emit(Payload::PermissionResolved(PermissionResolved { request_id: id.into(), answer }));
}

//! Calls and their results, whichever view reports them.

use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use threadfold_core::{
    Block, BlockId, BlockRemove, BlockStatus, ConversationId, EventSource, Fields, Json, Payload,
    RemoveReason, SourceKind, ToolResultBlock, ToolUseBlock,
};

use super::emitter::Emitter;
use super::wire::Change;
use crate::files::within;

/// A call, as one view reports it.
#[derive(Clone, Debug, Default)]
pub(super) struct CallReport {
    pub(super) id: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) input: Option<Json>,
    /// The command that a shell runs.
    pub(super) script: Option<Arc<str>>,
    /// The call was refused before anything ran.
    pub(super) is_rejected: bool,
    /// No live view lists the call.
    pub(super) is_unlisted: bool,
}

/// The result of a call, as one view reports it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ResultReport {
    pub(super) output: Option<Json>,
    pub(super) is_error: bool,
    pub(super) duration_ms: Option<u64>,
    pub(super) exit_code: Option<i64>,
    /// The differences of each file that a patch changed.
    pub(super) diffs: Option<Json>,
    /// The text that the model received, if it is not the output.
    pub(super) model_output: Option<Json>,
    pub(super) is_rejected: bool,
    /// No live view lists the call.
    pub(super) is_unlisted: bool,
}

/// Returns the block of a call.
pub(super) fn call_block(call: &CallReport) -> Block {
    let mut block = Block::new(
        &*call.id,
        ToolUseBlock {
            tool_name: call.name.clone(),
            tool_use_id: (&*call.id).into(),
            input: call.input.clone(),
            input_text: None,
            display_name: None,
            description: call.script.clone(),
        },
    );
    block.status = BlockStatus::Pending;
    if call.is_rejected {
        block.metadata.insert("rejected", Json::of(&true));
    }
    if call.is_unlisted {
        block.metadata.insert("unlisted", Json::of(&true));
    }
    block
}

/// Returns the block of a result.
fn result_block(call: &str, result: ResultReport) -> Block {
    let mut metadata = Fields::default();
    if let Some(code) = result.exit_code {
        metadata.insert("exitCode", Json::of(&code));
    }
    if let Some(diffs) = result.diffs {
        metadata.insert("diffs", diffs);
    }
    if let Some(output) = result.model_output {
        metadata.insert("modelOutput", output);
    }
    if result.is_rejected {
        metadata.insert("rejected", Json::of(&true));
    }
    if result.is_unlisted {
        metadata.insert("unlisted", Json::of(&true));
    }
    let mut block = Block::new(
        format!("result:{call}"),
        ToolResultBlock {
            tool_use_id: call.into(),
            output: result.output,
            is_error: result.is_error,
            duration_ms: result.duration_ms,
        },
    );
    block.metadata = metadata;
    block
}

/// Returns the block of the result that the stream reported under a name of its own.
fn streamed_result(key: &Arc<str>) -> BlockId {
    BlockId::from(format!("result:{key}"))
}

/// Emits the result of a call, right after the call.
pub(super) fn emit_result(emitter: &mut Emitter<'_>, call: &str, result: ResultReport) {
    let block = result_block(call, result);
    let names = &emitter.memory.names;
    let (renamed, moved) = match (emitter.is_stream, emitter.conversation.is_main()) {
        (true, _) => (None, None),
        (false, true) => (names.renamed.get(call), None),
        (false, false) => (None, names.moved.get(call)),
    };
    let replaces = renamed.map(streamed_result);
    if let Some(block_id) = moved.map(streamed_result) {
        remove_moved(emitter, block_id);
    }
    emitter.emit_after(&BlockId::from(call), block, replaces);
}

/// Removes what the stream had reported of a call of a subagent in the main conversation.
fn remove_moved(emitter: &mut Emitter<'_>, block_id: BlockId) {
    let reason = RemoveReason::Superseded;
    let removal = Payload::BlockRemove(BlockRemove { block_id, reason });
    emitter.emit_to(&ConversationId::main(), removal);
}

/// The source of what the stream reported, while a file is read.
static STREAM: LazyLock<EventSource> = LazyLock::new(|| EventSource::of_kind(SourceKind::Stream));

/// Gives the result that the stream reported of a call the name that the file has for the call.
///
/// A file may lack the result, so that nothing else would rename it.
pub(super) fn rename_result(emitter: &mut Emitter<'_>, call: &str) {
    if emitter.is_stream {
        return;
    }
    let is_main = emitter.conversation.is_main();
    let names = &mut emitter.memory.names;
    let keys = if is_main { &names.renamed } else { &names.moved };
    let Some(key) = keys.get(call).cloned() else { return };
    let Some(result) = names.take_result(&key) else { return };
    let replaces = is_main.then(|| streamed_result(&key));
    if !is_main {
        names.moved.remove(call);
        remove_moved(emitter, streamed_result(&key));
    }
    let timestamp = emitter.timestamp.take();
    let source = std::mem::replace(&mut emitter.source, &STREAM);
    emitter.is_stream = true;
    emitter.emit_after(&BlockId::from(call), result_block(call, result), replaces);
    (emitter.timestamp, emitter.source, emitter.is_stream) = (timestamp, source, false);
}

/// Returns the output of a patch: the files that it changed, one per line.
pub(super) fn changed_files(changes: &[Change<'_>]) -> Option<Json> {
    if changes.is_empty() {
        return None;
    }
    let letter = |kind: &str| match kind {
        "add" => 'A',
        "delete" => 'D',
        _ => 'M',
    };
    let lines: Vec<String> =
        changes.iter().map(|it| format!("{} {}", letter(&it.kind), it.path)).collect();
    Some(Json::string(&lines.join("\n")))
}

/// Returns the differences of each file that a patch changed.
pub(super) fn diffs(changes: &[Change<'_>]) -> Option<Json> {
    let mut all = Fields::default();
    for change in changes {
        if let Some(diff) = &change.diff {
            all.insert(&change.path, Json::string(diff));
        }
    }
    (!all.is_empty()).then(|| Json::of(&all))
}

/// Returns the files that a patch names, as the items of its result list them.
pub(super) fn patched_files<'a>(patch: &'a str, folder: Option<&str>) -> Vec<Change<'a>> {
    let kinds = [("Add File: ", "add"), ("Update File: ", "update"), ("Delete File: ", "delete")];
    let mut changes: Vec<Change<'a>> = Vec::new();
    for line in patch.lines().filter_map(|line| line.trim_end().strip_prefix("*** ")) {
        if let Some(to) = line.strip_prefix("Move to: ") {
            if let Some(moved) = changes.last_mut().filter(|it| it.kind == "update") {
                moved.moved_to = Some(within(folder, to).into());
            }
            continue;
        }
        let named =
            kinds.iter().find_map(|(prefix, kind)| Some((line.strip_prefix(prefix)?, *kind)));
        if let Some((path, kind)) = named {
            let (path, kind) = (within(folder, path).into(), kind.into());
            changes.push(Change { path, kind, diff: None, moved_to: None });
        }
    }
    changes.sort();
    changes
}

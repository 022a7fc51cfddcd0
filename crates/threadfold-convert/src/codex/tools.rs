//! Calls and their results, whichever view reports them.

use std::sync::Arc;

use threadfold_core::{
    Block, BlockId, BlockRemove, BlockStatus, ConversationId, Fields, Json, Payload, RemoveReason,
    ToolResultBlock, ToolUseBlock,
};

use super::emitter::Emitter;
use super::wire::Change;

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
#[derive(Clone, Debug, Default)]
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

/// Emits the result of a call, right after the call.
pub(super) fn emit_result(emitter: &mut Emitter<'_>, call: &str, result: ResultReport) {
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
    let names = &emitter.memory.names;
    let (renamed, moved) = match (emitter.is_stream, emitter.conversation.is_main()) {
        (true, _) => (None, None),
        (false, true) => (names.renamed.get(call), None),
        (false, false) => (None, names.moved.get(call)),
    };
    let result = |key: &Arc<str>| BlockId::from(format!("result:{key}"));
    let replaces = renamed.map(result);
    if let Some(block_id) = moved.map(result) {
        // The stream had reported the call of a subagent in the main conversation.
        let reason = RemoveReason::Superseded;
        let removal = Payload::BlockRemove(BlockRemove { block_id, reason });
        emitter.emit_to(&ConversationId::main(), removal);
    }
    emitter.emit_after(&BlockId::from(call), block, replaces);
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
    let absolute = |path: &str| match folder {
        Some(folder) if !path.starts_with('/') => {
            format!("{}/{path}", folder.trim_end_matches('/'))
        }
        _ => path.to_owned(),
    };
    let change = |line: &'a str| {
        let line = line.trim_end().strip_prefix("*** ")?;
        let kinds =
            [("Add File: ", "add"), ("Update File: ", "update"), ("Delete File: ", "delete")];
        kinds.iter().find_map(|(prefix, kind)| {
            let path = absolute(line.strip_prefix(prefix)?);
            Some(Change { path: path.into(), kind: (*kind).into(), diff: None })
        })
    };
    let mut changes: Vec<_> = patch.lines().filter_map(change).collect();
    changes.sort();
    changes
}

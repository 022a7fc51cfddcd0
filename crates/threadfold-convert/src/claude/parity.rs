//! What Claude Code does not keep on one side, with the reason for each row.

use threadfold_core::{Block, BlockBody, Json};

use crate::agent::ParityTable;
use crate::parity::{BlockPlace, Rule, Side};

pub(super) const TABLE: ParityTable =
    ParityTable { rules: RULES, explain_block, explain_field, stores_subagents_apart: false };

const ASKED: &str = "questions-in-stream";
const PROMPT: &str = "prompt";
const OPENING: &str = "subagent-opening";
const HARNESS: &str = "harness-lines";
const FILLER: &str = "resume-filler";
const UNCALLED: &str = "uncalled-agents";
const FILE_RETRY: &str = "api-errors-in-file";
const STREAM_RETRY: &str = "api-retries-in-stream";
const FILE_HOOK: &str = "hooks-in-file";
const STREAM_HOOK: &str = "hooks-in-stream";
const DENIED: &str = "denials-in-stream";
const TIME: &str = "timestamp";
const STRUCTURED: &str = "structured-result";
const OUTCOME: &str = "background-outcome";

const RULES: &[Rule] = &[
    Rule {
        name: PROMPT,
        what: "`user_message` of the main conversation, in the file only",
        reason: "a person's prompt is handed to the agent, which does not say it again in its stream",
    },
    Rule {
        name: OPENING,
        what: "the first `user_message` of a subagent, in the file only",
        reason: "the stream does not tell what a background subagent (any version) or any subagent (1.0) was asked; the call does",
    },
    Rule {
        name: HARNESS,
        what: "`system` of subtype command, notice or task_notification, in the file only",
        reason: "what the harness tells the model in a person's place is written down and not streamed",
    },
    Rule {
        name: FILLER,
        what: "`assistant_text` of the model `<synthetic>`, in the file only",
        reason: "a resume writes an answer into the file that nobody gave",
    },
    Rule {
        name: UNCALLED,
        what: "all blocks of a subagent without a call, in the file only",
        reason: "warm-ups, prompt suggestions and side questions have files and are not streamed",
    },
    Rule {
        name: FILE_RETRY,
        what: "`system` of subtype api_error, in the file only",
        reason: "the file's line about a failed request has another name than the stream's",
    },
    Rule {
        name: STREAM_RETRY,
        what: "`system` of subtype api_retry, in the stream only",
        reason: "the stream's line about a failed request has another name than the file's, and old files have none",
    },
    Rule {
        name: FILE_HOOK,
        what: "`system` of subtype hook, in the file only",
        reason: "a hook's line in the file has another name than the one in the stream",
    },
    Rule {
        name: STREAM_HOOK,
        what: "`system` of subtype hook, in the stream only",
        reason: "a hook's line in the stream has another name than the one in the file",
    },
    Rule {
        name: DENIED,
        what: "`system` of subtype permission_denied, in the stream only",
        reason: "the file tells a denial by the call's result alone",
    },
    Rule {
        name: ASKED,
        what: "`permission`, in the stream only",
        reason: "the file tells what came of a call and not what a person was asked before it",
    },
    Rule {
        name: TIME,
        what: "`timestamp`, absent in the stream",
        reason: "versions before 2.1.325 put no time on most lines of the stream",
    },
    Rule {
        name: STRUCTURED,
        what: "`metadata.structured` of a tool's result, absent in the stream",
        reason: "1.0 does not stream the structured form of results",
    },
    Rule {
        name: OUTCOME,
        what: "`output` and `durationMs` of a subagent, absent in the stream",
        reason: "2.1.197 streams that a background task ended and not what it gave; 1.0 does not stream how long a subagent took",
    },
];

fn explain_block(place: &BlockPlace, block: &Block, side: Side) -> Option<&'static str> {
    if side == Side::Transcript && place.is_uncalled {
        return Some(UNCALLED);
    }
    match (&block.body, side) {
        (BlockBody::Permission(_), Side::Stream) => Some(ASKED),
        (BlockBody::UserMessage(_), Side::Transcript) if place.depth == 0 => Some(PROMPT),
        (BlockBody::UserMessage(_), Side::Transcript) => Some(OPENING),
        (BlockBody::AssistantText(body), Side::Transcript)
            if body.model.as_deref() == Some("<synthetic>") =>
        {
            Some(FILLER)
        }
        (BlockBody::System(body), Side::Transcript) => match &*body.subtype {
            "command" | "notice" | "task_notification" => Some(HARNESS),
            "api_error" => Some(FILE_RETRY),
            "hook" => Some(FILE_HOOK),
            _ => None,
        },
        (BlockBody::System(body), Side::Stream) => match &*body.subtype {
            "api_retry" => Some(STREAM_RETRY),
            "hook" => Some(STREAM_HOOK),
            "permission_denied" => Some(DENIED),
            _ => None,
        },
        _ => None,
    }
}

fn explain_field(block_type: Option<&Json>, field: &str) -> Option<&'static str> {
    let is = |kind: &str| block_type.and_then(Json::to_text).as_deref() == Some(kind);
    match field {
        "timestamp" => Some(TIME),
        "metadata.structured" if is("tool_result") => Some(STRUCTURED),
        "output" | "durationMs" if block_type.is_none() || is("subagent") => Some(OUTCOME),
        _ => None,
    }
}

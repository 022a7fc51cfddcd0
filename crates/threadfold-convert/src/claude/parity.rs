//! What Claude Code reports in only one of stream and file, with the reason for each rule.

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
        reason: "the host sends the prompt to the agent, and the agent does not repeat it in its stream",
    },
    Rule {
        name: OPENING,
        what: "the first `user_message` of a subagent, in the file only",
        reason: "the stream omits the first prompt of background subagents (any version) and of all subagents (1.0); the call contains it",
    },
    Rule {
        name: HARNESS,
        what: "`system` of subtype command, notice or task_notification, in the file only",
        reason: "messages that the harness sends to the model as the user are stored and not streamed",
    },
    Rule {
        name: FILLER,
        what: "`assistant_text` of the model `<synthetic>`, in the file only",
        reason: "a resume writes a placeholder answer into the file that no model gave",
    },
    Rule {
        name: UNCALLED,
        what: "all blocks of a subagent without a call, in the file only",
        reason: "warm-ups, prompt suggestions and side questions have files of their own and are not streamed",
    },
    Rule {
        name: FILE_RETRY,
        what: "`system` of subtype api_error, in the file only",
        reason: "the file reports a failed request under another id than the stream",
    },
    Rule {
        name: STREAM_RETRY,
        what: "`system` of subtype api_retry, in the stream only",
        reason: "the stream reports a failed request under another id than the file, and old files omit it",
    },
    Rule {
        name: FILE_HOOK,
        what: "`system` of subtype hook, in the file only",
        reason: "the file reports a hook under another id than the stream",
    },
    Rule {
        name: STREAM_HOOK,
        what: "`system` of subtype hook, in the stream only",
        reason: "the stream reports a hook under another id than the file",
    },
    Rule {
        name: DENIED,
        what: "`system` of subtype permission_denied, in the stream only",
        reason: "the file reports a denial only as the result of the call",
    },
    Rule {
        name: ASKED,
        what: "`permission`, in the stream only",
        reason: "the file stores the result of a call and not the question that preceded it",
    },
    Rule {
        name: TIME,
        what: "`timestamp`, absent in the stream",
        reason: "versions before 2.1.325 write no timestamp on most lines of the stream",
    },
    Rule {
        name: STRUCTURED,
        what: "`metadata.structured` of a tool's result, absent in the stream",
        reason: "1.0 does not stream structured results",
    },
    Rule {
        name: OUTCOME,
        what: "`output` and `durationMs` of a subagent, absent in the stream",
        reason: "2.1.197 streams the end of a background task without its output; 1.0 does not stream the duration of subagents",
    },
];

fn explain_block(place: &BlockPlace, block: &Block, side: Side) -> Option<&'static str> {
    // This comes first: every kind of block of such a subagent is missing in the stream.
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

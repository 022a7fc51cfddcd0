//! What the agent itself does not keep on one side, with the reason for each row.

use threadfold_core::{Block, BlockBody, Json};

use super::{Pair, Side};
use crate::record::Agent;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The row's name.
    pub name: &'static str,
    /// What it is about.
    pub what: &'static str,
    /// Why it is not on both sides.
    pub reason: &'static str,
}

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

/// Returns the table of an agent.
pub fn rules(agent: Agent) -> &'static [Rule] {
    match agent {
        Agent::Claude => CLAUDE,
        Agent::Opencode => OPENCODE,
        // Only what is understood can be compared.
        Agent::Other => &[],
    }
}

const OPENCODE: &[Rule] = &[Rule {
    name: ASKED,
    what: "`permission`, in the stream only",
    reason: "OpenCode keeps what a tool did and not what a person was asked before it",
}];

const CLAUDE: &[Rule] = &[
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

/// Returns the row that explains a block on one side only.
pub(super) fn for_block(pair: &Pair<'_>, block: &Block, side: Side) -> Option<&'static str> {
    if matches!(block.body, BlockBody::Permission(_)) && side == Side::Stream {
        return Some(ASKED);
    }
    if pair.agent == Agent::Opencode {
        return None;
    }
    let depth = pair.depth;
    let told = pair.headers[1].as_ref();
    if side == Side::Transcript
        && depth > 0
        && told.is_some_and(|header| header.tool_use_id.is_none())
    {
        return Some(UNCALLED);
    }
    match (&block.body, side) {
        (BlockBody::UserMessage(_), Side::Transcript) if depth == 0 => Some(PROMPT),
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

/// Returns the row that explains a field that only the file has: of a block of this type, or of a
/// subagent itself.
pub(super) fn for_field(
    agent: Agent,
    of: Option<&Json>,
    name: &str,
    stream: Option<&Json>,
    transcript: Option<&Json>,
) -> Option<&'static str> {
    if agent != Agent::Claude || stream.is_some() || transcript.is_none() {
        return None;
    }
    let is = |kind: &str| of.and_then(Json::to_text).as_deref() == Some(kind);
    match name {
        "timestamp" => Some(TIME),
        "metadata.structured" if is("tool_result") => Some(STRUCTURED),
        "output" | "durationMs" if of.is_none() || is("subagent") => Some(OUTCOME),
        _ => None,
    }
}

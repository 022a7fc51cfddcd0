//! Evidence: what one side shows about runs, turns and tasks, which supports or refutes the other side.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use threadfold_core::Json;

use super::RecordName;

/// What the records of one side show about runs, turns and tasks.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The turns that a stream shows; 0 if it shows none.
    pub turns: usize,
    /// The turns for which a file reports that their prompt was taken from the agent's queue; 0 if it
    /// reports none.
    pub dequeued: usize,
    /// The last answer of a stream ended its turn, and nothing else was at work.
    pub is_complete: bool,
    /// A stream ends within a call of the main conversation, or right after it.
    pub is_in_call: bool,
    /// A file ends with the agent's own account of the run, which it writes when it exits.
    pub has_account: bool,
    /// A file has answers right after its last account, which does not count them: the agent wrote it
    /// before.
    pub is_account_early: bool,
    /// A run began although one before it had not ended, or had failed.
    pub was_resumed: bool,
    /// The model called a script, which may make calls of its own.
    pub has_scripts: bool,
    /// The blocks of prompts that a file reports as delivered while the agent was at work: they open no
    /// turn.
    pub delivered: BTreeSet<String>,
    /// The subagents of which there is a file with lines.
    pub subagent_files: BTreeSet<String>,
    /// The messages of a file that are in the conversation of a subagent.
    pub(crate) subagent_messages: BTreeSet<RecordName>,
    /// What was put into the agent's queue.
    pub(crate) enqueued: usize,
    /// What was put into the agent's queue without its words.
    pub(crate) enqueued_silently: usize,
    /// What was put into the agent's queue, and taken from it to open a turn.
    pub(crate) taken: usize,
    /// Prompts that the agent took from its queue while it was at work: the block of each, if the queue
    /// names it, and the words.
    pub(crate) absorbed: Vec<(Option<String>, String)>,
    /// Lines of a file with the line that each follows, which no file has.
    pub(crate) orphans: Vec<(RecordName, String)>,
    /// The answers of the main conversation, in their order.
    pub(crate) answers: Vec<Answer>,
    /// The reports at the ends of runs, in their order.
    pub(crate) reports: Vec<RunReport>,
    /// Calls that were denied.
    pub(crate) denied: BTreeSet<String>,
    /// Tasks, and the calls that may have started them.
    pub(crate) tasks: BTreeSet<String>,
    /// The statuses with which each task ended.
    pub(crate) task_ends: BTreeMap<String, BTreeSet<String>>,
    /// The calls that started each task, as its starts in a stream name them.
    pub(crate) task_starts: BTreeMap<String, BTreeSet<Option<String>>>,
    /// The progress and the ends of tasks in a stream.
    pub(crate) task_events: Vec<TaskEvent>,
    /// Notifications to the model that a task ended.
    pub(crate) task_notices: Vec<TaskNotice>,
    /// Prompts that were delivered while the agent was at work.
    pub(crate) queued_prompts: Vec<QueuedPrompt>,
    /// How many notifications were delivered while the agent was at work.
    pub(crate) queued_notices: usize,
    /// Hooks that a file reports.
    pub(crate) stored_hooks: Vec<StoredHook>,
    /// Events whose hooks a stream reports.
    pub(crate) hook_events: BTreeSet<String>,
    /// A file reports that a run reached its limit of turns.
    pub(crate) has_turn_limit: bool,
    /// The ids of lines, with their places.
    pub(crate) lines: BTreeMap<String, usize>,
}

/// An answer of the main conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) id: String,
    /// It was shown while it arrived.
    pub(crate) is_streamed: bool,
    /// Its line already had a stop reason, so it arrived as a whole.
    pub(crate) is_whole: bool,
    /// The agent wrote it itself.
    pub(crate) is_synthetic: bool,
    /// It reports an error.
    pub(crate) is_error: bool,
    /// The kind of error that the newest versions name.
    pub(crate) api_error: Option<String>,
    /// Why it ended, if the stream reports that.
    pub(crate) reason: Option<String>,
    /// The tokens that were counted while it was streamed.
    pub(crate) usage: BTreeMap<String, u64>,
    /// The text of its last block, which is empty if that is no text; nothing if no line has a block of
    /// it.
    pub(crate) last_text: Option<String>,
}

/// The report at the end of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunReport {
    pub(crate) record: RecordName,
    pub(crate) fields: Map<String, Value>,
    /// How many answers precede it.
    pub(crate) answers: usize,
    /// How many answers precede its turn.
    pub(crate) answers_before_turn: usize,
    /// The line before it is the mark of an interruption.
    pub(crate) is_interrupted: bool,
    /// How many lines to the model its run streamed.
    pub(crate) lines_to_model: usize,
    /// How many of them precede its turn.
    pub(crate) lines_before_turn: usize,
    /// Its run compacted the conversation.
    pub(crate) has_compaction: bool,
}

/// A prompt that was delivered while the agent was at work.
#[derive(Clone, Debug)]
pub(crate) struct QueuedPrompt {
    pub(crate) record: RecordName,
    pub(crate) words: String,
    /// An answer follows it.
    pub(crate) is_answered: bool,
}

/// A notification to the model that a task ended.
#[derive(Clone, Debug)]
pub(crate) struct TaskNotice {
    pub(crate) record: RecordName,
    pub(crate) task: Option<String>,
    pub(crate) call: Option<String>,
    pub(crate) status: Option<String>,
    /// Where the task's output is.
    pub(crate) output_file: Option<String>,
}

/// A record of a stream about a task: its progress or its end.
#[derive(Clone, Debug)]
pub(crate) struct TaskEvent {
    pub(crate) record: RecordName,
    pub(crate) task: String,
    /// The call that started it.
    pub(crate) call: Option<String>,
    /// Records of this kind name the call.
    pub(crate) names_call: bool,
    /// How many tools it called before its end.
    pub(crate) tool_uses: Option<u64>,
    /// How it ended.
    pub(crate) status: Option<String>,
    /// Where the task's output is.
    pub(crate) output_file: Option<String>,
}

/// A hook that a file reports.
#[derive(Clone, Debug)]
pub(crate) struct StoredHook {
    pub(crate) record: RecordName,
    pub(crate) event: String,
    /// The line that it follows; nothing if the file does not say, or has no such line.
    pub(crate) line: Option<String>,
    /// It is at the start of the file.
    pub(crate) is_start: bool,
}

/// What comparing the evidence of both sides found.
#[derive(Clone, Debug, Default)]
pub struct CrossCheck {
    /// Values that the other side refutes, and lines for which there is no evidence.
    pub refuted: Vec<Refutation>,
    /// How many stored hooks belong to lines of both sides, where the stream reports no hooks.
    pub unstreamed_hooks: usize,
}

/// A value that the other side refutes.
#[derive(Clone, Debug)]
pub struct Refutation {
    /// The record.
    pub record: RecordName,
    /// The field.
    pub field: String,
    /// The stream's value.
    pub stream: Option<Json>,
    /// The transcript's value.
    pub transcript: Option<Json>,
}

impl CrossCheck {
    /// Adds a value of the stream that other records refute; they imply the second value.
    pub(crate) fn refute(&mut self, record: &RecordName, field: &str, found: Json, implied: Json) {
        let (record, field) = (record.clone(), field.to_owned());
        let (stream, transcript) = (Some(found), Some(implied));
        self.refuted.push(Refutation { record, field, stream, transcript });
    }

    /// Adds a line of the transcript that follows a line which the transcript lacks.
    pub(crate) fn miss(&mut self, record: &RecordName, parent: &str) {
        let (record, field) = (record.clone(), "parentUuid".to_owned());
        let (stream, transcript) = (None, Some(Json::string(parent)));
        self.refuted.push(Refutation { record, field, stream, transcript });
    }

    /// Adds a line of the transcript for which there is no evidence.
    pub(crate) fn reject(&mut self, record: &RecordName, found: Json) {
        let (record, field) = (record.clone(), "record".to_owned());
        let (stream, transcript) = (None, Some(found));
        self.refuted.push(Refutation { record, field, stream, transcript });
    }
}

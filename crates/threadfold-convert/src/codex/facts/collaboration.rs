//! What calls that begin, address or resume subagents returned to the model, and what their items
//! have of it.
//!
//! The output of a call is in the file alone. Its item has the thread that began, its path or the
//! status of the subagent; the turn that an input begins has the id that the input returned.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use threadfold_core::Json;

use super::{canonical, contents, text};
use crate::codex::outputs::ModelOutput;
use crate::codex::wire::with_underscores;
use crate::parity::{Facts, RecordName};

/// The calls of one side so far.
#[derive(Default)]
pub(super) struct Collaboration {
    /// The calls of the file that have no output yet, by id.
    open: BTreeMap<String, Call>,
    /// What calls of the file returned, by id; nothing if that cannot be read.
    returned: Vec<(String, Call, Option<String>)>,
    /// What items of the file have of what their calls returned, by the id of the call.
    items: BTreeMap<String, BTreeSet<Option<String>>>,
    /// The turn of the file that began and has no prompt yet.
    unprompted_turn: Option<String>,
    /// The turns that each prompt of a thread began.
    begun: BTreeMap<(String, String), BTreeSet<String>>,
}

/// A call whose output is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    form: Form,
    /// The thread that calls.
    thread: String,
    /// What both sides have of the call: its prompt, its id or the thread that it is about.
    subject: String,
    /// The prompt, if it is for a thread that exists.
    prompt: Option<String>,
}

/// What a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The thread of the subagent that began.
    Thread,
    /// The path of the subagent that began.
    Path,
    /// The id of what was sent, which is that of the turn that it begins.
    Submission,
    /// The status of the subagent that was resumed.
    Status,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Path => "path",
            Self::Submission => "submission",
            Self::Status => "status",
        }
    }
}

impl Collaboration {
    /// Reads an item of either live view that ended, of a thread.
    pub(super) fn read_item(&mut self, facts: &mut Facts, thread: &str, item: &Value) {
        let Some((call, value)) = of_item(thread, item) else { return };
        let Some(value) = value else { return };
        let thread = call.thread.clone();
        for record in state(facts, &call, Some(&value)) {
            facts.places.insert(record, thread.clone());
        }
    }

    /// Reads a record of the file of a thread.
    pub(super) fn read_stored(&mut self, facts: &mut Facts, thread: &str, record: &Value) {
        let payload = &record["payload"];
        if text(record, "type") == Some("session_meta") {
            state_agent(facts, text(payload, "id"), payload);
            return;
        }
        match text(payload, "type").unwrap_or("") {
            "function_call" => {
                let call = of_call(thread, payload);
                if let (Some(id), Some(call)) = (text(payload, "call_id"), call) {
                    self.open.insert(id.to_owned(), call);
                }
            }
            "function_call_output" => self.read_output(facts, payload),
            "task_started" => {
                self.unprompted_turn = text(payload, "turn_id").map(str::to_owned);
            }
            "user_message" => self.begin_turn(thread, text(payload, "message")),
            "item_completed" => {
                let item = &payload["item"];
                if text(item, "type") == Some("UserMessage") {
                    let parts = item["content"].as_array().into_iter().flatten();
                    let words: Vec<&str> = parts.filter_map(|it| text(it, "text")).collect();
                    self.begin_turn(thread, Some(&words.join("\n")));
                }
                for agent in item["receiver_agents"].as_array().into_iter().flatten() {
                    state_agent(facts, text(agent, "thread_id"), agent);
                }
                self.read_stored_item(thread, item);
            }
            "sub_agent_activity" => self.read_stored_item(thread, payload),
            _ => {}
        }
    }

    fn read_stored_item(&mut self, thread: &str, item: &Value) {
        let id = text(item, "id").or_else(|| text(item, "event_id"));
        if let (Some(id), Some((_, value))) = (id, of_item(thread, item)) {
            self.items.entry(id.to_owned()).or_default().insert(value);
        }
    }

    fn read_output(&mut self, facts: &mut Facts, payload: &Value) {
        let id = text(payload, "call_id").unwrap_or("");
        let Some(call) = self.open.remove(id) else { return };
        let raw = Json::of(&payload["output"]);
        // The item may have ended just before a person interrupted the call.
        if ModelOutput::read(raw.raw()).is_aborted {
            return;
        }
        let output: Value = text(payload, "output")
            .and_then(|it| serde_json::from_str(it).ok())
            .unwrap_or_default();
        let value = match call.form {
            Form::Thread => {
                state_agent(facts, text(&output, "agent_id"), &output);
                text(&output, "agent_id").map(str::to_owned)
            }
            Form::Path => text(&output, "task_name").map(str::to_owned),
            Form::Submission => text(&output, "submission_id").map(str::to_owned),
            Form::Status => output.get("status").map(status),
        };
        if call.form != Form::Submission {
            state(facts, &call, value.as_deref());
        }
        self.returned.push((id.to_owned(), call, value));
    }

    /// Notes the prompt that began a turn of the file.
    fn begin_turn(&mut self, thread: &str, prompt: Option<&str>) {
        if let (Some(turn), Some(prompt)) = (self.unprompted_turn.take(), prompt) {
            let place = (thread.to_owned(), prompt.to_owned());
            self.begun.entry(place).or_default().insert(turn);
        }
    }

    /// Compares what calls returned with their items, and with the turns that they began.
    pub(super) fn finish(self, facts: &mut Facts) {
        for (id, call, value) in &self.returned {
            let in_item = self.items.get(id).filter(|_| call.form != Form::Submission);
            let is_sent = call.form == Form::Submission && self.items.contains_key(id);
            let prompt = call.prompt.clone().unwrap_or_default();
            let turns = self.begun.get(&(call.subject.clone(), prompt));
            let turns = turns.filter(|_| call.form == Form::Submission);
            let is_right = in_item.is_none_or(|it| it.contains(value))
                && turns.is_none_or(|it| value.as_ref().is_some_and(|value| it.contains(value)))
                && (!is_sent || value.is_some());
            if !is_right {
                let record = RecordName::new("call", id);
                let expected = match turns {
                    Some(turns) => Json::of(turns),
                    None => Json::of(&in_item),
                };
                facts.contradict(&record, "output", Json::of(value), expected);
            }
        }
    }
}

/// States what a call returned, and that there is such a call.
fn state(facts: &mut Facts, call: &Call, value: Option<&str>) -> Vec<RecordName> {
    let key = format!("{} {} {}", call.form.name(), call.thread, call.subject);
    contents::state(facts, "agent_call", &key);
    let mut records = vec![RecordName::new("agent_call", &key)];
    if let Some(value) = value {
        // The value is one word.
        let content = format!("{value} {key}");
        contents::state(facts, "agent_output", &content);
        records.push(RecordName::new("agent_output", &content));
    }
    records
}

/// Returns what the record of a call's output follows from.
pub(in crate::codex) fn call_of(output: &RecordName) -> RecordName {
    let (_, key) = output.id.split_once(' ').unwrap_or(("", &output.id));
    RecordName::new("agent_call", key)
}

/// States what a file has of a subagent in several records.
fn state_agent(facts: &mut Facts, thread: Option<&str>, agent: &Value) {
    let Some(thread) = thread else { return };
    let record = RecordName::new("stored_agent", thread);
    for names in [["agent_nickname", "nickname"], ["agent_role", "role"]] {
        let value = names.iter().find_map(|it| agent.get(*it)).filter(|it| !it.is_null());
        if let Some(value) = value {
            facts.agree(&record, names[0], value);
        }
    }
}

/// Returns the status of a subagent, as one word.
fn status(agent: &Value) -> String {
    canonical::state(agent).to_string().replace(' ', "_")
}

/// Returns the call that an item is about, if it succeeded, and what the item has of its output.
fn of_item(thread: &str, item: &Value) -> Option<(Call, Option<String>)> {
    let get = |names: [&str; 2]| names.iter().find_map(|it| item.get(*it));
    let call = |form, subject: &str| {
        let sender = get(["senderThreadId", "sender_thread_id"]).and_then(Value::as_str);
        let thread = sender.unwrap_or(thread).to_owned();
        Call { form, thread, subject: subject.to_owned(), prompt: None }
    };
    match with_underscores(text(item, "type")?).as_str() {
        "collab_agent_tool_call" | "collab_tool_call"
            if text(item, "status") == Some("completed") =>
        {
            let receivers = get(["receiverThreadIds", "receiver_thread_ids"])?.as_array()?;
            let receiver = receivers.first().and_then(Value::as_str);
            let agents = get(["agentsStates", "agents_states"]).and_then(Value::as_object);
            let agent = agents.filter(|it| it.len() == 1).and_then(|it| it.values().next());
            let status = agent.map(status);
            // `codex exec` reports a resume as a wait; what was waited for has begun.
            let is_resume = agent.is_some_and(|it| canonical::state(it)[0] == "pending_init");
            match with_underscores(text(item, "tool")?).as_str() {
                "spawn_agent" => {
                    let prompt = text(item, "prompt")?;
                    Some((call(Form::Thread, prompt), receiver.map(str::to_owned)))
                }
                "send_input" => Some((call(Form::Submission, receiver?), None)),
                "wait" if !is_resume || receivers.len() != 1 => None,
                "resume_agent" | "wait" => Some((call(Form::Status, receiver?), status)),
                _ => None,
            }
        }
        "sub_agent_activity" if text(item, "kind") == Some("started") => {
            let id = get(["id", "event_id"])?.as_str()?;
            let path = get(["agentPath", "agent_path"]).and_then(Value::as_str);
            Some((call(Form::Path, id), path.map(str::to_owned)))
        }
        _ => None,
    }
}

/// Returns the call that a record of the model makes, if what it returns is compared.
fn of_call(thread: &str, payload: &Value) -> Option<Call> {
    let arguments: Value = serde_json::from_str(text(payload, "arguments")?).ok()?;
    let items = arguments["items"].as_array().into_iter().flatten();
    let parts: Vec<&str> = items.filter_map(|it| text(it, "text")).collect();
    let written = ["message", "prompt"].iter().find_map(|it| text(&arguments, it));
    let prompt = written.map_or_else(|| parts.join("\n"), str::to_owned);
    let receiver =
        || ["id", "target"].iter().find_map(|it| text(&arguments, it)).map(str::to_owned);
    let (form, subject, prompt) = match text(payload, "name")? {
        // The newer form names what the subagent is to do.
        "spawn_agent" if arguments.get("task_name").is_some() => {
            (Form::Path, text(payload, "call_id")?.to_owned(), None)
        }
        "spawn_agent" => (Form::Thread, prompt, None),
        "send_input" => (Form::Submission, receiver()?, Some(prompt)),
        "resume_agent" => (Form::Status, receiver()?, None),
        _ => return None,
    };
    Some(Call { form, thread: thread.to_owned(), subject, prompt })
}

//! Calls that no item stands for, which live views report in forms of their own: plans, goals, and
//! input to a running process.
//!
//! The two sides share no id for them, so a report is named by its content, and by how often that
//! came.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use threadfold_core::Json;

use super::{contents, text};
use crate::codex::wire::with_underscores;
use crate::parity::{Facts, RecordName};

/// What the model reads when its plan was taken, in any version.
const PLAN_TAKEN: &str = "Plan updated";

/// What was read so far.
#[derive(Default)]
pub(super) struct UnlistedCalls {
    /// Calls of a file that have no output yet: their names and arguments.
    open: BTreeMap<String, (String, Value)>,
    /// How often each report came.
    counts: BTreeMap<String, usize>,
    /// The plan that came last.
    last_plan: Option<String>,
    /// The list that `codex exec` printed last and has not ended.
    open_list: Option<Value>,
}

impl UnlistedCalls {
    /// Reads a message of the app-server.
    pub(super) fn read_sent(&mut self, facts: &mut Facts, method: &str, params: &Value) {
        contents::state(facts, "form", "plans_without_turns");
        match method {
            "turn/plan/updated" => {
                let turn = text(params, "turnId").unwrap_or("");
                self.state_plan(facts, turn, params);
            }
            "item/commandExecution/terminalInteraction" => {
                if text(params, "itemId").is_none() {
                    missing(facts, "itemId", params);
                }
                if text(params, "stdin").is_none() {
                    missing(facts, "stdin", params);
                }
                let process = text(params, "processId").unwrap_or("");
                self.state_input(facts, process, text(params, "stdin"));
            }
            "thread/goal/updated" => {
                let goal = &params["goal"];
                // What a goal is for does not change while it is counted.
                let record = RecordName::new("goal", text(params, "threadId").unwrap_or(""));
                for name in ["threadId", "objective", "createdAt"] {
                    facts.agree(&record, name, &goal[name]);
                }
                state_goal(facts, goal);
            }
            _ => {}
        }
    }

    /// Reads a line of `codex exec`.
    pub(super) fn read_printed(&mut self, facts: &mut Facts, line: &Value) {
        let kind = text(line, "type").unwrap_or("");
        if text(&line["item"], "type") == Some("todo_list") {
            let list = &line["item"]["items"];
            if kind == "item.completed" {
                // The end repeats the list.
                let before = self.open_list.take().unwrap_or_default();
                if before != *list {
                    contradict(facts, "items", &before, list);
                }
            } else {
                self.state_list(facts, list);
                self.open_list = Some(list.clone());
            }
        } else if kind == "turn.completed"
            && let Some(list) = self.open_list.take()
        {
            missing(facts, "item.completed", &list);
        }
    }

    /// Reads a call of a file.
    pub(super) fn read_call(&mut self, payload: &Value) {
        let (Some(call), Some(name)) = (text(payload, "call_id"), text(payload, "name")) else {
            return;
        };
        if matches!(name, "update_plan" | "write_stdin" | "create_goal" | "update_goal") {
            let arguments = text(payload, "arguments").unwrap_or("");
            let arguments = serde_json::from_str(arguments).unwrap_or_default();
            self.open.insert(call.to_owned(), (name.to_owned(), arguments));
        }
    }

    /// Reads the output of a call of a file, in a turn: only now it is known whether it was taken.
    pub(super) fn read_output(&mut self, facts: &mut Facts, turn: &str, payload: &Value) {
        let call = text(payload, "call_id").unwrap_or("");
        let Some((name, arguments)) = self.open.remove(call) else { return };
        let output = text(payload, "output").unwrap_or("");
        match name.as_str() {
            "update_plan" if output.starts_with(PLAN_TAKEN) => {
                if turn.is_empty() {
                    contents::state(facts, "form", "plans_without_turns");
                }
                self.state_plan(facts, turn, &arguments);
                let steps = arguments["plan"].as_array().into_iter().flatten();
                let list = steps.map(
                    |it| json!({ "text": it["step"], "completed": it["status"] == "completed" }),
                );
                self.state_list(facts, &list.collect());
            }
            "write_stdin" => {
                let process = arguments["session_id"].to_string();
                self.state_input(facts, &process, text(&arguments, "chars"));
            }
            "create_goal" | "update_goal" => {
                let output: Value = serde_json::from_str(output).unwrap_or_default();
                if output["goal"].is_object() {
                    state_goal(facts, &output["goal"]);
                }
            }
            _ => {}
        }
    }

    fn state_plan(&mut self, facts: &mut Facts, turn: &str, plan: &Value) {
        let steps = plan["plan"].as_array().into_iter().flatten();
        let steps = steps.map(|it| {
            let status = text(it, "status").map(with_underscores);
            json!([it["step"], status])
        });
        let content = json!([plan["explanation"], steps.collect::<Vec<_>>()]);
        let content = self.counted("plan", &content);
        contents::state(facts, "plan", &content);
        if let Some(before) = self.last_plan.replace(content.clone()) {
            let record = RecordName::new("plan_order", &content);
            facts.set(&record, "after", &Value::from(before));
        }
        contents::state(facts, "stored_plan", &format!("{turn} {content}"));
        // The first version names no turns in its files.
        contents::state(facts, "stored_plan", &format!(" {content}"));
    }

    fn state_list(&mut self, facts: &mut Facts, list: &Value) {
        let items = list.as_array().into_iter().flatten();
        let content = items.map(|it| json!([it["text"], it["completed"]])).collect();
        let content = self.counted("list", &content);
        contents::state(facts, "list", &content);
    }

    fn state_input(&mut self, facts: &mut Facts, process: &str, input: Option<&str>) {
        let content = self.counted("input", &json!([process, input.unwrap_or("")]));
        contents::state(facts, "input", &content);
    }

    /// Returns a content with the number of times that it came.
    fn counted(&mut self, kind: &str, content: &Value) -> String {
        let count = self.counts.entry(format!("{kind} {content}")).or_default();
        *count += 1;
        format!("{content} {count}")
    }
}

/// States a goal, as it was at a moment.
fn state_goal(facts: &mut Facts, goal: &Value) {
    let names = [
        "threadId",
        "objective",
        "status",
        "tokensUsed",
        "timeUsedSeconds",
        "createdAt",
        "updatedAt",
    ];
    let content: Value = names.iter().map(|it| goal[*it].clone()).collect();
    contents::state(facts, "stored_goal", &content.to_string());
}

fn missing(facts: &mut Facts, field: &str, found: &Value) {
    contradict(facts, field, &Value::Null, found);
}

fn contradict(facts: &mut Facts, field: &str, first: &Value, second: &Value) {
    let record = RecordName::new("line", "");
    facts.contradict(&record, field, Json::of(first), Json::of(second));
}

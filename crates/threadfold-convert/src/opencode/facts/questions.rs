//! Questions to a person: the bus reports each beside the call of the tool that asked, and both
//! sides have the call.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use threadfold_core::Json;

use super::text;
use crate::parity::{Facts, RecordName};

/// The questions of a bus.
#[derive(Default)]
pub(super) struct Questions {
    /// The call behind each question.
    calls: BTreeMap<String, String>,
    /// The calls that asked, as questions name them, and as parts of messages.
    asked: BTreeSet<String>,
    called: BTreeSet<String>,
}

/// Returns a value as one text, so that a missing field is another value.
fn whole(value: &Value) -> Value {
    Value::from(value.to_string())
}

impl Questions {
    /// Reads a question.
    pub(super) fn ask(&mut self, facts: &mut Facts, question: &Value) {
        let (tool, id) = (&question["tool"], text(question, "id"));
        // A plugin may ask without a tool.
        let Some(call) = text(tool, "callID") else {
            if tool.is_object() {
                contradict(facts, "", "callID", question);
            }
            return;
        };
        let record = RecordName::new("question", call);
        facts.agree(&record, "questions", &whole(&question["questions"]));
        self.asked.insert(call.to_owned());
        facts.agree(&record, "messageID", &tool["messageID"]);
        facts.agree(&record, "sessionID", &question["sessionID"]);
        match id {
            Some(id) => {
                self.calls.insert(id.to_owned(), call.to_owned());
            }
            None => contradict(facts, call, "id", question),
        }
    }

    /// Reads an answer.
    pub(super) fn reply(&mut self, facts: &mut Facts, answer: &Value) {
        let request = text(answer, "requestID").unwrap_or("");
        match self.calls.get(request) {
            Some(call) => {
                let record = RecordName::new("question", call);
                facts.agree(&record, "answers", &whole(&answer["answers"]));
                facts.agree(&record, "sessionID", &answer["sessionID"]);
            }
            // The stream may begin after the question, but then it has no other.
            None if self.calls.is_empty() => {}
            None => contradict(facts, request, "requestID", answer),
        }
    }

    /// States what the call of a question has, on either side.
    pub(super) fn state_call(&mut self, facts: &mut Facts, part: &Value) {
        let Some(call) = text(part, "callID").filter(|_| part["tool"] == "question") else {
            return;
        };
        self.called.insert(call.to_owned());
        let record = RecordName::new("question", call);
        let state = &part["state"];
        if let Some(questions) = state["input"].get("questions").filter(|_| is_whole(state)) {
            facts.agree(&record, "questions", &whole(questions));
            facts.agree(&record, "messageID", &part["messageID"]);
            facts.agree(&record, "sessionID", &part["sessionID"]);
        }
        if let Some(answers) = state["metadata"].get("answers") {
            facts.agree(&record, "answers", &whole(answers));
        }
    }

    /// Checks that every question is of a call.
    pub(super) fn finish(self, facts: &mut Facts) {
        for call in self.asked.difference(&self.called) {
            contradict(facts, call, "callID", &Value::Null);
        }
    }
}

/// Returns whether the input of a call is complete.
fn is_whole(state: &Value) -> bool {
    text(state, "status").is_some_and(|it| it != "pending")
}

fn contradict(facts: &mut Facts, id: &str, field: &str, found: &Value) {
    let record = RecordName::new("question", id);
    facts.contradict(&record, field, Json::of(&()), Json::of(found));
}

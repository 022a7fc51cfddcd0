//! States what events of the newer protocol say: bus and log have them under one id.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use threadfold_core::Json;

use super::text;
use crate::opencode::time::iso;
use crate::parity::{Facts, RecordName, is_same_path};

/// The texts that are streaming, by message and by the id of the text or call in it.
#[derive(Default)]
pub(super) struct NextTexts {
    shown: BTreeMap<(String, String), String>,
}

impl NextTexts {
    /// Reads an event; `kind` is its type without the version of the log.
    pub(super) fn read(&mut self, facts: &mut Facts, kind: &str, event: &Value, about: &Value) {
        facts.sessions.extend(text(about, "sessionID").map(str::to_owned));
        let own = ["textID", "reasoningID", "callID"].iter().find_map(|name| text(about, name));
        let message = text(about, "assistantMessageID").unwrap_or("");
        let key = own.map(|own| (message.to_owned(), own.to_owned()));
        if let (true, Some(key)) = (kind.ends_with(".delta"), &key) {
            let shown = self.shown.entry(key.clone()).or_default();
            shown.push_str(text(about, "delta").unwrap_or(""));
            return;
        }
        let name = RecordName::new(kind, text(event, "id").unwrap_or(""));
        for (field, value) in about.as_object().into_iter().flatten() {
            // The bus writes a time as text, and the log as milliseconds.
            let time = value.as_f64().filter(|_| field == "timestamp").and_then(iso);
            match time {
                Some(time) => facts.set(&name, field, &Value::from(&*time)),
                None => facts.set(&name, field, value),
            }
        }
        let shown =
            key.and_then(|key| self.shown.remove(&key)).filter(|_| kind.ends_with(".ended"));
        if let Some(shown) = shown {
            confirm(facts, &name, &shown, text(about, "text"));
        }
    }
}

/// Compares a text with what was shown of it while it arrived.
fn confirm(facts: &mut Facts, name: &RecordName, shown: &str, whole: Option<&str>) {
    let input = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let is_same = match (input(shown), whole.and_then(input)) {
        (Some(shown), Some(whole)) => {
            shown.len() == whole.len()
                && shown.iter().all(|(field, value)| {
                    let other = whole.get(field);
                    other == Some(value) || is_same_path(value, other)
                })
        }
        _ => whole == Some(shown),
    };
    if !is_same {
        facts.contradict(name, "text", Json::string(shown), Json::of(&whole));
    }
}

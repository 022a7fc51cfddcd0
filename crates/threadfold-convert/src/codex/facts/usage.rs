//! Tokens of threads, and the limits of an account.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use threadfold_core::Json;

use super::{Reader, canonical, contents};
use crate::parity::RecordName;

impl Reader {
    /// Checks that a total of tokens is the one before it and the last response together.
    pub(super) fn check_total(&mut self, thread: &str, usage: &Value) {
        let find = |names: [&str; 2]| names.iter().find_map(|it| usage.get(*it)).cloned();
        let total = find(["total", "total_token_usage"]).unwrap_or_default();
        let last = find(["last", "last_token_usage"]).unwrap_or_default();
        let Value::Object(counts) = &total else { return };
        let names = |usage: &Value| -> Vec<String> {
            usage.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
        };
        if names(&total) != names(&last) {
            self.contradict("usage", thread, "counts", &total, &last);
        }
        let known = self.totals.entry(thread.to_owned()).or_default();
        let is_sum = |before: &Value| {
            counts.iter().all(|(name, count)| {
                let number = |it: &Value| it[name].as_u64().unwrap_or(0);
                count.as_u64() == Some(number(before) + number(&last))
            })
        };
        // Who goes back continues from an earlier total.
        let is_right = known.is_empty() || known.contains(&total) || known.iter().rev().any(is_sum);
        let before = known.last().cloned().unwrap_or_default();
        known.push(total.clone());
        let is_whole = known.len() > 1 || {
            let number = |names: [&str; 2]| names.iter().find_map(|it| total[*it].as_u64());
            let parts = [["inputTokens", "input_tokens"], ["outputTokens", "output_tokens"]];
            let sum = parts.iter().map(|it| number(*it).unwrap_or(0)).sum::<u64>();
            // A context that is full is reported as a total without parts.
            sum == 0 || number(["totalTokens", "total_tokens"]) == Some(sum)
        };
        if !is_right || !is_whole {
            let parts = json!({"before": before, "last": last});
            self.contradict("usage", thread, "total", &total, &parts);
        }
    }

    /// States the tokens of a thread; the last report counts.
    pub(super) fn state_usage(&mut self, thread: &str, usage: &Value) {
        let record = RecordName::new("usage", thread);
        let names = [
            ("inputTokens", "input_tokens"),
            ("cachedInputTokens", "cached_input_tokens"),
            ("outputTokens", "output_tokens"),
        ];
        let counts = names.map(|(name, stored)| {
            let count = usage.get(name).or_else(|| usage.get(stored)).and_then(Value::as_u64);
            (name, count.unwrap_or(0))
        });
        // After a review, `codex exec` reports nothing but zeros.
        if counts.iter().any(|(_, count)| *count > 0) {
            for (name, count) in counts {
                self.facts.set(&record, name, &Value::from(count));
            }
        }
    }

    /// States a total of tokens, with what the last response added to it.
    pub(super) fn state_total(&mut self, total: &Value, report: Option<(&str, &Value)>) {
        let counts = |usage: &Value| {
            let names = usage.as_object().into_iter().flatten();
            let counts = names.map(|(name, count)| (canonical::camel(name), count.clone()));
            counts.collect::<BTreeMap<String, Value>>()
        };
        let all = counts(total);
        if all.values().all(|count| count.as_u64() == Some(0)) {
            return;
        }
        let thread = report.map(|(thread, _)| thread);
        // `codex exec` prints no sum, and older versions of it only three of the counts.
        let names = ["inputTokens", "cachedInputTokens", "outputTokens"];
        let name = json!(names.map(|it| all.get(it))).to_string();
        for (kind, further) in [
            ("tokens", None),
            ("reasoning_tokens", Some("reasoningOutputTokens")),
            ("written_tokens", Some("cacheWriteInputTokens")),
        ] {
            let count = further.map(|it| json!(all.get(it)).to_string()).unwrap_or_default();
            let name = format!("{name} {count}");
            match thread.filter(|_| !self.is_reading_file) {
                Some(thread) => contents::state_in(&mut self.facts, kind, &name, thread),
                None => contents::state(&mut self.facts, kind, &name),
            }
        }
        let Some((thread, report)) = report else { return };
        let field = |names: [&str; 2]| names.iter().find_map(|it| report.get(*it));
        let last = field(["last", "last_token_usage"]).map(counts);
        let window = field(["modelContextWindow", "model_context_window"]);
        let name = json!({"total": all, "last": last, "window": window}).to_string();
        contents::state_in(&mut self.facts, "token_report", &name, thread);
        // `codex exec` reports only totals.
        if !self.has_printed {
            contents::state(&mut self.facts, "reported_usage", thread);
        }
        // A fork has copies of what another thread reported.
        if self.copied_thread.is_none() {
            let name = format!("{thread} {name}");
            contents::state_in(&mut self.facts, "stored_token_report", &name, thread);
        }
    }

    /// States the limits of an account.
    pub(super) fn state_limits(&mut self, limits: &Value) {
        let limits = canonical::without_null(canonical::camel_inside("", limits));
        // Windows of time are spelled and rounded in two ways.
        let limits = limits.as_object().into_iter().flatten();
        let limits: BTreeMap<&String, Option<&Value>> =
            limits.map(|(name, it)| (name, Some(it).filter(|it| !it.is_object()))).collect();
        let name = Json::of(&limits).to_string();
        contents::state(&mut self.facts, "limits", &name);
        contents::state(&mut self.facts, "stored_limits", &name);
    }
}

//! What the rollouts of Codex contain, and what a state shows of it.
//!
//! Older rollouts give no ids to texts, so texts and reasoning are compared by their words: each is
//! in the state of its thread as often as in the records, and calls and results once by their ids.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use threadfold_core::{BlockBody, Blocks, Content, ConversationState, PartBody};

use super::{Difference, Piece};
use crate::raw_count::codex::CodexCount;
use crate::sessions_on_disk::SessionOnDisk;

/// What one conversation shows, without names where records have none.
#[derive(Default)]
struct Contents {
    texts: BTreeMap<String, usize>,
    reasoning: BTreeMap<String, usize>,
    prompts: BTreeMap<String, usize>,
    calls: BTreeMap<String, usize>,
    results: BTreeMap<String, usize>,
}

/// Returns how many pieces were compared, and the differences.
pub(super) fn compare(
    session: &SessionOnDisk,
    state: &ConversationState,
) -> (usize, Vec<Difference>) {
    if session.is_stream {
        return (0, Vec::new());
    }
    let counts = counts(session);
    let main = counts.first().map(|it| it.thread.clone()).unwrap_or_default();
    let (mut compared, mut found) = (0, Vec::new());
    for thread in counts.iter().map(|it| it.thread.as_str()).collect::<BTreeSet<_>>() {
        let (name, blocks) = match thread == main {
            true => ("main".to_owned(), Some(state.blocks())),
            false => (thread.to_owned(), state.conversation(&thread.into())),
        };
        let shown = blocks.map(Contents::of).unwrap_or_default();
        let own = counts.iter().filter(|it| it.thread == thread);
        let mut check = Check { name: &name, compared: 0, found: &mut found };
        let (mut texts, mut reasoning, mut prompts) = <(Words, Words, Words)>::default();
        let (mut calls, mut results) = <(BTreeSet<String>, BTreeSet<String>)>::default();
        for count in own {
            add(&mut texts, count.texts());
            add(&mut reasoning, count.reasoning());
            add(&mut prompts, count.prompts.clone());
            calls.extend(count.calls.iter().cloned());
            results.extend(count.results.difference(&count.unanswered).cloned());
        }
        check.words("text", &texts, &shown.texts);
        check.words("thinking", &reasoning, &shown.reasoning);
        check.words("user", &prompts, &shown.prompts);
        check.ids("call", &calls, &shown.calls);
        check.ids("result", &results, &shown.results);
        compared += check.compared;
    }
    (compared, found)
}

type Words = BTreeMap<String, usize>;

fn add(all: &mut Words, some: Words) {
    for (text, count) in some {
        *all.entry(text).or_default() += count;
    }
}

/// Counts the files of a session; of a thread that a fork continues, the part before the fork.
fn counts(session: &SessionOnDisk) -> Vec<CodexCount> {
    let head = |bytes: &[u8]| -> Value {
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        serde_json::from_slice::<Value>(line).unwrap_or_default()["payload"].clone()
    };
    let heads: Vec<Value> = session.files.iter().map(|(_, bytes)| head(bytes)).collect();
    let main = heads.first().and_then(|it| it["id"].as_str()).unwrap_or("").to_owned();
    let mut counts = Vec::new();
    for ((_, bytes), meta) in session.files.iter().zip(&heads) {
        let id = meta["id"].as_str().unwrap_or("");
        let ends = heads.iter().map(|it| &it["history_base"]);
        let end = ends
            .filter(|base| base["thread_id"].as_str() == Some(id) && id != main)
            .find_map(|base| base["end_ordinal_exclusive"].as_u64());
        let mut count = CodexCount::default();
        count.add(bytes, end);
        if end.is_some() {
            count.thread = main.clone();
        }
        counts.push(count);
    }
    counts
}

struct Check<'a> {
    name: &'a str,
    compared: usize,
    found: &'a mut Vec<Difference>,
}

impl Check<'_> {
    fn piece(&self, kind: &'static str, name: &str, words: &str) -> Piece {
        let (name, words) = (name.to_owned(), words.to_owned());
        Piece { conversation: self.name.to_owned(), kind, name, words }
    }

    fn words(&mut self, kind: &'static str, expected: &Words, shown: &Words) {
        self.compared += expected.values().sum::<usize>();
        for text in expected.keys().chain(shown.keys()).collect::<BTreeSet<_>>() {
            let of = |words: &Words| words.get(text).copied().unwrap_or(0);
            if of(shown) < of(expected) {
                self.found.push(Difference::Missing(self.piece(kind, "", text)));
            } else if of(shown) > of(expected) {
                self.found.push(Difference::Surplus(self.piece(kind, "", text)));
            }
        }
    }

    fn ids(&mut self, kind: &'static str, expected: &BTreeSet<String>, shown: &Words) {
        self.compared += expected.len();
        for id in expected.iter().filter(|id| !shown.contains_key(*id)) {
            self.found.push(Difference::Missing(self.piece(kind, id, "")));
        }
        for (id, _) in shown.iter().filter(|(_, count)| **count > 1) {
            self.found.push(Difference::Surplus(self.piece(kind, id, "")));
        }
    }
}

impl Contents {
    fn of(blocks: Blocks<'_>) -> Self {
        let mut contents = Self::default();
        let count = |words: &mut Words, text: String| *words.entry(text).or_default() += 1;
        for block in blocks.iter() {
            match &block.body {
                BlockBody::AssistantText(it) => count(&mut contents.texts, it.content.to_string()),
                BlockBody::Thinking(it) => count(&mut contents.reasoning, it.content.to_string()),
                BlockBody::UserMessage(it) => {
                    let text = match &it.content {
                        Content::Text(text) => text.to_string(),
                        Content::Parts(parts) => parts
                            .iter()
                            .filter_map(|part| match &part.body {
                                PartBody::Text(it) => Some(it.text.to_string()),
                                _ => None,
                            })
                            .collect(),
                    };
                    count(&mut contents.prompts, text);
                }
                BlockBody::ToolUse(it) => count(&mut contents.calls, it.tool_use_id.to_string()),
                BlockBody::Subagent(it) => {
                    let id = it.tool_use_id.as_ref().map(ToString::to_string);
                    count(&mut contents.calls, id.unwrap_or_default());
                }
                BlockBody::ToolResult(it) => {
                    count(&mut contents.results, it.tool_use_id.to_string());
                }
                _ => {}
            }
        }
        contents
    }
}

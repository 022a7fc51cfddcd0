//! An item: one piece of a turn, as all three views report it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::elements::field;
use super::object::{Object, text_of};
use super::{joined, part_texts};
use crate::borrowed::Str;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::codex) enum ItemKind {
    UserMessage,
    AgentMessage,
    Reasoning,
    Plan,
    Command,
    FileChange,
    Mcp,
    Dynamic,
    Collaboration,
    SubagentActivity,
    WebSearch,
    ImageView,
    ImageGeneration,
    Compaction,
    ReviewEntered,
    ReviewExited,
    TodoList,
    Error,
    /// A kind that is not known.
    Other,
}

/// An item, in the spelling of any view.
#[derive(Debug)]
pub(in crate::codex) struct Item<'a> {
    pub(in crate::codex) kind: ItemKind,
    object: Object<'a>,
}

/// A file that a patch changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::codex) struct Change<'a> {
    pub(in crate::codex) path: Cow<'a, str>,
    /// `add`, `update` or `delete`.
    pub(in crate::codex) kind: Cow<'a, str>,
    pub(in crate::codex) diff: Option<Cow<'a, str>>,
    /// Where the file was moved.
    pub(in crate::codex) moved_to: Option<Cow<'a, str>>,
}

/// The state of a subagent, as its caller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::codex) struct AgentState {
    /// Its status, with underscores.
    pub(in crate::codex) status: String,
    /// Its last words.
    pub(in crate::codex) message: Option<String>,
}

impl<'a> Item<'a> {
    pub(in crate::codex) fn read(raw: &'a RawValue) -> Option<Self> {
        Self::of_object(Object::read(raw)?)
    }

    /// Returns the item that an object is; nothing if it names no kind.
    pub(in crate::codex) fn of_object(object: Object<'a>) -> Option<Self> {
        let kind = object.text("type")?;
        // The spelling of files, which have the most items.
        let usual = match &*kind {
            "CommandExecution" => Some(ItemKind::Command),
            "AgentMessage" => Some(ItemKind::AgentMessage),
            "Reasoning" => Some(ItemKind::Reasoning),
            _ => None,
        };
        if let Some(kind) = usual {
            return Some(Self { kind, object });
        }
        let letters: String =
            kind.chars().filter(|it| *it != '_').map(|it| it.to_ascii_lowercase()).collect();
        let kind = match letters.as_str() {
            "usermessage" => ItemKind::UserMessage,
            "agentmessage" => ItemKind::AgentMessage,
            "reasoning" => ItemKind::Reasoning,
            "plan" => ItemKind::Plan,
            "commandexecution" => ItemKind::Command,
            "filechange" => ItemKind::FileChange,
            "mcptoolcall" => ItemKind::Mcp,
            "dynamictoolcall" => ItemKind::Dynamic,
            "collabagenttoolcall" | "collabtoolcall" => ItemKind::Collaboration,
            "subagentactivity" => ItemKind::SubagentActivity,
            "websearch" => ItemKind::WebSearch,
            "imageview" => ItemKind::ImageView,
            "imagegeneration" => ItemKind::ImageGeneration,
            "contextcompaction" => ItemKind::Compaction,
            "enteredreviewmode" => ItemKind::ReviewEntered,
            "exitedreviewmode" => ItemKind::ReviewExited,
            "todolist" => ItemKind::TodoList,
            "error" => ItemKind::Error,
            _ => ItemKind::Other,
        };
        Some(Self { kind, object })
    }

    /// Returns an item of a known kind with the fields of an event of an older rollout.
    pub(in crate::codex) fn of_event(kind: ItemKind, object: Object<'a>) -> Self {
        Self { kind, object }
    }

    pub(in crate::codex) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.object.get(name)
    }

    pub(in crate::codex) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.object.text(name)
    }

    pub(in crate::codex) fn fields(&self) -> &Object<'a> {
        &self.object
    }

    pub(in crate::codex) fn id(&self) -> Option<Cow<'a, str>> {
        self.text("id").or_else(|| self.text("call_id"))
    }

    /// Returns the text of a message, a plan or a summary of reasoning.
    pub(in crate::codex) fn words(&self) -> String {
        match self.text("text") {
            Some(text) => text.into_owned(),
            None => {
                let texts = self.get("content").and_then(part_texts);
                joined(texts.unwrap_or_default(), "")
            }
        }
    }

    /// Returns the summary of reasoning: its parts, one per line. `codex exec` has it as one text.
    pub(in crate::codex) fn summary(&self) -> String {
        let parts = match self.object.get("summary") {
            Some(_) => self.object.texts("summary"),
            None => self.object.texts("summary_text"),
        };
        if parts.is_empty() {
            self.text("text").unwrap_or_default().into_owned()
        } else {
            joined(parts, "\n")
        }
    }

    /// Returns the reasoning itself, where a model shows it.
    pub(in crate::codex) fn raw_reasoning(&self) -> Option<String> {
        let raw = match self.object.get("raw_content") {
            Some(_) => self.object.texts("raw_content"),
            None => self.object.texts("content"),
        };
        (!raw.is_empty()).then(|| raw.join("\n"))
    }

    /// Returns the command that a shell runs, without the shell.
    pub(in crate::codex) fn script(&self) -> Option<String> {
        script_of(self.get("command")?)
    }

    /// Returns how long a call ran, in milliseconds.
    pub(in crate::codex) fn duration_ms(&self) -> Option<u64> {
        if let Some(duration) = self.get("duration").map(RawValue::get)
            && duration.starts_with('{')
        {
            let number = |name| field(duration, name).and_then(|it| it.parse::<u64>().ok());
            let nanos = number("nanos").unwrap_or(0);
            return Some(number("secs")?.saturating_mul(1000).saturating_add(nanos / 1_000_000));
        }
        self.object.number("duration_ms")
    }

    /// Returns the changes of a patch, by path.
    pub(in crate::codex) fn changes(&self) -> Vec<Change<'a>> {
        let Some(raw) = self.get("changes") else { return Vec::new() };
        let mut changes: Vec<_> = match Object::list(raw) {
            Some(list) => list.iter().filter_map(listed_change).collect(),
            None => match Object::read(raw) {
                Some(map) => stored_changes(&map),
                None => Vec::new(),
            },
        };
        changes.sort();
        changes
    }

    /// Returns the states of subagents, by thread.
    pub(in crate::codex) fn agent_states(&self) -> Option<BTreeMap<String, AgentState>> {
        agent_states(self.get("agents_states").or_else(|| self.get("statuses"))?)
    }
}

/// Returns a change as live views list it.
fn listed_change<'a>(change: &Object<'a>) -> Option<Change<'a>> {
    let kind = change.get("kind")?;
    let (kind, moved_to) = match Object::read(kind) {
        Some(kind) => (kind.text("type")?, kind.text("move_path")),
        None => (text_of(kind)?, None),
    };
    let diff = change.text("diff").map(|diff| match diff.rfind("\n\nMoved to: ") {
        Some(end) if kind == "update" => Cow::Owned(diff[..end].to_owned()),
        _ => diff,
    });
    Some(Change { path: change.text("path")?, kind, diff, moved_to })
}

/// Returns changes as a rollout stores them: by path.
fn stored_changes<'a>(changes: &Object<'a>) -> Vec<Change<'a>> {
    let change = |(path, raw): (&str, &'a RawValue)| {
        let change = Object::read(raw)?;
        let diff = change.text("unified_diff").or_else(|| change.text("content"));
        let (path, moved_to) = (Cow::Owned(path.to_owned()), change.text("move_path"));
        Some(Change { path, kind: change.text("type")?, diff, moved_to })
    };
    changes.fields().filter_map(change).collect()
}

/// Reads the states of subagents: `{"<thread>": {"status", "message"}}` live,
/// `{"<thread>": {"completed": "<message>"}}` or `{"<thread>": "<status>"}` in a rollout.
pub(in crate::codex) fn agent_states(raw: &RawValue) -> Option<BTreeMap<String, AgentState>> {
    let states = Object::read(raw)?;
    let state = |(thread, raw): (&str, &RawValue)| {
        let state = match Object::read(raw) {
            None => AgentState { status: text_of(raw)?.into_owned(), message: None },
            Some(state) => match state.text("status") {
                Some(status) => AgentState {
                    status: with_underscores(&status),
                    message: state.text("message").map(Cow::into_owned),
                },
                None => {
                    let (status, words) = state.fields().next()?;
                    let message = text_of(words).map(Cow::into_owned);
                    AgentState { status: status.to_owned(), message }
                }
            },
        };
        Some((thread.to_owned(), state))
    };
    Some(states.fields().filter_map(state).collect())
}

/// Returns a name in camel case with underscores.
pub(in crate::codex) fn with_underscores(name: &str) -> String {
    let mut spelled = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !spelled.is_empty() {
            spelled.push('_');
        }
        spelled.push(letter.to_ascii_lowercase());
    }
    spelled
}

/// Returns the command that a shell runs: `["bash", "-lc", SCRIPT]`, or `bash -lc SCRIPT`.
pub(in crate::codex) fn script_of(command: &RawValue) -> Option<String> {
    // Most are texts, and an error of the parser takes longer to make than the rest of this.
    if command.get().starts_with('[')
        && let Ok(words) = serde_json::from_str::<Vec<Str<'_>>>(command.get())
    {
        return Some(match words.as_slice() {
            [_, flag, script] if is_command_flag(flag) => script.to_string(),
            words => words.iter().map(|it| &**it).collect::<Vec<_>>().join(" "),
        });
    }
    let text = text_of(command)?;
    match split_words(&text).as_deref() {
        Some([_, flag, script]) if is_command_flag(flag) => Some(script.clone()),
        _ => Some(text.into_owned()),
    }
}

/// Returns whether a shell runs the word after this flag.
fn is_command_flag(flag: &str) -> bool {
    flag == "-lc" || flag == "-c"
}

/// Splits a command line as a shell would; nothing if a quote is not closed.
pub(in crate::codex) fn split_words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut is_word) = (Vec::new(), String::new(), false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => {
                is_word = true;
                loop {
                    match letters.next()? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '"' => {
                is_word = true;
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => match letters.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => {
                is_word = true;
                word.push(letters.next()?);
            }
            space if space.is_whitespace() => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            other => {
                is_word = true;
                word.push(other);
            }
        }
    }
    if is_word {
        words.push(word);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(json: &str) -> Option<String> {
        script_of(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn a_script_is_the_same_however_its_command_is_written() {
        let listed = script(r#"["/bin/bash","-lc","echo 'a b'; echo \"c\""]"#);
        let quoted = script(r#""/bin/bash -lc 'echo '\"'a b'; echo \\\"c\\\"\"''""#);
        assert_eq!(listed.as_deref(), Some("echo 'a b'; echo \"c\""));
        assert_eq!(quoted.as_deref(), Some("echo 'a b'; echo \"c\""));
        assert_eq!(script(r#""echo 'open""#).as_deref(), Some("echo 'open"));
        assert_eq!(script(r#"["ls","-l"]"#).as_deref(), Some("ls -l"));
    }
}

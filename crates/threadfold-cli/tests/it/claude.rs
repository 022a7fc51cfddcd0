//! Transcripts in Claude Code's format, built for tests.

use serde_json::{Value, json};

use crate::env::TestEnv;

/// The file of a session, or of one of its subagents, as it is being written.
pub(crate) struct Transcript {
    session: String,
    agent: Option<String>,
    lines: Vec<String>,
    parent: Option<String>,
    minute: usize,
}

impl Transcript {
    /// Begins the main file of a session.
    pub(crate) fn new(session: &str) -> Self {
        let session = session.to_owned();
        Self { session, agent: None, lines: Vec::new(), parent: None, minute: 0 }
    }

    /// Begins the file of a subagent.
    pub(crate) fn of_agent(session: &str, agent: &str) -> Self {
        Self { agent: Some(agent.to_owned()), ..Self::new(session) }
    }

    /// Adds a line below the one before, a minute later.
    pub(crate) fn line(mut self, kind: &str, fields: Value) -> Self {
        let number = self.lines.len();
        let owner = self.agent.as_deref().unwrap_or("main");
        let uuid = format!("{}-{owner}-{number}", self.session);
        let mut line = json!({
            "type": kind,
            "uuid": uuid,
            "parentUuid": self.parent,
            "sessionId": self.session,
            "timestamp": format!("2025-03-01T10:{:02}:00.000Z", self.minute),
            "isSidechain": self.agent.is_some(),
        });
        if let Some(agent) = &self.agent {
            line["agentId"] = json!(agent);
        }
        for (name, value) in fields.as_object().unwrap() {
            line[name] = value.clone();
        }
        self.parent = line["uuid"].as_str().map(str::to_owned);
        self.minute += 1;
        self.lines.push(line.to_string());
        self
    }

    /// Adds a line that stands outside the conversation.
    pub(crate) fn note(mut self, line: Value) -> Self {
        self.lines.push(line.to_string());
        self
    }

    pub(crate) fn prompt(self, content: impl Into<Value>) -> Self {
        let content: Value = content.into();
        self.line("user", json!({"message": {"role": "user", "content": content}}))
    }

    pub(crate) fn says(self, text: &str) -> Self {
        self.answers(json!({"type": "text", "text": text}))
    }

    pub(crate) fn thinks(self, text: &str) -> Self {
        self.answers(json!({"type": "thinking", "thinking": text, "signature": "c2ln"}))
    }

    pub(crate) fn calls(self, call: &str, tool: &str, input: Value) -> Self {
        self.answers(json!({"type": "tool_use", "id": call, "name": tool, "input": input}))
    }

    /// Adds a piece of the model's message; every message used 100 tokens and wrote 20.
    pub(crate) fn answers(self, piece: Value) -> Self {
        let id = format!("msg-{}-{}", self.agent.as_deref().unwrap_or("main"), self.lines.len());
        let message = json!({
            "id": id,
            "role": "assistant",
            "model": "model-large-1",
            "content": [piece],
            "usage": {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 3000},
        });
        self.line("assistant", json!({"message": message}))
    }

    pub(crate) fn gives(self, call: &str, output: impl Into<Value>) -> Self {
        let output: Value = output.into();
        self.result(json!({"type": "tool_result", "tool_use_id": call, "content": output}))
    }

    pub(crate) fn fails(self, call: &str, output: &str) -> Self {
        self.result(json!({
            "type": "tool_result", "tool_use_id": call, "content": output, "is_error": true,
        }))
    }

    fn result(self, piece: Value) -> Self {
        self.line("user", json!({"message": {"role": "user", "content": [piece]}}))
    }

    /// Adds what a subagent answered.
    pub(crate) fn answered_by(self, call: &str, agent: &str, text: &str) -> Self {
        let piece = json!({"type": "tool_result", "tool_use_id": call, "content": text});
        self.line(
            "user",
            json!({
                "message": {"role": "user", "content": [piece]},
                "toolUseResult": {
                    "status": "completed",
                    "agentId": agent,
                    "content": [{"type": "text", "text": text}],
                    "totalDurationMs": 2140,
                },
            }),
        )
    }

    pub(crate) fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Writes the file where Claude Code keeps it.
    pub(crate) fn keep(&self, env: &TestEnv, project: &str) {
        let folder = format!("claude/projects/{project}");
        let name = match &self.agent {
            None => format!("{folder}/{}.jsonl", self.session),
            Some(agent) => format!("{folder}/{}/subagents/agent-{agent}.jsonl", self.session),
        };
        env.write(&name, self.text());
    }
}

/// Keeps a session with most that a session can have: tools, thoughts, subagents within
/// subagents, a failure.
pub(crate) fn keep_notes_session(env: &TestEnv) {
    let session = "5e551011-aaaa-4000-8000-000000000001";
    Transcript::new(session)
        .note(json!({"type": "ai-title", "sessionId": session, "aiTitle": "Count the notes"}))
        .prompt("How long are my notes?\nPlease count **lines** and words.")
        .thinks("The person wants two numbers. I can count lines myself and let somebody else count the words.")
        .says("I will count the lines, and have the words counted.")
        .calls("call-1", "Bash", json!({"command": "wc -l notes.txt", "description": "Count lines"}))
        .gives("call-1", "3 notes.txt")
        .calls("call-2", "Task", json!({"subagent_type": "counter", "description": "Count words", "prompt": "Count the words in notes.txt."}))
        .answered_by("call-2", "a1", "There are **12** words.")
        .calls("call-3", "Read", json!({"file_path": "/home/somebody/a/rather/long/way/to/the/folder/of/notes/missing.txt"}))
        .fails("call-3", "<tool_use_error>File does not exist.</tool_use_error>")
        .thinks("")
        .says("## Result\n\nYour notes have:\n\n- **3** lines\n- 12 words, as `wc` counts them\n\n| file | lines | words |\n|---|--:|--:|\n| notes.txt | 3 | 12 |\n\n```sh\nwc -lw notes.txt\n```\nSee [the manual](https://example.com/wc).")
        .note(json!({"type": "cost-state", "sessionId": session, "totalCostUSD": 0.0123}))
        .keep(env, "-home-somebody-notes");
    Transcript::of_agent(session, "a1")
        .prompt("Count the words in notes.txt.")
        .calls("call-a", "Task", json!({"subagent_type": "reader", "description": "Read the notes", "prompt": "Read notes.txt aloud."}))
        .answered_by("call-a", "a2", "One two three.")
        .calls("call-b", "Bash", json!({"command": "wc -w notes.txt"}))
        .gives("call-b", json!([{"type": "text", "text": "12 notes.txt\n(that was all)"}]))
        .says("There are **12** words.")
        .keep(env, "-home-somebody-notes");
    Transcript::of_agent(session, "a2")
        .prompt("Read notes.txt aloud.")
        .says("One two three.")
        .keep(env, "-home-somebody-notes");
}

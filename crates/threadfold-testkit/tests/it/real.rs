//! What tests of a real Claude Code share: finding it, running it, and extracting its texts.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;
use threadfold_testkit::{
    AgentHome, Availability, ClaudeCode, Input, ProcessOutput, RunOptions, ScriptedModel,
    report_skipped,
};

pub(crate) const SESSION: &str = "5e550000-0000-4000-8000-000000000001";

/// Returns Claude Code, or reports that the test is skipped.
pub(crate) fn claude() -> Option<ClaudeCode> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    match ClaudeCode::find(&target.join("agents")).unwrap() {
        Availability::Found(claude) => Some(claude),
        Availability::Unavailable(reason) => {
            report_skipped(target, "real Claude Code", &reason).unwrap();
            None
        }
    }
}

/// A run to the end of a ready script.
pub(crate) struct Session {
    home: AgentHome,
    finished: ProcessOutput,
    stream: Vec<Value>,
    pub(crate) requests: usize,
}

/// Plays the ready script `name`; `None` where there is no Claude Code.
pub(crate) fn play(name: &str) -> Option<Session> {
    let claude = claude()?;
    let model = ScriptedModel::start().unwrap();
    let home = AgentHome::new().unwrap();
    let input = Input::Prompt(format!("[[play:{name}]] please run"));
    let options =
        RunOptions::new(&home, model.base_url(), input).session_id(SESSION).forward_subagent_text();

    let finished = claude.run(&options).unwrap();
    eprintln!("{name} took {:?}", finished.took);
    Some(Session {
        home,
        stream: finished.lines.iter().map(|it| json(it)).collect(),
        finished,
        requests: model.requests().len(),
    })
}

impl Session {
    /// Returns how it started and ended: the first and last lines of the stream, and the exit code.
    pub(crate) fn frame(&self) -> String {
        let [first, last] = [self.stream.first(), self.stream.last()].map(Option::unwrap);
        let code = self.finished.status.code();
        format!(
            "{} … {} {} exit {}",
            first["subtype"].as_str().unwrap(),
            last["type"].as_str().unwrap(),
            last["terminal_reason"].as_str().unwrap(),
            code.map_or("by a signal".to_owned(), |it| it.to_string()),
        )
    }

    /// Returns the texts of the main conversation.
    ///
    /// The stream and the transcript must agree.
    pub(crate) fn main(&self) -> Vec<String> {
        let is_main = |it: &&Value| it["parent_tool_use_id"].is_null();
        let streamed = said(self.stream.iter().filter(is_main));

        let name = format!("{SESSION}.jsonl");
        let mut transcripts = self.finished.transcripts.iter();
        let file = transcripts.find(|it| it.ends_with(&name)).unwrap();
        assert_eq!(streamed, said(read(file).iter()));
        streamed
    }

    /// Returns the texts of each subagent's conversation, sorted.
    ///
    /// The stream and the transcripts must agree.
    pub(crate) fn subagents(&self) -> Vec<Vec<String>> {
        let parents: BTreeSet<_> =
            self.stream.iter().filter_map(|it| it["parent_tool_use_id"].as_str()).collect();
        let mut streamed: Vec<_> = parents
            .into_iter()
            .map(|parent| {
                let theirs = |it: &&Value| it["parent_tool_use_id"] == parent;
                said(self.stream.iter().filter(theirs))
            })
            .collect();
        streamed.sort();

        let mut written: Vec<_> = self
            .finished
            .transcripts
            .iter()
            .filter(|it| it.parent().unwrap().ends_with("subagents"))
            .map(|it| said(read(it).iter()))
            .collect();
        written.sort();
        assert_eq!(streamed, written);
        streamed
    }

    /// Returns the lines of the stream of a type and subtype.
    pub(crate) fn events(&self, subtype: &str) -> impl Iterator<Item = &Value> {
        let wanted = move |it: &&Value| it["subtype"] == subtype;
        self.stream.iter().filter(wanted)
    }

    /// Returns the ids and contents of tool results in the order in which they came.
    pub(crate) fn results(&self) -> Vec<(String, Value)> {
        let content = |it: &Value| it["message"]["content"].as_array().cloned();
        self.stream
            .iter()
            .filter_map(content)
            .flatten()
            .filter(|it| it["type"] == "tool_result")
            .map(|it| {
                let id = it["tool_use_id"].as_str().unwrap();
                (id.to_owned(), it["content"].clone())
            })
            .collect()
    }

    /// Returns a file that a tool wrote into the project.
    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.home.project().join(name)).unwrap()
    }
}

/// Retells the blocks of the model, a line for each.
pub(crate) fn said<'a>(lines: impl Iterator<Item = &'a Value>) -> Vec<String> {
    lines
        .filter(|it| it["type"] == "assistant")
        .flat_map(|it| it["message"]["content"].as_array().unwrap())
        .map(|block| match block["type"].as_str().unwrap() {
            "text" => block["text"].as_str().unwrap().to_owned(),
            "thinking" => format!("({})", block["thinking"].as_str().unwrap()),
            "tool_use" => format!("→ {}", block["name"].as_str().unwrap()),
            other => format!("<{other}>"),
        })
        .collect()
}

/// Reads a transcript.
pub(crate) fn read(path: &Path) -> Vec<Value> {
    let bytes = fs::read(path).unwrap();
    let lines = bytes.split(|it| *it == b'\n').filter(|it| !it.is_empty());
    lines.map(json).collect()
}

pub(crate) fn json(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap()
}

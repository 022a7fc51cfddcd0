//! What a scripted model says, step by step.

use serde::Deserialize;
use threadfold_core::Json;

/// What a scripted model says: one step an answer.
///
/// ```
/// use threadfold_loop::Script;
///
/// let script: Script = serde_json::from_str(
///     r#"{
///         "name": "count",
///         "steps": [
///             { "text": "I count.", "calls": [{ "name": "count", "arguments": { "to": 3 } }] },
///             { "thinking": "That was all.", "text": "Done.", "delayMs": 20 }
///         ]
///     }"#,
/// )?;
/// assert_eq!(script.steps().len(), 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Script {
    pub(super) name: String,
    pub(super) steps: Vec<ScriptStep>,
}

/// One answer of a scripted model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptStep {
    /// What it thinks before it speaks.
    pub thinking: Option<String>,
    /// What it says.
    pub text: Option<String>,
    /// The tools that it asks for, in order.
    #[serde(default)]
    pub calls: Vec<ScriptCall>,
    /// How long it takes over each word.
    #[serde(default)]
    pub delay_ms: u64,
    /// What it claims to have used, in Anthropic's words.
    pub usage: Option<Json>,
}

/// A tool that a scripted model asks for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptCall {
    /// The tool.
    pub name: String,
    /// The arguments: an object as it is written here, or a text that need not be JSON.
    #[serde(default = "no_arguments")]
    pub arguments: Json,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    steps: Vec<ScriptStep>,
}

impl Script {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its steps, in order.
    pub fn steps(&self) -> &[ScriptStep] {
        &self.steps
    }
}

impl TryFrom<Written> for Script {
    type Error = String;

    /// Refuses a step that says nothing: it leaves no trace in a conversation, so that nobody
    /// could tell that it was played.
    fn try_from(written: Written) -> Result<Self, String> {
        let Written { name, steps } = written;
        let is_silent = |step: &ScriptStep| {
            step.calls.is_empty() && step.text.as_deref().is_none_or(|it| it.trim().is_empty())
        };
        match steps.iter().position(is_silent) {
            Some(at) => Err(format!("step {at} of script `{name}` has neither a text nor a call")),
            None => Ok(Self { name, steps }),
        }
    }
}

fn no_arguments() -> Json {
    Json::of(&serde_json::Map::new())
}

//! The script of a scripted model, step by step.

use serde::Deserialize;
use threadfold_core::Json;

/// The script of a scripted model: one step per answer.
///
/// ```
/// use threadfold_loop::ProviderScript;
///
/// let script: ProviderScript = serde_json::from_str(
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
#[serde(try_from = "ScriptText")]
pub struct ProviderScript {
    pub(super) name: String,
    pub(super) steps: Vec<ScriptStep>,
}

/// One answer of a scripted model.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScriptStep {
    /// The reasoning.
    pub thinking: Option<String>,
    /// The text.
    pub text: Option<String>,
    /// The tool calls, in order.
    #[serde(default)]
    pub calls: Vec<ScriptCall>,
    /// The delay before each word.
    #[serde(default)]
    pub delay_ms: u64,
    /// The token usage to report, in Anthropic's format.
    pub usage: Option<Json>,
}

/// A tool call of a scripted model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptCall {
    /// The tool.
    pub name: String,
    /// The arguments: a JSON value, or a string with raw text that need not be JSON.
    #[serde(default = "no_arguments")]
    pub arguments: Json,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptText {
    name: String,
    steps: Vec<ScriptStep>,
}

impl ProviderScript {
    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its steps, in order.
    pub fn steps(&self) -> &[ScriptStep] {
        &self.steps
    }
}

impl TryFrom<ScriptText> for ProviderScript {
    type Error = String;

    /// Refuses an empty step: it would leave no trace in the conversation, so the number of steps
    /// played could not be derived from it.
    fn try_from(written: ScriptText) -> Result<Self, String> {
        let ScriptText { name, steps } = written;
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

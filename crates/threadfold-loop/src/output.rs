//! The output of a run: text, or a value of a Rust type.

use std::any::type_name;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use threadfold_core::Json;

/// The model's last answer does not have the required type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not a valid `{wanted}`: {reason}")]
pub struct OutputError {
    /// The required type.
    pub wanted: String,
    /// What is wrong with the answer.
    pub reason: String,
    /// The answer.
    pub answer: String,
}

/// A type that the model's last answer can be parsed as.
pub trait Output: Sized {
    /// Returns the JSON schema of the answer; `None` for plain text.
    fn schema() -> Option<Json>;

    /// Parses an answer.
    fn read(answer: &str) -> Result<Self, OutputError>;
}

impl Output for String {
    fn schema() -> Option<Json> {
        None
    }

    fn read(answer: &str) -> Result<Self, OutputError> {
        Ok(answer.to_owned())
    }
}

/// A value of a Rust type, which the model writes as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonOutput<T>(pub T);

impl<T: DeserializeOwned + JsonSchema> Output for JsonOutput<T> {
    fn schema() -> Option<Json> {
        Some(Json::of(&schemars::schema_for!(T)))
    }

    fn read(answer: &str) -> Result<Self, OutputError> {
        serde_json::from_str(unfenced(answer)).map(Self).map_err(|error| OutputError {
            wanted: type_name::<T>().to_owned(),
            reason: error.to_string(),
            answer: answer.to_owned(),
        })
    }
}

/// Returns the content of a code fence, if the fence spans the whole answer.
fn unfenced(answer: &str) -> &str {
    let answer = answer.trim();
    let inner = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inner = inner.and_then(|inner| inner.split_once('\n')).map(|(_, inner)| inner);
    inner.unwrap_or(answer).trim()
}

/// Returns the instruction for the model about the form of its answer.
pub(crate) fn instruction<O: Output>() -> Option<String> {
    let schema = O::schema()?;
    Some(format!(
        "When you are done, answer with one JSON value and nothing else. It must fit this JSON \
         schema:\n{}",
        schema.as_str()
    ))
}

/// Returns the message for the model about an answer that does not have that form.
pub(crate) fn correction(error: &OutputError) -> String {
    format!(
        "Your answer cannot be read: {}. Answer again with one JSON value that fits the schema, \
         and nothing else.",
        error.reason
    )
}

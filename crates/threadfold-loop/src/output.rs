//! What a run is for: words, or a value of a Rust type.

use std::any::type_name;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use threadfold_core::Json;

/// The model's last answer is not what was wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is no `{wanted}`: {reason}")]
pub struct OutputError {
    /// The type that was wanted.
    pub wanted: String,
    /// What is wrong with the answer.
    pub reason: String,
    /// The answer.
    pub answer: String,
}

/// What a model's last answer is read as.
pub trait Output: Sized {
    /// Returns the JSON schema that the answer must have; nothing if it is words.
    fn schema() -> Option<Json>;

    /// Reads an answer.
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

/// A value of a Rust type that the model writes as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed<T>(pub T);

impl<T: DeserializeOwned + JsonSchema> Output for Typed<T> {
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

/// Returns what stands inside a code fence, if all of it does.
fn unfenced(answer: &str) -> &str {
    let answer = answer.trim();
    let inner = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inner = inner.and_then(|inner| inner.split_once('\n')).map(|(_, inner)| inner);
    inner.unwrap_or(answer).trim()
}

/// Returns what the model is told of the form that its answer must have.
pub(crate) fn instruction<O: Output>() -> Option<String> {
    let schema = O::schema()?;
    Some(format!(
        "When you are done, answer with one JSON value and nothing else. It must fit this JSON \
         schema:\n{}",
        schema.as_str()
    ))
}

/// Returns what the model is told of an answer that has not that form.
pub(crate) fn complaint(error: &OutputError) -> String {
    format!(
        "Your answer cannot be read: {}. Answer again with one JSON value that fits the schema, \
         and nothing else.",
        error.reason
    )
}

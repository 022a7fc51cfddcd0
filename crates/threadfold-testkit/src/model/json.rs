//! Parses scripts from JSON, in the format that the scripted provider uses as well.

use serde_json::Value;

use super::script::{Block, Script, Step, Usage};

/// The signature of scripted thinking.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

impl Script {
    /// Reads `{"name", "steps": [{"thinking"?, "text"?, "calls"?, "delayMs"?, "usage"?}]}`.
    ///
    /// A call is `{"name", "arguments"?}`, whose arguments are an object or a text that need not
    /// be JSON; `usage` has Anthropic's field names. Returns a message about what is invalid.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let script: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let name = script["name"].as_str().ok_or("a script without a name")?;
        let steps = script["steps"].as_array().ok_or("a script without steps")?;
        steps.iter().try_fold(Self::new(name), |script, step| Ok(script.step(read_step(step)?)))
    }
}

fn read_step(step: &Value) -> Result<Step, String> {
    let mut read = Step::new();
    if let Some(thinking) = step["thinking"].as_str() {
        read = read.thinking(thinking, SIGNATURE);
    }
    if let Some(text) = step["text"].as_str() {
        read = read.text(text);
    }
    for call in step["calls"].as_array().into_iter().flatten() {
        let name = call["name"].as_str().ok_or("a call without a name")?;
        read = match &call["arguments"] {
            Value::String(arguments) => {
                let (name, arguments) = (name.to_owned(), arguments.clone());
                read.block(Block::WrittenToolUse { name, arguments })
            }
            Value::Null => read.tool_use(name, Value::Object(serde_json::Map::new())),
            arguments => read.tool_use(name, arguments.clone()),
        };
    }
    if let Some(delay) = step["delayMs"].as_u64() {
        read = read.delay(std::time::Duration::from_millis(delay));
    }
    if step["usage"].is_object() {
        let count = |name: &str| step["usage"][name].as_u64().unwrap_or(0);
        read = read.usage(Usage {
            input: count("input_tokens"),
            output: count("output_tokens"),
            cache_read: count("cache_read_input_tokens"),
            cache_write: count("cache_creation_input_tokens"),
        });
    }
    Ok(read)
}

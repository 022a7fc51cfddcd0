//! The run that is killed: the model's script, and the result of each call.

use threadfold_core::Effect;
use threadfold_loop::ProviderScript;

/// The tools of the run, with the effect of running each one twice.
pub(crate) const TOOLS: [(&str, Effect); 8] = [
    ("look", Effect::Pure),
    ("scan", Effect::Pure),
    ("put", Effect::Idempotent),
    ("set", Effect::Idempotent),
    ("post", Effect::Probe),
    ("book", Effect::Compensable),
    ("pay", Effect::Unsafe),
    ("send", Effect::Unsafe),
];

const SCRIPT: &str = r#"{
    "name": "errands",
    "steps": [
        { "thinking": "First the bill.", "text": "I look, and pay.", "calls": [
            { "name": "look", "arguments": { "at": "bill" } },
            { "name": "pay", "arguments": { "at": "bill" } }
        ] },
        { "text": "I put it away.", "calls": [{ "name": "put", "arguments": { "at": "file" } }] },
        { "text": "Now the journey.", "calls": [
            { "name": "post", "arguments": { "at": "letter" } },
            { "name": "book", "arguments": { "at": "train" } }
        ] },
        { "text": "And the rest.", "calls": [
            { "name": "scan", "arguments": { "at": "map" } },
            { "name": "set", "arguments": { "at": "clock" } },
            { "name": "send", "arguments": { "at": "card" } }
        ] },
        { "text": "All is done." }
    ]
}"#;

/// Returns the model's script.
pub(crate) fn script() -> ProviderScript {
    serde_json::from_str(SCRIPT).expect("our own script can be read")
}

/// Returns the result of a tool, which is the same in every run.
pub(crate) fn result_of(tool: &str) -> String {
    format!("{tool}: done")
}

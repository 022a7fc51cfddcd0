//! The run that is killed: what the model says, and what each call gives.

use threadfold_core::Effect;
use threadfold_loop::Script;

/// A tool of the run, and what running it twice would do.
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

/// Returns what the model says.
pub(crate) fn script() -> Script {
    serde_json::from_str(SCRIPT).expect("our own script can be read")
}

/// Returns what a tool gives, whenever it runs.
pub(crate) fn result_of(tool: &str) -> String {
    format!("{tool}: done")
}

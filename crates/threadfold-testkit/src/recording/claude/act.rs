//! What is done to a run while it runs, and when.

use std::time::Duration;

use serde_json::{Value, json};

/// One thing that is done to a run.
#[derive(Clone, Debug)]
pub enum Act {
    /// Sends a prompt on standard input.
    Prompt(Value),
    /// Reads until a moment; that it does not come is noted.
    Wait(Moment),
    /// Reads until a moment, or for this long.
    Linger(Moment, Duration),
    /// Sends a control request on standard input.
    Request(&'static str),
    /// Sends SIGINT.
    Interrupt,
    /// Sends SIGTERM.
    Terminate,
    /// Sends SIGKILL.
    Kill,
    /// Releases answers that the model holds at a gate.
    Release(&'static str),
}

impl Act {
    /// Sends a prompt that plays a script.
    pub(super) fn play(script: &str) -> Self {
        Self::say(&format!("[[play:{script}]] please run"))
    }

    /// Sends these words as a prompt.
    pub(super) fn say(words: &str) -> Self {
        Self::Prompt(json!(words))
    }

    /// Waits for the end of a turn.
    pub(super) fn wait_for_result() -> Self {
        Self::Wait(Moment::RESULT)
    }

    /// Waits until a tool has written a file.
    pub(super) fn wait_for_file(name: &'static str) -> Self {
        Self::Wait(Moment::File(name))
    }
}

/// A moment of a run.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// It emits such a line.
    Line(&'static str, fn(&Value) -> bool),
    /// A file is in the folder in which it works.
    File(&'static str),
    /// A transcript contains this text.
    Transcript(&'static str),
}

impl Moment {
    /// The end of a turn.
    pub(super) const RESULT: Self = Self::Line("the end of a turn", |it| it["type"] == "result");
    /// A part of the second block, where scripts hold.
    pub(super) const SECOND_BLOCK: Self = Self::Line("a part of the second block", |it| {
        it["event"]["type"] == "content_block_delta" && it["event"]["index"] == 1
    });

    /// Names the moment.
    pub(super) fn name(self) -> String {
        match self {
            Self::Line(name, _) => name.to_owned(),
            Self::File(name) => format!("the file `{name}`"),
            Self::Transcript(text) => format!("a transcript with `{text}`"),
        }
    }
}

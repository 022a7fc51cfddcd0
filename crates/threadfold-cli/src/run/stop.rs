//! Explains why a run stopped, with a hint on how to continue.

use threadfold_core::SessionId;
use threadfold_loop::{LoopError, ProviderError};

use crate::error::CommandError;
use crate::store::OpenStore;

/// The command that was running.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RunCommand {
    Run,
    Resume,
}

/// Returns why a run stopped, with a hint on how to continue.
pub(super) fn explain(
    store: &OpenStore,
    session: &SessionId,
    error: LoopError,
    command: RunCommand,
) -> CommandError {
    let place =
        store.named().map_or_else(String::new, |path| format!(" --store {}", quoted(&path)));
    let name = quoted(session.as_str());
    let resume = format!("threadfold resume{place} {name}");
    let run = format!("threadfold run{place} --session {name}");
    let hint = match &error {
        LoopError::Undecided { calls } => {
            let names: Vec<_> = calls.iter().map(|it| it.call.to_string()).collect();
            let call = names.first().cloned().unwrap_or_default();
            let each = if names.len() > 1 { ", for each of these calls" } else { "" };
            format!(
                "check whether the call took effect, then pass its result with `{resume} --result {call}=TEXT`, \
                                 run it again with `--retry {call}`, or give it up with `--give-up {call}`{each}"
            )
        }
        LoopError::StillRunning { call, .. } => format!(
            "end that process and retry, or use `{resume} --result {call}=TEXT` or \
                         `--give-up {call}`"
        ),
        LoopError::NothingToDecide { .. } => {
            "`threadfold runs` shows the calls that need a decision".to_owned()
        }
        LoopError::NotStarted { .. } => {
            format!("start it with `{run} PROMPT`")
        }
        LoopError::Mismatch(_) if command == RunCommand::Run => {
            "add `--adopt` to continue with the current setup, in a new segment".to_owned()
        }
        LoopError::Mismatch(_) => {
            format!("use `{resume} --adopt` to continue with the current setup, in a new segment")
        }
        LoopError::Untrusted { .. } if command == RunCommand::Run => {
            "look at it with `threadfold view`; add `--trust` to continue it with this setup"
                .to_owned()
        }
        LoopError::Untrusted { .. } => {
            format!("`{resume} --trust` lists what it would use, and asks")
        }
        LoopError::Restore(_) => {
            "nothing was changed; run `threadfold doctor` to check the store".to_owned()
        }
        LoopError::Held { .. } => "wait until it has finished, or end that process".to_owned(),
        LoopError::LeaseLost { .. } => {
            "its work until then is kept; `threadfold runs` shows whether the run is finished"
                .to_owned()
        }
        LoopError::Provider { source: ProviderError::Unauthorized { .. }, .. } => {
            format!("use another key, then `{resume}`")
        }
        LoopError::Provider {
            source: ProviderError::Refused { .. } | ProviderError::TooLarge { .. },
            ..
        } => {
            format!(
                "nothing is lost; try another address with `{resume} --base-url URL`, another model with \
                                 `--adopt --model MODEL`, or another prompt with `{run} --withdraw PROMPT`"
            )
        }
        LoopError::Limit(_) => format!("continue with `{resume}` and a higher limit"),
        LoopError::Cancelled => {
            format!("continue with `{resume}`; an interrupted tool may need a decision")
        }
        LoopError::Provider { .. } => format!("continue with `{resume}`"),
        LoopError::Unfinished { .. } => format!(
            "continue it first with `{resume}`; if the model never answers, add `--withdraw` to replace \
                         the unanswered prompt by this one"
        ),
        LoopError::Invalid(_) => format!(
            "the request was not sent, and earlier work is kept; use another prompt, or \
                         `{resume} --adopt` to build the request again"
        ),
        LoopError::Engine(_) => return engine(error),
        _ => format!("recorded work is kept; continue with `{resume}`"),
    };
    CommandError::new(error, hint)
}

/// Quotes a word for a shell.
fn quoted(name: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./:@".contains(it);
    match !name.is_empty() && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

fn engine(error: LoopError) -> CommandError {
    match error {
        LoopError::Engine(error) => error.into(),
        other => CommandError::new(other, "try again: the store is intact"),
    }
}

//! What stops a run, with what can be done about it.

use threadfold_core::SessionId;
use threadfold_loop::{LoopError, ProviderError};

use crate::error::CommandError;
use crate::store::OpenStore;

/// What a person asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Run,
    Resume,
}

/// Returns why a run stopped, and how to go on with it.
pub(super) fn told(
    store: &OpenStore,
    session: &SessionId,
    error: LoopError,
    doing: Doing,
) -> CommandError {
    let place = store.named().map_or_else(String::new, |path| format!(" --store {}", quoted(path)));
    let name = quoted(session.as_str());
    let resume = format!("threadfold resume{place} {name}");
    let run = format!("threadfold run{place} --session {name}");
    let hint = match &error {
        LoopError::Undecided { calls } => {
            let names: Vec<_> = calls.iter().map(|it| it.call.to_string()).collect();
            let call = names.first().cloned().unwrap_or_default();
            let each = if names.len() > 1 { ", for each of them" } else { "" };
            format!(
                "find out what happened, then `{resume} --result {call}=TEXT` if it did, \
                 `--retry {call}` to run it again, or `--give-up {call}`{each}"
            )
        }
        LoopError::StillRunning { call, .. } => format!(
            "end that process and say this again, or `{resume} --result {call}=TEXT`, or \
             `--give-up {call}`"
        ),
        LoopError::NothingToDecide { .. } => {
            "`threadfold runs` tells which calls wait for a decision".to_owned()
        }
        LoopError::NotBegun { .. } => {
            format!("`{run} PROMPT` asks something")
        }
        LoopError::Mismatch(_) if doing == Doing::Run => {
            "say it again with `--adopt` to go on with what there is today, in a new segment"
                .to_owned()
        }
        LoopError::Mismatch(_) => {
            format!("`{resume} --adopt` goes on with what there is today, in a new segment")
        }
        LoopError::Restore(_) => "nothing was altered; `threadfold doctor` tells more".to_owned(),
        LoopError::Held { .. } => "wait until it is done, or end that process".to_owned(),
        LoopError::LeaseLost { .. } => {
            "what it did since is kept; `threadfold runs` tells whether it is done".to_owned()
        }
        LoopError::Provider { source: ProviderError::Unauthorized { .. }, .. } => {
            format!("give another key, then `{resume}`")
        }
        LoopError::Provider { source: ProviderError::Refused { .. }, .. } => {
            format!(
                "nothing is lost; `{resume} --base-url URL` asks elsewhere, `--adopt --model \
                 MODEL` another model, and `{run} --instead PROMPT` something else"
            )
        }
        LoopError::Limit(_) => format!("`{resume}` with a higher limit goes on"),
        LoopError::Cancelled => format!(
            "`{resume}` goes on; of a tool that was running you may be asked what became of it"
        ),
        LoopError::Provider { .. } => format!("`{resume}` goes on"),
        LoopError::Unfinished { .. } => format!(
            "`{resume}` goes on with it first; if the model gives no answer, `--instead` asks this \
             in its place"
        ),
        LoopError::Invalid(_) => format!(
            "it was not sent, and what was done before is kept; ask something else, or `{resume} \
             --adopt` makes the request anew"
        ),
        LoopError::Engine(_) => return engine(error),
        _ => format!("what was done is kept; `{resume}` goes on"),
    };
    CommandError::new(error, hint)
}

/// Returns a word as a shell takes it.
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
        other => CommandError::new(other, "try again: what is in the store is whole"),
    }
}

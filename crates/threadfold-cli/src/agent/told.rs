//! What stops a run, with what can be done about it.

use threadfold_agent::{AgentError, ProviderError};
use threadfold_core::SessionId;

use crate::error::CommandError;

/// What a person asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Run,
    Resume,
}

/// Returns why a run stopped, and how to go on with it.
pub(super) fn told(session: &SessionId, error: AgentError, doing: Doing) -> CommandError {
    let resume = format!("threadfold resume {}", quoted(session));
    let hint = match &error {
        AgentError::Undecided { calls } => {
            let names: Vec<_> = calls.iter().map(|it| it.call.to_string()).collect();
            let call = names.first().cloned().unwrap_or_default();
            let each = if names.len() > 1 { ", for each of them" } else { "" };
            format!(
                "find out what happened, then `{resume} --result {call}=TEXT` if it did, \
                 `--retry {call}` to run it again, or `--give-up {call}`{each}"
            )
        }
        AgentError::StillRunning { call, .. } => format!(
            "end that process and say this again, or `{resume} --result {call}=TEXT`, or \
             `--give-up {call}`"
        ),
        AgentError::NothingToDecide { .. } => {
            "`threadfold runs` tells which calls wait for a decision".to_owned()
        }
        AgentError::NotBegun { .. } => {
            format!("`threadfold run --session {} PROMPT` asks something", quoted(session))
        }
        AgentError::Mismatch(_) if doing == Doing::Run => {
            "say it again with `--adopt` to go on with what there is today, in a new segment"
                .to_owned()
        }
        AgentError::Mismatch(_) => {
            format!("`{resume} --adopt` goes on with what there is today, in a new segment")
        }
        AgentError::Restore(_) => "nothing was altered; `threadfold doctor` tells more".to_owned(),
        AgentError::Held { .. } => "wait until it is done, or end that process".to_owned(),
        AgentError::LeaseLost { .. } => "the other process goes on with it".to_owned(),
        AgentError::Provider { source: ProviderError::Unauthorized { .. }, .. } => {
            format!("give another key, then `{resume}`")
        }
        AgentError::Provider { source: ProviderError::Refused { .. }, .. } => {
            format!("nothing is lost; `{resume} --adopt --model MODEL` asks another model")
        }
        AgentError::Limit(_) => format!("`{resume}` with a higher limit goes on"),
        AgentError::Cancelled => format!(
            "`{resume}` goes on; of a tool that was running you may be asked what became of it"
        ),
        AgentError::Provider { .. } => format!("`{resume}` goes on"),
        AgentError::Unfinished { .. } => format!("`{resume}` goes on with it first"),
        AgentError::Invalid(_) => "nothing of it was sent or kept; ask something else".to_owned(),
        AgentError::Engine(_) => return engine(error),
        _ => format!("what was done is kept; `{resume}` goes on"),
    };
    CommandError::new(error, hint)
}

/// Returns a session's name as a shell takes it.
fn quoted(session: &SessionId) -> String {
    let name = session.as_str();
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./:@".contains(it);
    match !name.is_empty() && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

fn engine(error: AgentError) -> CommandError {
    match error {
        AgentError::Engine(error) => error.into(),
        other => CommandError::new(other, "try again: what is in the store is whole"),
    }
}

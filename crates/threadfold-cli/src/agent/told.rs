//! What stops a run, with what can be done about it.

use threadfold_agent::{AgentError, ProviderError};
use threadfold_core::SessionId;

use crate::error::CommandError;

/// Returns why a run stopped, and how to go on with it.
pub(crate) fn told(session: &SessionId, error: AgentError) -> CommandError {
    let resume = format!("threadfold resume {session}");
    let hint = match &error {
        AgentError::Undecided { calls } => {
            let call = calls.first().map(|it| it.call.to_string()).unwrap_or_default();
            format!(
                "find out what happened, then `{resume} --result {call}=TEXT` if it did, \
                 `--retry {call}` to run it again, or `--give-up {call}`"
            )
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
            format!("change what is asked; nothing is lost, and `{resume}` asks again")
        }
        AgentError::Limit(_) => format!("`{resume}` with a higher limit goes on"),
        AgentError::Provider { .. } | AgentError::Cancelled => format!("`{resume}` goes on"),
        AgentError::Unfinished { .. } => format!("`{resume}` goes on with it first"),
        AgentError::Engine(_) => return engine(error),
        _ => format!("what was done is kept; `{resume}` goes on"),
    };
    CommandError::new(error, hint)
}

fn engine(error: AgentError) -> CommandError {
    match error {
        AgentError::Engine(error) => error.into(),
        other => CommandError::new(other, "try again: what is in the store is whole"),
    }
}

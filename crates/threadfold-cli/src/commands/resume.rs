//! `threadfold resume`: a run goes on where it stopped.

use std::collections::BTreeMap;

use anyhow::anyhow;
use clap::Args;
use threadfold_agent::{Decision, Resume};
use threadfold_core::{CallId, SessionId};

use super::run::{LimitArgs, tell_count};
use crate::agent::{self, ProviderArg, Show};
use crate::error::{CommandError, ambiguous, say};
use crate::store::{OpenStore, StoreArgs};

/// Go on with a run that stopped, was killed, or waits for a person
///
/// The model is not asked again for what it said, and no tool that finished runs again. Of a tool
/// that was started and must not run twice nobody knows whether it happened: you decide.
#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// The session, or the beginning of its id; without it, the only run that is not finished
    session: Option<String>,
    /// Run this call again
    #[arg(long, value_name = "CALL")]
    retry: Vec<String>,
    /// Take TEXT as what this call gave
    #[arg(long, value_name = "CALL=TEXT")]
    result: Vec<String>,
    /// Tell the model that the outcome of this call is not known
    #[arg(long, value_name = "CALL")]
    give_up: Vec<String>,
    /// Go on though the prompt, the tools or the model changed
    #[arg(long)]
    adopt: bool,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print one line of JSON at the end, and no words as they come
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &ResumeArgs) -> Result<(), CommandError> {
    let resume = Resume { decisions: decisions(args)?, adopt: args.adopt };
    let store = args.store.open()?;
    let session = session(args, &store)?;
    let mut setup = agent::setup_of(&store, &session)?;
    args.limits.put_into(&mut setup);
    say(format_args!("session {session}"));
    let show = if args.json { Show::Json } else { Show::Live };
    let finished = agent::resume(&store, &session, &setup, resume, show)?;
    agent::show_finished(&finished, show)?;
    if setup.provider == ProviderArg::Demo {
        tell_count(&agent::counted(&store, &session));
    }
    Ok(())
}

fn session(args: &ResumeArgs, store: &OpenStore) -> Result<SessionId, CommandError> {
    if let Some(given) = &args.session {
        return Ok(store.find(given)?.session);
    }
    let mut found = agent::unfinished(store)?;
    match (found.len(), found.pop()) {
        (1, Some(only)) => Ok(only.entry.session),
        (_, None) => Err(CommandError::new(
            anyhow!("there is no run that is not finished"),
            "`threadfold run` begins one; `threadfold list` shows all sessions",
        )),
        (_, Some(last)) => {
            found.push(last);
            let names = found.iter().map(|it| it.entry.session.to_string());
            Err(ambiguous("resume", names))
        }
    }
}

fn decisions(args: &ResumeArgs) -> Result<BTreeMap<CallId, Decision>, CommandError> {
    let mut decisions = BTreeMap::new();
    let mut decide = |call: &str, decision: Decision| match decisions.insert(call.into(), decision)
    {
        None => Ok(()),
        Some(_) => Err(CommandError::new(
            anyhow!("call `{call}` is decided about twice"),
            "give one of `--retry`, `--result` and `--give-up` for a call",
        )),
    };
    for call in &args.retry {
        decide(call, Decision::Retry)?;
    }
    for call in &args.give_up {
        decide(call, Decision::GiveUp)?;
    }
    for result in &args.result {
        let Some((call, text)) = result.split_once('=') else {
            return Err(CommandError::new(
                anyhow!("`--result {result}` names no call"),
                "it looks like `--result CALL=TEXT`",
            ));
        };
        decide(call, Decision::Result(text.to_owned()))?;
    }
    Ok(decisions)
}

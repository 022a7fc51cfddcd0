//! `threadfold resume`: a run goes on where it stopped.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use threadfold_core::{CallId, Effect, NextStep, SessionId, TurnState, resume_plan};
use threadfold_loop::{Decision, Resume};

use super::run::{LimitArgs, tell_count};
use crate::error::{CommandError, listed, say};
use crate::run::{self, ProviderArg, RunSetup, Show};
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
    instead: InsteadArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print one line of JSON at the end, and no words as they come
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// What is used instead of what the run was begun with. Another model, prompt or tool must be
/// adopted.
#[derive(Args)]
struct InsteadArgs {
    /// Ask this model instead
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Ask at this address instead
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Take the key from this file instead
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Play this script instead
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Give the model these tools instead
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Vec<String>,
    /// Keep the tools to this folder instead
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Give the model the tools of these MCP servers instead
    #[arg(long, value_name = "CONFIG")]
    mcp: Option<PathBuf>,
}

impl InsteadArgs {
    fn put_into(&self, setup: &mut RunSetup) -> Result<(), CommandError> {
        let path = |path: &Option<PathBuf>| path.as_deref().map(run::absolute).transpose();
        setup.model = self.model.clone().unwrap_or_else(|| setup.model.clone());
        setup.base_url = self.base_url.clone().or(setup.base_url.take());
        setup.key_file = path(&self.key_file)?.or(setup.key_file.take());
        setup.script = path(&self.script)?.or(setup.script.take());
        setup.mcp = path(&self.mcp)?.or(setup.mcp.take());
        if let Some(folder) = path(&self.folder)? {
            setup.folder = folder;
        }
        if !self.tools.is_empty() {
            setup.tools.clone_from(&self.tools);
        }
        Ok(())
    }
}

pub(crate) fn run(args: &ResumeArgs) -> Result<(), CommandError> {
    let results = results(args)?;
    let store = args.store.open()?;
    let session = session(args, &store)?;
    let mut setup = run::setup_of(&store, &session)?;
    args.limits.put_into(&mut setup);
    args.instead.put_into(&mut setup)?;
    let turns = run::turns_of(&store, &session)?;
    let resume =
        Resume { decisions: decisions(args, &results, &turns)?, adopt: args.adopt, instead: false };
    say(format_args!("session {session}"));
    let show = if args.json { Show::Json } else { Show::Live };
    let finished = run::resume(&store, &session, &setup, resume, show)?;
    run::show_finished(&finished, show)?;
    if resume_plan(&turns, |_| Effect::Unsafe).next == NextStep::Done {
        say("it was finished already");
    }
    if setup.provider == ProviderArg::Demo {
        tell_count(&run::counted(&store, &session));
    }
    Ok(())
}

fn session(args: &ResumeArgs, store: &OpenStore) -> Result<SessionId, CommandError> {
    if let Some(given) = &args.session {
        return Ok(store.find(given)?.session);
    }
    let mut found = run::unfinished(store)?;
    match (found.len(), found.pop()) {
        (1, Some(only)) => Ok(only.entry.session),
        (_, None) => Err(CommandError::new(
            anyhow!("there is no run that is not finished"),
            "`threadfold run` begins one; `threadfold list` shows all sessions",
        )),
        (_, Some(last)) => {
            found.push(last);
            let names = found.iter().map(|it| it.entry.session.to_string());
            Err(CommandError::new(
                anyhow!("{} runs are not finished: {}", found.len(), listed(names)),
                "name the one to go on with; `threadfold runs` tells what each waits for",
            ))
        }
    }
}

/// Returns what was given as results, each with the places at which it may be cut.
fn results(args: &ResumeArgs) -> Result<Vec<Vec<(&str, &str)>>, CommandError> {
    let cuts = args.result.iter().map(|given| {
        let cuts: Vec<_> = given.match_indices('=').map(|(at, _)| given.split_at(at)).collect();
        match cuts.is_empty() {
            true => Err(CommandError::new(
                anyhow!("`--result {given}` names no call"),
                "it looks like `--result CALL=TEXT`",
            )),
            false => Ok(cuts.into_iter().map(|(call, text)| (call, &text[1..])).collect()),
        }
    });
    cuts.collect()
}

fn decisions(
    args: &ResumeArgs,
    results: &[Vec<(&str, &str)>],
    turns: &TurnState,
) -> Result<BTreeMap<CallId, Decision>, CommandError> {
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
    for cuts in results {
        // A call's name may hold the mark as well.
        let known = cuts.iter().rfind(|(call, _)| turns.call(&(*call).into()).is_some());
        if let Some((call, text)) = known.or(cuts.first()) {
            decide(call, Decision::Result((*text).to_owned()))?;
        }
    }
    Ok(decisions)
}

//! `threadfold resume`: resumes a run where it stopped.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use threadfold_core::{CallId, Effect, NextStep, SessionId, TurnState, resume_plan};
use threadfold_loop::{Decision, Resume, Trust};

use super::run::{LimitArgs, print_count};
use crate::error::{CommandError, listed, print_note};
use crate::provider_keys;
use crate::run::{self, Consent, MarkArgs, ProviderArg, RecordedRun, RunSetup, Show};
use crate::store::{OpenStore, StoreArgs};

/// Resume a run that stopped, was killed, or needs a decision
///
/// Recorded answers are not requested again, and finished tools do not run again. The outcome of an
/// interrupted unsafe tool is unknown: you decide how to continue.
#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// The session, or a prefix of its id; default: the only unfinished run
    session: Option<String>,
    /// Run this call again
    #[arg(long, value_name = "CALL")]
    retry: Vec<String>,
    /// Use TEXT as the result of this call
    #[arg(long, value_name = "CALL=TEXT")]
    result: Vec<String>,
    /// Report to the model that the outcome of this call is unknown
    #[arg(long, value_name = "CALL")]
    give_up: Vec<String>,
    /// Continue although the prompt, the tools or the model changed
    #[arg(long)]
    adopt: bool,
    /// Continue a run that was imported, comes from elsewhere, or was started by an older version:
    /// lists everything that it would use, and asks
    #[arg(long)]
    trust: bool,
    /// Agree to what `--trust` lists, without being asked
    #[arg(long, requires = "trust")]
    yes: bool,
    #[command(flatten)]
    marks: MarkArgs,
    #[command(flatten)]
    overrides: OverrideArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print one line of JSON at the end instead of live text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Overrides of the run's setup. Another model, prompt or tool must be adopted.
#[derive(Args)]
struct OverrideArgs {
    /// Use this model instead
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Use this address instead
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Read the key from this file instead
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Play this script instead
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Use these tools instead
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Vec<String>,
    /// Use this folder instead
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Use this configuration of MCP servers instead
    #[arg(long, value_name = "CONFIG")]
    mcp: Option<PathBuf>,
}

impl OverrideArgs {
    fn apply_to(&self, setup: &mut RunSetup) -> Result<(), CommandError> {
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
    provider_keys::take();
    let results = results(args)?;
    let store = args.store.open()?;
    let session = session(args, &store)?;
    let key = args.marks.key()?;
    let recorded = run::recorded_run(&store, &session, &key)?;
    let (mut setup, trust) = setup(args, &store, &session, &recorded)?;
    args.limits.apply_to(&mut setup);
    args.overrides.apply_to(&mut setup)?;
    let turns = run::turns_of(&store, &session)?;
    let decisions = decisions(args, &results, &turns)?;
    let resume = Resume { decisions, adopt: args.adopt, trust, ..Resume::default() };
    if trust == Trust::Reported {
        let consent = if args.yes { Consent::Given } else { Consent::Ask };
        run::ask_to_trust(&session, recorded.fault(), &setup, &turns, consent)?;
    }
    print_note(format_args!("session {session}"));
    let show = if args.json { Show::Json } else { Show::Live };
    let finished = run::resume(&store, &session, (&setup, &key), resume, show)?;
    run::show_finished(&finished, show)?;
    if resume_plan(&turns, |_| Effect::Unsafe).next == NextStep::Done {
        print_note("the run was already finished");
    }
    if setup.provider == ProviderArg::Demo {
        print_count(&run::counted(&store, &session));
    }
    Ok(())
}

/// Returns what the run may use, and on whose word.
fn setup(
    args: &ResumeArgs,
    store: &OpenStore,
    session: &SessionId,
    recorded: &RecordedRun,
) -> Result<(RunSetup, Trust), CommandError> {
    if let Some(own) = recorded.own() {
        return Ok((own.clone(), Trust::Own));
    }
    let Some(reported) = recorded.reported() else {
        return Err(CommandError::new(
            anyhow!("session `{session}` was not started by `threadfold run`"),
            "resume it with the program that runs it; `threadfold runs` shows unfinished runs",
        ));
    };
    if args.trust {
        return Ok((reported.clone(), Trust::Reported));
    }
    let (session, why) = (session.clone(), recorded.fault().to_owned());
    Err(run::explain_untrusted(store, session, why))
}

fn session(args: &ResumeArgs, store: &OpenStore) -> Result<SessionId, CommandError> {
    if let Some(given) = &args.session {
        return Ok(store.find(given)?.session);
    }
    let mut found = run::unfinished_runs(store)?;
    match (found.len(), found.pop()) {
        (1, Some(only)) => Ok(only.entry.session),
        (_, None) => Err(CommandError::new(
            anyhow!("there is no unfinished run"),
            "start one with `threadfold run`; `threadfold list` shows all sessions",
        )),
        (_, Some(last)) => {
            found.push(last);
            let names = found.iter().map(|it| it.entry.session.to_string());
            Err(CommandError::new(
                anyhow!("{} runs are unfinished: {}", found.len(), listed(names)),
                "name the session to resume; `threadfold runs` shows what each is waiting for",
            ))
        }
    }
}

/// Returns the given results, each with every way to split it at a `=`.
fn results(args: &ResumeArgs) -> Result<Vec<Vec<(&str, &str)>>, CommandError> {
    let cuts = args.result.iter().map(|given| {
        let cuts: Vec<_> = given.match_indices('=').map(|(at, _)| given.split_at(at)).collect();
        match cuts.is_empty() {
            true => Err(CommandError::new(
                anyhow!("`--result {given}` has no call"),
                "use the form `--result CALL=TEXT`",
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
            anyhow!("call `{call}` has two decisions"),
            "use only one of `--retry`, `--result` and `--give-up` per call",
        )),
    };
    for call in &args.retry {
        decide(call, Decision::Retry)?;
    }
    for call in &args.give_up {
        decide(call, Decision::GiveUp)?;
    }
    for cuts in results {
        // A call id may itself contain `=`, so the longest known id wins.
        let known = cuts.iter().rfind(|(call, _)| turns.call(&(*call).into()).is_some());
        if let Some((call, text)) = known.or(cuts.first()) {
            decide(call, Decision::Result((*text).to_owned()))?;
        }
    }
    Ok(decisions)
}

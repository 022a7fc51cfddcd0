//! `threadfold run`: an agent of our own, which survives being killed.

use std::io::{self, Read};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use threadfold_core::SessionId;
use threadfold_loop::Resume;

use crate::error::{CommandError, say};
use crate::run::{self, ProviderArg, RunSetup, Show};
use crate::store::{OpenStore, StoreArgs};

/// Run an agent that can be killed and resumed
///
/// All that it does is kept before it has an effect. `threadfold resume` goes on after a crash:
/// the model is not asked again for what it said, and no tool that finished runs again.
///
/// The model's words go to standard output, what tools do to standard error. Ctrl-C stops.
#[derive(Args)]
pub(crate) struct RunArgs {
    /// What to ask; `-` reads it from standard input
    #[arg(required_unless_present = "demo")]
    prompt: Option<String>,
    /// Count to eight with a scripted model: no key, no network
    #[arg(long, conflicts_with_all = ["provider", "model", "script", "tools", "mcp", "base_url", "key_file"])]
    demo: bool,
    /// Whom to ask, if not Anthropic; the key comes from `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<ProviderArg>,
    /// Which model to ask
    #[arg(long, value_name = "MODEL", required_unless_present_any = ["demo", "script"])]
    model: Option<String>,
    /// Ask at this address
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Take the key from this file
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Play this script: for `--provider scripted`
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Tell the model this before all else
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Give the model these tools: some of `read`, `list`, `search`, `write`, `edit`, `shell`, or
    /// `all`, or `none`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "read,list,search")]
    tools: Vec<String>,
    /// Keep the tools to this folder; `shell` only starts there
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Give the model the tools of these MCP servers
    #[arg(long, value_name = "CONFIG")]
    mcp: Option<PathBuf>,
    /// Go on in the session of this name, or give a new one this name
    #[arg(long, value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    session: Option<String>,
    /// Go on though the prompt, the tools or the model changed
    #[arg(long)]
    adopt: bool,
    /// Ask this instead of what was asked last and found no answer
    #[arg(long, requires = "session")]
    instead: bool,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print one line of JSON at the end, and no words as they come
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// How far a run may go.
#[derive(Args, Clone)]
pub(crate) struct LimitArgs {
    /// Stop after so many turns
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_turns: Option<u64>,
    /// Stop after so many tokens
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) max_time: Option<u64>,
    /// Stop a tool after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) tool_time: Option<u64>,
    /// Let others take over if this process was not heard of for so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) lease: Option<u64>,
}

impl LimitArgs {
    /// Puts what was given in place of what a run was set up with.
    pub(crate) fn put_into(&self, setup: &mut RunSetup) {
        setup.max_turns = self.max_turns.or(setup.max_turns);
        setup.max_tokens = self.max_tokens.or(setup.max_tokens);
        setup.max_seconds = self.max_time.or(setup.max_seconds);
        setup.tool_seconds = self.tool_time.or(setup.tool_seconds);
        setup.lease_seconds = self.lease.or(setup.lease_seconds);
    }
}

pub(crate) fn run(args: &RunArgs) -> Result<(), CommandError> {
    let prompt = prompt(args)?;
    let setup = setup(args)?;
    let store = args.store.open_or_make()?;
    let (session, is_new) = session(args, &store)?;
    let show = if args.json { Show::Json } else { Show::Live };
    let resume = Resume { adopt: args.adopt, instead: args.instead, ..Resume::default() };
    let greeting = match is_new {
        true => format!("new session {session}"),
        false => format!("session {session} goes on"),
    };
    let finished = run::run(&store, &session, &setup, &prompt, resume, show, &greeting);
    if finished.is_err() {
        run::forget_if_empty(&store, &session);
    }
    let finished = finished?;
    run::show_finished(&finished, show)?;
    if args.demo {
        tell_count(&run::counted(&store, &session));
    }
    Ok(())
}

/// Returns the session to go on in, or a name for a new one, and whether it is that.
fn session(args: &RunArgs, store: &OpenStore) -> Result<(SessionId, bool), CommandError> {
    let name = match &args.session {
        Some(name) => SessionId::from(name.as_str()),
        None => format!("run-{}", uuid::Uuid::new_v4().simple()).into(),
    };
    let head = store.wait(store.shared().head(&name))?;
    if head.is_none_or(|head| head.seq == 0) {
        return Ok((name, true));
    }
    if run::turns_of(store, &name)?.last().is_none() {
        return Err(CommandError::new(
            anyhow!("session `{name}` is another agent's, and the model would not see it"),
            "give another name by `--session`, or none",
        ));
    }
    Ok((name, false))
}

/// Says what the demonstration counted.
pub(super) fn tell_count((path, numbers): &(PathBuf, Vec<String>)) {
    say(format_args!("counted in `{}`: {}", path.display(), numbers.join(" ")));
}

fn prompt(args: &RunArgs) -> Result<String, CommandError> {
    let given = args.prompt.as_deref().unwrap_or("Count to eight.");
    let mut text = given.to_owned();
    if given != "-" {
        return not_blank(text, "the prompt is empty");
    }
    text.clear();
    io::stdin().read_to_string(&mut text).map_err(|error| {
        let error = anyhow::Error::new(error).context("standard input cannot be read");
        CommandError::new(error, "a prompt is text in UTF-8")
    })?;
    not_blank(text, "there is nothing on standard input")
}

fn not_blank(text: String, why: &'static str) -> Result<String, CommandError> {
    match text.trim().is_empty() {
        true => Err(CommandError::new(anyhow!(why), "say what the model is to do")),
        false => Ok(text),
    }
}

fn setup(args: &RunArgs) -> Result<RunSetup, CommandError> {
    let provider = match (args.demo, &args.script, args.provider) {
        (true, _, _) => ProviderArg::Demo,
        (false, Some(_), None | Some(ProviderArg::Scripted)) => ProviderArg::Scripted,
        (false, Some(_), Some(_)) => {
            return Err(CommandError::new(
                anyhow!("a script is played by no provider of the network"),
                "leave out `--provider` or `--script`",
            ));
        }
        (false, None, provider) => provider.unwrap_or(ProviderArg::Anthropic),
    };
    let path = |path: &Option<PathBuf>| path.as_deref().map(run::absolute).transpose();
    let tools = match args.demo {
        true => Vec::new(),
        false => args.tools.clone(),
    };
    let mut setup = RunSetup {
        provider,
        model: args.model.clone().unwrap_or_else(|| "script".to_owned()),
        base_url: args.base_url.clone(),
        key_file: path(&args.key_file)?,
        script: path(&args.script)?,
        system: args.system.clone(),
        tools,
        folder: run::absolute(&args.folder)?,
        mcp: path(&args.mcp)?,
        max_turns: None,
        max_tokens: None,
        max_seconds: None,
        tool_seconds: None,
        lease_seconds: None,
    };
    args.limits.put_into(&mut setup);
    Ok(setup)
}

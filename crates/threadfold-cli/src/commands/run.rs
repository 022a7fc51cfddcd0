//! `threadfold run`: runs our own agent loop, which survives being killed.

use std::io::{self, Read};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use threadfold_core::SessionId;
use threadfold_loop::{Resume, Trust};

use crate::error::{CommandError, print_note};
use crate::provider_keys;
use crate::run::{self, MarkArgs, ProviderArg, RunSetup, Show};
use crate::store::{OpenStore, StoreArgs};

/// Run an agent loop that can be killed and resumed
///
/// Every step is recorded before it takes effect. After a crash, `threadfold resume` continues:
/// recorded answers are not requested again, and finished tools do not run again.
///
/// The model's text goes to standard output, tool activity to standard error. Ctrl-C stops the run.
#[derive(Args)]
pub(crate) struct RunArgs {
    /// The prompt; `-` reads it from standard input
    #[arg(required_unless_present = "demo")]
    prompt: Option<String>,
    /// Count to eight with a scripted model, without key or network
    #[arg(long, conflicts_with_all = ["provider", "model", "script", "tools", "mcp", "base_url", "key_file"])]
    demo: bool,
    /// The provider; default: Anthropic. The key is read from `ANTHROPIC_API_KEY` or
    /// `OPENAI_API_KEY`
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<ProviderArg>,
    /// The model
    #[arg(long, value_name = "MODEL", required_unless_present_any = ["demo", "script"])]
    model: Option<String>,
    /// The provider's address
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Read the key from this file
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The script to play, for `--provider scripted`
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// The system prompt
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// The tools for the model: any of `read`, `list`, `search`, `write`, `edit`, `shell`, or
    /// `all`, or `none`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "read,list,search")]
    tools: Vec<String>,
    /// Confine the file tools to this folder; `shell` only starts in it
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// MCP configuration file; its servers' tools are added
    #[arg(long, value_name = "CONFIG")]
    mcp: Option<PathBuf>,
    /// The session to continue, or the id of a new one
    #[arg(long, value_name = "ID", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    session: Option<String>,
    /// Continue although the prompt, the tools or the model changed
    #[arg(long)]
    adopt: bool,
    /// Withdraw the last prompt, which got no answer, and send this one instead
    #[arg(long, requires = "session")]
    withdraw: bool,
    /// Continue a session that no run with your key recorded, such as an imported one
    #[arg(long, requires = "session")]
    trust: bool,
    #[command(flatten)]
    marks: MarkArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print one line of JSON at the end instead of live text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// The limits of a run.
#[derive(Args, Clone)]
pub(crate) struct LimitArgs {
    /// Stop after this many turns
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_turns: Option<u64>,
    /// Stop after this many tokens
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) max_time: Option<u64>,
    /// Stop a tool after this many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) tool_time: Option<u64>,
    /// How long the lease lasts without renewal, in seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) lease: Option<u64>,
}

impl LimitArgs {
    /// Overrides the limits of a setup.
    pub(crate) fn apply_to(&self, setup: &mut RunSetup) {
        setup.max_turns = self.max_turns.or(setup.max_turns);
        setup.max_tokens = self.max_tokens.or(setup.max_tokens);
        setup.max_seconds = self.max_time.or(setup.max_seconds);
        setup.tool_seconds = self.tool_time.or(setup.tool_seconds);
        setup.lease_seconds = self.lease.or(setup.lease_seconds);
    }
}

pub(crate) fn run(args: &RunArgs) -> Result<(), CommandError> {
    provider_keys::take();
    let prompt = prompt(args)?;
    let setup = setup(args)?;
    let key = args.marks.key()?;
    let store = args.store.open_or_make()?;
    let (session, is_new) = session(args, &store)?;
    let show = if args.json { Show::Json } else { Show::Live };
    let trust = if args.trust { Trust::Reported } else { Trust::Own };
    let (adopt, withdraw) = (args.adopt, args.withdraw);
    let resume = Resume { adopt, withdraw, trust, ..Resume::default() };
    let greeting = match is_new {
        true => format!("new session {session}"),
        false => format!("continuing session {session}"),
    };
    let finished = run::run(&store, &session, (&setup, &key), &prompt, resume, show, &greeting);
    if finished.is_err() {
        run::forget_if_empty(&store, &session);
    }
    let finished = finished?;
    run::show_finished(&finished, show)?;
    if args.demo {
        print_count(&run::counted(&store, &session));
    }
    Ok(())
}

/// Returns the session to continue or a new id, and whether it is new.
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
            anyhow!(
                "session `{name}` belongs to another agent, and the model would not see its history"
            ),
            "use another id with `--session`, or omit it",
        ));
    }
    Ok((name, false))
}

/// Prints what the demo counted.
pub(super) fn print_count((path, numbers): &(PathBuf, Vec<String>)) {
    print_note(format_args!("counted in `{}`: {}", path.display(), numbers.join(" ")));
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
        CommandError::new(error, "the prompt must be UTF-8 text")
    })?;
    not_blank(text, "standard input is empty")
}

fn not_blank(text: String, why: &'static str) -> Result<String, CommandError> {
    match text.trim().is_empty() {
        true => Err(CommandError::new(anyhow!(why), "pass a prompt for the model")),
        false => Ok(text),
    }
}

fn setup(args: &RunArgs) -> Result<RunSetup, CommandError> {
    let provider = match (args.demo, &args.script, args.provider) {
        (true, _, _) => ProviderArg::Demo,
        (false, Some(_), None | Some(ProviderArg::Scripted)) => ProviderArg::Scripted,
        (false, Some(_), Some(_)) => {
            return Err(CommandError::new(
                anyhow!("`--script` cannot be combined with a network provider"),
                "omit `--provider` or `--script`",
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
    args.limits.apply_to(&mut setup);
    Ok(setup)
}

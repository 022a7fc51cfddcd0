//! `threadfold view`: shows a session's conversation in the terminal.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use threadfold_engine::{FoundSession, Freshness, InputOptions, freshness};

use crate::error::{CommandError, print_note};
use crate::input::{InputArgs, fold_input};
use crate::printable::write_json;
use crate::remote::load_remote;
use crate::runtime::Waiter;
use crate::sessions::{LoadedSession, Target, load_found, resolve};
use crate::store::{OpenStore, StoreArgs, load_stored};
use crate::terminal::{self, ColorChoice, MIN_WIDTH};
use crate::view::{Page, Pager, ViewOptions, draw};
use crate::watch::read_password;

/// Show a session's conversation
///
/// Each tool call is one line with its outcome, and each subagent follows the call that started
/// it. Blocks without anything to read, such as hooks without output, are counted in the last line.
/// Control characters from a transcript are escaped or dropped: they cannot move the cursor, set
/// the title or open a link. Colours in a tool's output are kept if colours are on.
#[derive(Args)]
pub(crate) struct ViewArgs {
    /// Session to show: its id or a prefix of it, on disk or in the store; an agent's file; a
    /// folder with one session; the address of a server, of an agent or of `threadfold serve`; or
    /// `-` for a transcript or a stream on standard input
    session: String,
    #[command(flatten)]
    input: InputArgs,
    /// Read the token of a server of Threadfold from this file; default: `THREADFOLD_TOKEN`, the link
    /// of `serve`, or the file of `serve` on this machine
    #[arg(long, value_name = "FILE", env = "THREADFOLD_TOKEN_FILE", hide_env_values = true)]
    token_file: Option<PathBuf>,
    /// Read the password of an agent's server from this file
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Show the session as it was at this stored record; see `threadfold log`
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["from", "input_session"])]
    at: Option<u64>,
    /// Show complete tool inputs and outputs, system messages, and blocks without anything to read
    #[arg(long)]
    full: bool,
    /// Show the model's thinking
    #[arg(long)]
    thinking: bool,
    /// Hide subagents' conversations
    #[arg(long)]
    no_subagents: bool,
    /// Show and count the agent's own helpers: prompt suggestions, compactions, side questions
    #[arg(long)]
    internal: bool,
    /// Print the state as one line of JSON
    #[arg(long)]
    json: bool,
    /// Use N columns instead of the terminal's width
    #[arg(long, value_name = "N")]
    width: Option<usize>,
    /// Never start a pager
    #[arg(long)]
    no_pager: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &ViewArgs) -> Result<(), CommandError> {
    if ["http://", "https://"].iter().any(|it| args.session.starts_with(it)) {
        let password = args.password_file.as_deref().map(read_password).transpose()?;
        let waiter = Waiter::new()?;
        let session = args.input.session.clone();
        let token_file = args.token_file.as_deref();
        let loaded = waiter.wait(load_remote(&args.session, session, token_file, password));
        return show(args, &loaded?);
    }
    // Open as long as the session is drawn: what is looked at is read from it.
    let store = match args.at {
        Some(_) => Some(args.store.open_to_read()?),
        None if args.input.is_given() => None,
        None => args.store.open_if_there()?,
    };
    show(args, &load(args, store.as_ref())?)
}

fn show(args: &ViewArgs, loaded: &LoadedSession) -> Result<(), CommandError> {
    if loaded.records == 0 {
        return Err(CommandError::new(
            anyhow!("`{}` contains no session", args.session),
            "use a file of an agent; `threadfold list` shows the sessions",
        ));
    }
    if args.json {
        let mut out = BufWriter::new(io::stdout().lock());
        write_json(&mut out, &loaded.state)?;
        writeln!(out)?;
        out.flush()?;
        return Ok(loaded.parts.check()?);
    }
    let width = args.width.map_or_else(terminal::width, |width| width.max(MIN_WIDTH));
    let shown = ViewOptions {
        is_full: args.full,
        has_thinking: args.thinking,
        has_subagents: !args.no_subagents,
        has_internal: args.internal,
    };
    let mut pager = if args.no_pager { Pager::never() } else { Pager::when_long() };
    let mut page = Page::new(&mut pager, width, args.color.is_on());
    let drawn = draw(&mut page, &loaded.state, &loaded.metadata, shown);
    // Wait for the pager in any case; closing it early is not an error.
    let finished = pager.finish();
    loaded.parts.check()?;
    drawn?;
    Ok(finished?)
}

/// Reads the session from the store, unless the disk has more.
fn load(args: &ViewArgs, store: Option<&OpenStore>) -> Result<LoadedSession, CommandError> {
    if let (Some(_), Some(store)) = (args.at, store) {
        return load_stored(store, &store.find(&args.session)?, args.at);
    }
    if args.input.is_given() {
        return load_input(Path::new(&args.session), &args.input.options());
    }
    match resolve(&args.session, store)? {
        Target::Input(file) => load_input(&file, &InputOptions::default()),
        Target::Found(found) => load_session(&found),
        Target::Stored(store, entry) => load_stored(store, &entry, None),
        Target::Both(found, store, entry) => match freshness(&found, &entry) {
            Freshness::Less => {
                print_note(
                    "the agent's files have less than the store: showing the stored session",
                );
                load_stored(store, &entry, None)
            }
            Freshness::Same => load_stored(store, &entry, None),
            Freshness::Newer | Freshness::Unsure => load_session(&found),
        },
    }
}

fn load_input(file: &Path, options: &InputOptions<'_>) -> Result<LoadedSession, CommandError> {
    let waiter = Waiter::single()?;
    let folded = fold_input(&waiter, Some(file), options, |_| {})?;
    waiter.shut_down();
    Ok(LoadedSession::of(folded.fold))
}

fn load_session(found: &FoundSession) -> Result<LoadedSession, CommandError> {
    Ok(LoadedSession::of(load_found(&Waiter::single()?, found)?))
}

//! `threadfold view`: a session's conversation in the terminal.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::anyhow;
use clap::Args;
use threadfold_engine::{FoundSession, Freshness, InputOptions, freshness};

use crate::error::{CommandError, say};
use crate::input::{InputArgs, fold_input};
use crate::printable::write_json;
use crate::runtime::Waiter;
use crate::sessions::{SessionContent, Target, load_found, resolve};
use crate::store::{StoreArgs, load_stored};
use crate::terminal::{self, ColorChoice, MIN_WIDTH};
use crate::view::{Page, Pager, Shown, draw};

/// Show a session's conversation
///
/// Tools are folded to a line with their outcome, and subagents stand below the call that made
/// them. What a transcript holds cannot move the cursor, set the title or open a link: such
/// characters are shown as escapes.
#[derive(Args)]
pub(crate) struct ViewArgs {
    /// Session to show: its id or the beginning of one, in an agent's folder or in the store, a
    /// file that an agent wrote, a folder with one session, or `-` for a transcript or a stream on
    /// standard input
    session: String,
    #[command(flatten)]
    input: InputArgs,
    /// Show the session as it was at this record of the store; `threadfold log` shows the records
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["from", "input_session"])]
    at: Option<u64>,
    /// Show what tools were given and gave, and the system's words, whole
    #[arg(long)]
    full: bool,
    /// Show what the model thought
    #[arg(long)]
    thinking: bool,
    /// Leave out what subagents said
    #[arg(long)]
    no_subagents: bool,
    /// Print the state as one line of JSON
    #[arg(long)]
    json: bool,
    /// Lay out for N columns instead of the terminal's
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
    let loaded = load(args)?;
    if loaded.records == 0 {
        return Err(CommandError::new(
            anyhow!("`{}` holds nothing of a session", args.session),
            "give a file that an agent wrote; `threadfold list` shows the sessions",
        ));
    }
    if args.json {
        let mut out = BufWriter::new(io::stdout().lock());
        write_json(&mut out, &loaded.state)?;
        writeln!(out)?;
        return Ok(out.flush()?);
    }
    let width = args.width.map_or_else(terminal::width, |width| width.max(MIN_WIDTH));
    let shown = Shown {
        is_full: args.full,
        has_thinking: args.thinking,
        has_subagents: !args.no_subagents,
    };
    let mut pager = if args.no_pager { Pager::never() } else { Pager::when_long() };
    let mut page = Page::new(&mut pager, width, args.color.is_on());
    let drawn = draw(&mut page, &loaded.state, &loaded.metadata, shown);
    // The pager is waited for in any case: who closed it early has seen enough.
    let finished = pager.finish();
    drawn?;
    Ok(finished?)
}

/// Reads what is to be shown: from the store, unless an agent has more.
fn load(args: &ViewArgs) -> Result<SessionContent, CommandError> {
    if args.at.is_some() {
        let store = args.store.open_to_read()?;
        return load_stored(&store, &store.find(&args.session)?, args.at);
    }
    if args.input.is_given() {
        return load_input(Path::new(&args.session), &args.input.options());
    }
    let store = args.store.open_if_there()?;
    match resolve(&args.session, store.as_ref())? {
        Target::Input(file) => load_input(&file, &InputOptions::default()),
        Target::Found(found) => load_session(&found),
        Target::Stored(store, entry) => load_stored(store, &entry, None),
        Target::Both(found, store, entry) => match freshness(&found, &entry) {
            Freshness::Less => {
                say("the agent's folder has less of it than the store: this is from the store");
                load_stored(store, &entry, None)
            }
            Freshness::Same => load_stored(store, &entry, None),
            Freshness::Newer | Freshness::Unsure => load_session(&found),
        },
    }
}

fn load_input(file: &Path, options: &InputOptions<'_>) -> Result<SessionContent, CommandError> {
    let waiter = Waiter::single()?;
    let folded = fold_input(&waiter, Some(file), options, |_| {})?;
    waiter.leave();
    Ok(SessionContent::of(&folded.fold))
}

fn load_session(found: &FoundSession) -> Result<SessionContent, CommandError> {
    Ok(SessionContent::of(&load_found(&Waiter::single()?, found)?))
}

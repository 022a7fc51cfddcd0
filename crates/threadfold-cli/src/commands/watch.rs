//! `threadfold watch`: a session while it goes on.

use std::io::{self, IsTerminal};

use clap::Args;

use crate::error::CommandError;
use crate::source::Format;
use crate::store::StoreArgs;
use crate::terminal::{self, ColorChoice, MIN_WIDTH};
use crate::view::Shown;
use crate::watch::{Keeping, Output, Watched, watch};

/// Watch a session live
///
/// Everything is kept in the store before it is shown. What another process writes to the store
/// is looked on. Ctrl-C ends.
#[derive(Args)]
pub(crate) struct WatchArgs {
    /// What to watch: a file that an agent writes, a session's id or the beginning of one, the
    /// address of an OpenCode server, a folder of sessions, or `-` for a stream on standard input
    what: String,
    /// Say what the file or the stream is
    #[arg(long, value_name = "FORMAT")]
    from: Option<Format>,
    /// Take this session, where there are several
    #[arg(long = "session", value_name = "ID")]
    of_session: Option<String>,
    /// Print one line of JSON for the state, and one for the changes of each record
    #[arg(long)]
    json: bool,
    /// Show what tools were given and gave, and the system's words, whole
    #[arg(long)]
    full: bool,
    /// Show what the model thought
    #[arg(long)]
    thinking: bool,
    /// Lay out for N columns instead of the terminal's
    #[arg(long, value_name = "N")]
    width: Option<usize>,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &WatchArgs) -> Result<(), CommandError> {
    let store = args.store.open_or_make()?;
    let watched = Watched::find(&store, &args.what, args.from, args.of_session.as_deref())?;
    let output = match args.json {
        true => Output::Json,
        false => Output::Text {
            width: args.width.map_or_else(terminal::width, |width| width.max(MIN_WIDTH)),
            is_coloured: args.color.is_on(),
            is_terminal: io::stdout().is_terminal(),
            shown: Shown { is_full: args.full, has_thinking: args.thinking, has_subagents: true },
        },
    };
    let ended = store.wait(watch(
        Keeping { store: store.shared(), budget: store.budget() },
        watched,
        output,
    ));
    // A thread may still wait for standard input, and nobody waits for it.
    store.leave();
    ended
}

//! `threadfold watch`: a session while it goes on.

use std::io::{self, IsTerminal};

use clap::Args;
use threadfold_engine::{Delivery, Host, ListenOptions};
use threadfold_fold::Cursor;

use crate::error::CommandError;
use crate::input::InputArgs;
use crate::store::StoreArgs;
use crate::terminal::{self, ColorChoice, MIN_WIDTH};
use crate::view::Shown;
use crate::watch::{Output, WatchTarget, Watcher};

/// The version of this program's own reducer, as the command line has it.
const REDUCER_TEXT: &str = "1";

/// Watch a session live
///
/// Everything is stored before it is shown. If another process is writing the session, follows it
/// read-only. Ctrl-C ends.
#[derive(Args)]
pub(crate) struct WatchArgs {
    /// What to watch: a file that an agent writes, a session's id or the beginning of one, the
    /// address of an OpenCode server, a folder of sessions, or `-` for a stream on standard input
    what: String,
    #[command(flatten)]
    input: InputArgs,
    /// Print frames, one JSON object a line: a snapshot, then the changes of each record
    #[arg(long)]
    json: bool,
    /// Print the events of each record instead of its changes, for a client with a reducer of this
    /// version
    #[arg(long, value_name = "REDUCER", requires = "json", num_args = 0..=1, default_missing_value = REDUCER_TEXT)]
    events: Option<u32>,
    /// Continue after this cursor, the last that an earlier `--json` printed
    #[arg(long, value_name = "CURSOR", requires = "json")]
    after: Option<Cursor>,
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
    let target = WatchTarget::find(&store, &args.what, &args.input)?;
    let output = match args.json {
        true => Output::Json,
        false => Output::Text {
            width: args.width.map_or_else(terminal::width, |width| width.max(MIN_WIDTH)),
            is_coloured: args.color.is_on(),
            is_terminal: io::stdout().is_terminal(),
            shown: Shown { is_full: args.full, has_thinking: args.thinking, has_subagents: true },
        },
    };
    let delivery = if args.events.is_some() { Delivery::Events } else { Delivery::Changes };
    let listening = ListenOptions { after: args.after.clone(), delivery, reducer: args.events };
    let host = Host::within(store.shared(), Some(store.budget()));
    let watcher = Watcher { store: &store, host, output, listening };
    let ended = store.wait(watcher.watch(target));
    // A thread may still wait for standard input, and nobody waits for it.
    store.leave();
    ended
}

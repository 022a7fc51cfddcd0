//! `threadfold watch`: shows a session live.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use threadfold_engine::{Delivery, Host, ListenOptions};
use threadfold_fold::Cursor;

use crate::error::CommandError;
use crate::input::InputArgs;
use crate::store::StoreArgs;
use crate::terminal::{self, ColorChoice, MIN_WIDTH};
use crate::view::ViewOptions;
use crate::watch::{Output, WatchTarget, Watcher, read_password};

/// The version of this program's reducer, for the command line.
const REDUCER_TEXT: &str = "1";

/// Watch a session live
///
/// Everything is stored before it is shown. If another process is writing the session, follows it
/// read-only, and takes over when that process is gone. Given a server, follows its latest session,
/// or waits for the first one. Given a folder, follows every session that grows or appears in it
/// from now on; sessions that are there already are shown once they grow (`threadfold import` stores
/// them as they are). Ctrl-C stops.
#[derive(Args)]
pub(crate) struct WatchArgs {
    /// What to watch: an agent's file, a session's id or a prefix of it, the address of a server (of
    /// an agent, or of `threadfold serve`), a folder of sessions, or `-` for a stream on standard
    /// input
    what: String,
    #[command(flatten)]
    input: InputArgs,
    /// Read the password of a server from this file; default: from the address, from the
    /// server's environment variable, or from its `service.json`
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Read the token of a server of Threadfold from this file; default: `THREADFOLD_TOKEN`, the link
    /// of `serve`, or the file of `serve` on this machine
    #[arg(long, value_name = "FILE", env = "THREADFOLD_TOKEN_FILE", hide_env_values = true)]
    token_file: Option<PathBuf>,
    /// Print frames, one JSON object per line: for each session a snapshot, then the changes of each
    /// record
    #[arg(long)]
    json: bool,
    /// Print the events of each record instead of its changes, for a client with a reducer of this
    /// version
    #[arg(long, value_name = "REDUCER", requires = "json", num_args = 0..=1, default_missing_value = REDUCER_TEXT)]
    events: Option<u32>,
    /// Resume after this cursor (the last one printed by an earlier `--json`); for one session, not
    /// for a folder
    #[arg(long, value_name = "CURSOR", requires = "json")]
    after: Option<Cursor>,
    /// Show complete tool inputs and outputs, and system messages
    #[arg(long)]
    full: bool,
    /// Show the model's thinking
    #[arg(long)]
    thinking: bool,
    /// Use N columns instead of the terminal's width
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
    if matches!(target, WatchTarget::Folder(_)) && args.after.is_some() {
        return Err(CommandError::new(
            anyhow!("a cursor is a position in one session, and `{}` is a folder", args.what),
            "give the session's file or its id with `--after`",
        ));
    }
    let output = match args.json {
        true => Output::Json,
        false => Output::Text {
            width: args.width.map_or_else(terminal::width, |width| width.max(MIN_WIDTH)),
            is_coloured: args.color.is_on(),
            is_terminal: io::stdout().is_terminal(),
            shown: ViewOptions {
                is_full: args.full,
                has_thinking: args.thinking,
                has_subagents: true,
                has_internal: false,
            },
        },
    };
    let delivery = if args.events.is_some() { Delivery::Events } else { Delivery::Changes };
    let listening = ListenOptions { after: args.after.clone(), delivery, reducer: args.events };
    let host = Host::within(store.shared(), Some(store.budget()));
    let password = args.password_file.as_deref().map(read_password).transpose()?;
    let token_file = args.token_file.clone();
    let watcher = Watcher { store: &store, host, output, listening, password, token_file };
    let ended = store.wait(watcher.watch(target));
    // The thread that reads standard input may still be blocked; do not wait for it.
    store.shut_down();
    ended
}

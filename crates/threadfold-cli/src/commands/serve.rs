//! `threadfold serve`: serves all sessions of this machine over HTTP, SSE and WebSocket.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::error::CommandError;
use crate::serve::{ServeOptions, serve};
use crate::store::StoreArgs;

/// Serve all sessions of this machine to programs and browsers, live
///
/// Finds the sessions of every known agent, imports them into the store, the newest first, and
/// follows those that grow. Prints the address, and how to use it. Every client needs the token in
/// the token file, which is created at the first start. Ctrl-C stops; nothing is lost then, and
/// nothing by a crash. Without any session, an example is played.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Listen on this address and port; port 0 chooses a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4127")]
    bind: SocketAddr,
    /// Allow `--bind` with an address that other machines can reach: the connection is not
    /// encrypted, and whoever has the token can read and remove all sessions
    #[arg(long)]
    allow_remote: bool,
    /// Also answer for this address, under which clients reach the server: of an SSH tunnel or a
    /// code space; can be repeated
    #[arg(long, value_name = "URL")]
    public_url: Vec<String>,
    /// Keep the token in this file; default: `token` in the data folder
    #[arg(long, value_name = "FILE", env = "THREADFOLD_TOKEN_FILE", hide_env_values = true)]
    token_file: Option<PathBuf>,
    /// Refuse every request that would change something: pushed records, and removals
    #[arg(long)]
    read_only: bool,
    /// Look for agents' sessions in this home folder instead of your own, and ignore the agents'
    /// environment variables
    #[arg(long, value_name = "FOLDER")]
    agent_home: Option<PathBuf>,
    /// Open the address in the browser
    #[arg(long)]
    open: bool,
    /// What to log to standard error, such as `info` for every request
    #[arg(long, value_name = "FILTER", default_value = "warn", env = "THREADFOLD_LOG")]
    log: String,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &ServeArgs) -> Result<(), CommandError> {
    serve(ServeOptions {
        bind: args.bind,
        allows_remote: args.allow_remote,
        public_urls: args.public_url.clone(),
        token_file: args.token_file.clone(),
        is_read_only: args.read_only,
        agent_home: args.agent_home.clone(),
        opens_browser: args.open,
        log: args.log.clone(),
        store: args.store.clone(),
    })
}

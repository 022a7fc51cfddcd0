//! `threadfold push`: sends an agent's stream to a server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use threadfold_client::Client;

use crate::error::CommandError;
use crate::push::{Push, PushOptions};
use crate::runtime::Waiter;
use crate::serve::read_token;

/// Send an agent's stream on standard input to a server
///
/// Used as in `agent … | threadfold push --url URL`.
/// Every line is stored on the server once, however often the connection breaks. While the server
/// cannot be reached, up to a megabyte is held in memory, and the rest in a file in the data folder;
/// what could not be sent at the end stays there, and the command to send it is printed.
#[derive(Args)]
pub(crate) struct PushArgs {
    /// The address of the server, as `threadfold serve` prints it
    #[arg(long, value_name = "URL", env = "THREADFOLD_URL")]
    url: String,
    /// Push to this session; default: the session that the stream names
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Continue this stream, with `--position`; default: a new one
    #[arg(long, value_name = "NAME", requires = "session")]
    stream: Option<String>,
    /// Where the input begins in the stream, in bytes
    #[arg(long, value_name = "BYTES", requires = "stream", default_value_t = 0)]
    position: u64,
    /// Read the token from this file; default: `THREADFOLD_TOKEN`, or the file of `serve` on this
    /// machine
    #[arg(long, value_name = "FILE", env = "THREADFOLD_TOKEN_FILE", hide_env_values = true)]
    token_file: Option<PathBuf>,
    /// How many seconds to try to send the rest, once the input has ended
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience: u64,
}

pub(crate) fn run(args: &PushArgs) -> Result<(), CommandError> {
    let client = Client::new(&args.url, read_token(&args.url, args.token_file.as_deref())?)?;
    let options = PushOptions {
        url: args.url.clone(),
        session: args.session.clone(),
        stream: args.stream.clone(),
        position: args.position,
        patience: Duration::from_secs(args.patience),
    };
    let waiter = Waiter::new()?;
    let pushed = waiter.wait(Push::new(client, options)?.run());
    // The thread that reads standard input may still be blocked.
    waiter.shut_down();
    pushed
}

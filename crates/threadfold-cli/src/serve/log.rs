//! The log of the server, on standard error.

use std::io;

use anyhow::anyhow;
use tracing_subscriber::EnvFilter;

use crate::error::CommandError;

/// Starts the log with a filter.
pub(super) fn start(filter: &str) -> Result<(), CommandError> {
    let hint = "a filter looks like `info`, or `threadfold_server=debug`";
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| CommandError::new(anyhow!("`--log`: {error}"), hint))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // What came from an agent may be in a message: no colours, and control characters are escaped.
    let started = log.with_ansi(false).try_init();
    started.map_err(|error| CommandError::new(anyhow!("the log cannot start: {error}"), hint))
}

//! Waits until the user stops the program.

use crate::error::CommandError;

/// Waits until the user stops the program. Signals count from this call on, not from the first
/// poll.
#[cfg(unix)]
pub(crate) fn stop() -> impl Future<Output = Result<(), CommandError>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (interrupts, terminations) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async {
        let (mut interrupts, mut terminations) = (interrupts?, terminations?);
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
        }
        Ok(())
    }
}

/// Waits until the user stops the program.
#[cfg(not(unix))]
pub(crate) async fn stop() -> Result<(), CommandError> {
    Ok(tokio::signal::ctrl_c().await?)
}

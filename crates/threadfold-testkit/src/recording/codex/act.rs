//! What is done in a scenario, one thing after the other.

/// One thing that a client does.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// Sends a prompt that plays a script, and waits for the end of its turn.
    Play(&'static str),
    /// The same, with a picture.
    PlayWithImage(&'static str),
    /// Sends a prompt that plays a script, and goes on.
    Begin(&'static str),
    /// Waits until the stream reports that a command has started.
    WaitForCommand,
    /// Waits for a file in the folder in which the agent works.
    WaitForFile(&'static str),
    /// Waits for a notification of the app-server.
    WaitFor(&'static str),
    /// Waits for the end of the turn that was begun.
    WaitForEnd,
    /// Reads until nothing comes for a while: old versions do not report the turns of subagents.
    Linger,
    /// Adds words to the running turn.
    Steer(&'static str),
    /// Interrupts the running turn, and waits for its end.
    Interrupt,
    /// Compacts the thread.
    Compact,
    /// Reviews the work.
    Review,
    /// Continues in a fork of the thread.
    Fork,
    /// Goes back to before the last turn.
    GoBack,
    /// Stops the process, and continues the thread with another one.
    Restart(Stop),
    /// Stops the process.
    Stop(Stop),
}

/// How a process is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Its input is closed.
    Close,
    /// SIGINT; only `codex exec`, because the app-server does not end the turn then.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

//! Reads the bus of a server.

use std::{
    io::{self, BufRead, BufReader},
    net::{Shutdown, TcpStream},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use super::http::Body;
use crate::TestkitError;

/// The lines of a bus as they arrive, without empty ones.
///
/// The iterator ends with the connection. A wait beyond the timeout is an error.
pub struct Events {
    lines: Receiver<io::Result<Vec<u8>>>,
    connection: TcpStream,
    limit: Duration,
}

impl Events {
    pub(super) fn listen(body: Body, limit: Duration) -> io::Result<Self> {
        let connection = body.connection()?;
        // The consumer of the lines applies the timeout.
        connection.set_read_timeout(None)?;
        let (sender, lines) = mpsc::channel();
        thread::Builder::new().name("opencode-events".to_owned()).spawn(move || {
            for line in BufReader::new(body).split(b'\n') {
                let is_empty = line.as_ref().is_ok_and(Vec::is_empty);
                let is_last = line.is_err();
                if (!is_empty && sender.send(line).is_err()) || is_last {
                    break;
                }
            }
        })?;
        Ok(Self { lines, connection, limit })
    }

    /// Returns the next line, or times out.
    pub fn next_within(&mut self, silence: Duration) -> Option<Vec<u8>> {
        self.lines.recv_timeout(silence).ok()?.ok()
    }
}

impl Iterator for Events {
    type Item = Result<Vec<u8>, TestkitError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.lines.recv_timeout(self.limit) {
            Ok(line) => Some(line.map_err(TestkitError::io("listen to OpenCode's bus"))),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => Some(Err(TestkitError::TimedOut {
                what: "a word on OpenCode's bus".to_owned(),
                limit: self.limit,
            })),
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Ends the reader thread; a closed connection does so as well.
        self.connection.shutdown(Shutdown::Both).ok();
    }
}

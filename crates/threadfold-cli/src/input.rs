//! Lines of an input, one held at a time.

use std::io::{self, BufRead, BufReader, Read};

use crate::error::CommandError;

/// Where lines come from. Only one line is held at a time.
pub(crate) struct Input {
    name: String,
    reader: BufReader<Box<dyn Read>>,
    line: Vec<u8>,
    number: u64,
}

impl Input {
    pub(crate) fn new(name: String, reader: Box<dyn Read>) -> Self {
        Self { name, reader: BufReader::new(reader), line: Vec::new(), number: 0 }
    }

    /// Returns what the source is called in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns how many lines were read so far.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Says whether the next line may have to be waited for.
    pub(crate) fn may_wait(&self) -> bool {
        !self.reader.buffer().contains(&b'\n')
    }

    /// Returns the next line, without its end and without a byte order mark.
    pub(crate) fn next_line(&mut self) -> Result<Option<&[u8]>, CommandError> {
        self.line.clear();
        let read = self.reader.read_until(b'\n', &mut self.line);
        if read.map_err(|error| unreadable(&self.name, error))? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let mut line = self.line.as_slice();
        if self.number == 1 {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        line = line.strip_suffix(b"\n").unwrap_or(line);
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

fn unreadable(name: &str, error: io::Error) -> CommandError {
    CommandError::new(
        anyhow::Error::new(error).context(format!("{name} cannot be read")),
        "give a file of events, one JSON object a line, or `-` for standard input",
    )
}

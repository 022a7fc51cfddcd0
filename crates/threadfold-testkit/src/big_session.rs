//! Sessions of any size, made up in the shape of real ones, for benchmarks.
//!
//! The proportions are those of some ten thousand lines that people published: which lines there
//! are, how long they are, how often a message is spread over several lines, what a tool's result
//! looks like. The same size gives the same bytes, on every machine.
//!
//! One conversation without subagents: what they cost is measured elsewhere.

use std::io;

mod bus;
mod chance;
mod stream;
mod tool;
mod transcript;

/// What was written, counted while it was written and not by a converter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes.
    pub bytes: u64,
    /// Lines.
    pub lines: u64,
    /// What a person said.
    pub prompts: usize,
    /// What the model said.
    pub texts: usize,
    /// What the model thought.
    pub thoughts: usize,
    /// Tool calls; each has a result.
    pub calls: usize,
}

impl Written {
    /// Returns how many blocks a state of it has.
    pub fn blocks(&self) -> usize {
        self.prompts + self.texts + self.thoughts + 2 * self.calls
    }
}

/// Writes a transcript of at least `bytes`, as Claude Code keeps it.
///
/// It ends with the turn that reaches the size, so it is longer by a turn at most.
///
/// ```
/// use threadfold_testkit::big_session::write_transcript;
///
/// let mut transcript = Vec::new();
/// let written = write_transcript(20_000, &mut transcript)?;
/// assert_eq!(written.bytes, transcript.len() as u64);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_transcript(bytes: u64, out: impl io::Write) -> io::Result<Written> {
    transcript::write(bytes, out)
}

/// Writes a stream of at least `bytes`, as Claude Code says it with partial messages.
pub fn write_stream(bytes: u64, out: impl io::Write) -> io::Result<Written> {
    stream::write(bytes, out)
}

/// Writes the events of OpenCode's bus, at least `bytes` of them.
pub fn write_bus(bytes: u64, out: impl io::Write) -> io::Result<Written> {
    bus::write(bytes, out)
}

/// Lines on their way out, counted.
struct Lines<W> {
    out: W,
    written: Written,
}

impl<W: io::Write> Lines<W> {
    fn new(out: W) -> Self {
        Self { out, written: Written::default() }
    }

    fn push(&mut self, line: &str) -> io::Result<()> {
        self.written.bytes += line.len() as u64 + 1;
        self.written.lines += 1;
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")
    }

    fn finish(mut self) -> io::Result<Written> {
        self.out.flush()?;
        Ok(self.written)
    }
}

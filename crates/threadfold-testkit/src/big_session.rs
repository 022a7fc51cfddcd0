//! Generates sessions of any size in the shape of real ones, for benchmarks.
//!
//! The proportions are taken from about ten thousand published lines: which kinds of lines occur,
//! how long they are, how often a message spans several lines, and what tool results look like.
//! The same size always generates the same bytes, on every machine.
//!
//! It generates one conversation without subagents, whose cost is measured elsewhere.

use std::io;

mod bus;
mod chance;
mod newer_bus;
mod rollout;
mod stream;
mod tool;
mod transcript;

/// Counts of what was written, taken while writing and not by a converter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TranscriptCounts {
    /// Bytes.
    pub bytes: u64,
    /// Lines.
    pub lines: u64,
    /// User prompts.
    pub prompts: usize,
    /// Texts of the model.
    pub texts: usize,
    /// Thinking blocks of the model.
    pub thoughts: usize,
    /// Tool calls; each has a result.
    pub calls: usize,
}

impl TranscriptCounts {
    /// Returns the number of blocks in its state.
    pub fn blocks(&self) -> usize {
        self.prompts + self.texts + self.thoughts + 2 * self.calls
    }
}

/// Writes a transcript of at least `bytes`, in the format of Claude Code.
///
/// It ends with the turn that reaches the size, so it is at most one turn longer.
///
/// ```
/// use threadfold_testkit::big_session::write_transcript;
///
/// let mut transcript = Vec::new();
/// let written = write_transcript(20_000, &mut transcript)?;
/// assert_eq!(written.bytes, transcript.len() as u64);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_transcript(bytes: u64, out: impl io::Write) -> io::Result<TranscriptCounts> {
    transcript::write(bytes, out)
}

/// One file of a generated session.
#[derive(Clone, Copy, Debug)]
pub struct TranscriptFile<'a> {
    /// The same seed generates the same bytes.
    pub seed: u64,
    /// The session's id.
    pub session: &'a str,
    /// The subagent whose file it is; `None` for the main file.
    pub subagent: Option<&'a str>,
}

/// Writes one file of a session, at least `bytes` long, in the format of Claude Code.
pub fn write_transcript_file(
    file: &TranscriptFile<'_>,
    bytes: u64,
    out: impl io::Write,
) -> io::Result<TranscriptCounts> {
    transcript::write_file(file, bytes, out)
}

/// Writes a stream of at least `bytes`, as Claude Code emits it with partial messages.
pub fn write_stream(bytes: u64, out: impl io::Write) -> io::Result<TranscriptCounts> {
    stream::write(bytes, out)
}

/// Writes events of OpenCode's bus, at least `bytes` of them.
pub fn write_bus(bytes: u64, out: impl io::Write) -> io::Result<TranscriptCounts> {
    bus::write(bytes, out)
}

/// Writes events of OpenCode 2, at least `bytes` of them.
pub fn write_newer_bus(bytes: u64, out: impl io::Write) -> io::Result<TranscriptCounts> {
    newer_bus::write(bytes, out)
}

/// Writes a rollout of at least `bytes`, in the format of Codex.
pub fn write_rollout(bytes: u64, out: impl io::Write) -> io::Result<TranscriptCounts> {
    rollout::write(bytes, out)
}

/// An output that counts its lines.
struct Lines<W> {
    out: W,
    written: TranscriptCounts,
}

impl<W: io::Write> Lines<W> {
    fn new(out: W) -> Self {
        Self { out, written: TranscriptCounts::default() }
    }

    fn push(&mut self, line: &str) -> io::Result<()> {
        self.written.bytes += line.len() as u64 + 1;
        self.written.lines += 1;
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")
    }

    fn finish(mut self) -> io::Result<TranscriptCounts> {
        self.out.flush()?;
        Ok(self.written)
    }
}

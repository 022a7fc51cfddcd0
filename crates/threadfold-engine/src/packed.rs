//! Reads input that may be compressed: its first bytes decide, not its name.

use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// The first bytes of every compressed file.
const MAGIC: &[u8] = b"\x28\xb5\x2f\xfd";
/// How many compressed bytes are decompressed at once. Those around a corrupt byte are lost with it,
/// so few bytes are; and always the same ones, however many a read returns.
const GRID: usize = 512;
/// How many compressed bytes are read at once.
const CHUNK: usize = 64 << 10;
/// How many decompressed bytes fit into the buffer: a whole block of the format.
const BLOCK: usize = 128 << 10;

/// Returns whether these first bytes are those of a compressed file.
pub(crate) fn is_packed(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// What of a compressed input cannot be read, if that is so.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedState(Arc<OnceLock<PackedFacts>>);

#[derive(Debug, Default)]
struct PackedFacts {
    loss: OnceLock<String>,
}

impl PackedState {
    /// Returns whether the input is compressed; known once something was read.
    pub(crate) fn is_packed(&self) -> bool {
        self.0.get().is_some()
    }

    /// Returns why the rest of the input is lost; known once its end was reached.
    pub(crate) fn loss(&self) -> Option<String> {
        self.0.get()?.loss.get().cloned()
    }

    fn set_loss(&self, why: &io::Error) {
        if let Some(facts) = self.0.get() {
            facts.loss.get_or_init(|| why.to_string());
        }
    }
}

/// Reads an input as it is, or decompressed.
///
/// Input that is corrupt after some bytes ends there, and its state has the reason. If nothing can
/// be decompressed, reading fails.
pub(crate) struct PlainReader<R> {
    input: R,
    /// What is known of the input; shared, because a thread may be reading.
    state: PackedState,
    stage: Stage,
}

enum Stage {
    /// Fewer bytes were read than decide.
    Beginning(Vec<u8>),
    /// These bytes were read; all others are passed on as they are.
    Plain(Vec<u8>),
    Packed(Box<Unpacker>),
}

/// A decompression under way.
struct Unpacker {
    decoder: Decoder<'static>,
    /// Compressed bytes that were read, and how many of them were decompressed.
    packed: Vec<u8>,
    taken: usize,
    /// The offset of these bytes in the input.
    start: usize,
    /// The input has no more bytes.
    is_read: bool,
    /// Decompressed bytes, and how many of them were passed on.
    plain: Vec<u8>,
    passed: usize,
    /// What the decoder expects next; 0 at the end of a frame.
    expected: usize,
    has_output: bool,
    is_over: bool,
}

impl<R: Read> PlainReader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, state: PackedState::default(), stage: Stage::Beginning(Vec::new()) }
    }

    /// Returns what is known of the input.
    pub(crate) fn state(&self) -> PackedState {
        self.state.clone()
    }

    /// Reads until the first bytes decide how to go on.
    fn begin(&mut self, mut first: Vec<u8>) -> io::Result<()> {
        let mut chunk = [0; GRID];
        let mut is_over = false;
        while !is_over && first.len() < MAGIC.len() && MAGIC.starts_with(&first) {
            match read(&mut self.input, &mut chunk) {
                Ok(count) => {
                    is_over = count == 0;
                    first.extend_from_slice(&chunk[..count]);
                }
                Err(error) => {
                    self.stage = Stage::Beginning(first);
                    return Err(error);
                }
            }
        }
        self.stage = match is_packed(&first) {
            true => {
                self.state.0.get_or_init(PackedFacts::default);
                Stage::Packed(Box::new(Unpacker::new(first)?))
            }
            false => Stage::Plain(first),
        };
        Ok(())
    }
}

impl<R: Read> Read for PlainReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Stage::Beginning(first) = &mut self.stage {
            let mut first = std::mem::take(first);
            if first.is_empty() {
                let count = self.input.read(into)?;
                let read = &into[..count];
                // Most inputs are plain, and cost no more than without this reader.
                if !is_packed(read) && !MAGIC.starts_with(read) {
                    self.stage = Stage::Plain(first);
                    return Ok(count);
                }
                first.extend_from_slice(read);
            }
            self.begin(first)?;
        }
        match &mut self.stage {
            Stage::Plain(first) if !first.is_empty() => {
                let count = first.len().min(into.len());
                into[..count].copy_from_slice(&first[..count]);
                first.drain(..count);
                Ok(count)
            }
            Stage::Packed(unpacker) => unpacker.read(&mut self.input, &self.state, into),
            _ => self.input.read(into),
        }
    }
}

impl Unpacker {
    fn new(packed: Vec<u8>) -> io::Result<Self> {
        let (plain, decoder) = (Vec::with_capacity(BLOCK), Decoder::new()?);
        Ok(Self {
            decoder,
            packed,
            taken: 0,
            start: 0,
            is_read: false,
            plain,
            passed: 0,
            expected: 1,
            has_output: false,
            is_over: false,
        })
    }

    fn read(
        &mut self,
        input: &mut impl Read,
        state: &PackedState,
        into: &mut [u8],
    ) -> io::Result<usize> {
        while self.passed == self.plain.len() && !self.is_over {
            if let Err(error) = self.advance(input) {
                self.is_over = true;
                if !self.has_output {
                    return Err(error);
                }
                state.set_loss(&error);
            }
        }
        let count = (self.plain.len() - self.passed).min(into.len());
        into[..count].copy_from_slice(&self.plain[self.passed..self.passed + count]);
        self.passed += count;
        Ok(count)
    }

    /// Decompresses the next bytes.
    fn advance(&mut self, input: &mut impl Read) -> io::Result<()> {
        let end = self.fill(input)?;
        if self.taken == end && self.expected == 0 {
            self.is_over = true;
            return Ok(());
        }
        self.plain.clear();
        self.plain.resize(BLOCK, 0);
        self.passed = 0;
        let mut output = OutBuffer::around(self.plain.as_mut_slice());
        let mut grid = InBuffer::around(&self.packed[self.taken..end]);
        let ran = self.decoder.run(&mut grid, &mut output);
        let (taken, written) = (grid.pos(), output.pos());
        let is_truncated = taken == 0 && written == 0 && self.taken == end;
        self.taken += taken;
        self.plain.truncate(if ran.is_ok() { written } else { 0 });
        self.expected = ran?;
        self.has_output |= written > 0;
        if is_truncated {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it is truncated"));
        }
        if self.expected == 0 {
            // Another frame may follow.
            self.decoder.reinit()?;
        }
        Ok(())
    }

    /// Reads until there are as many bytes as are decompressed at once, and returns where those end.
    fn fill(&mut self, input: &mut impl Read) -> io::Result<usize> {
        if self.taken == self.packed.len() {
            self.start += self.taken;
            self.packed.clear();
            self.taken = 0;
        }
        let next = (self.start + self.taken) / GRID * GRID + GRID - self.start;
        while self.packed.len() < next && !self.is_read {
            let length = self.packed.len();
            self.packed.resize(length + CHUNK, 0);
            let count = read(input, &mut self.packed[length..]);
            self.packed.truncate(length + count.as_ref().copied().unwrap_or(0));
            self.is_read = count? == 0;
        }
        Ok(next.min(self.packed.len()))
    }
}

fn read(input: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

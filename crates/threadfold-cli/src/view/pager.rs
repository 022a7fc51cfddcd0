//! A pager that starts only if the output exceeds the screen.

use std::env;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::terminal;

/// Standard output, through a pager if it is a terminal and the text is long.
pub(crate) enum Pager {
    /// Output that may still fit on the screen.
    Short { text: Vec<u8>, lines: usize, height: usize },
    /// A running pager.
    Paged { child: Child, input: Option<BufWriter<ChildStdin>> },
    /// Standard output itself.
    Direct(BufWriter<StdoutLock<'static>>),
}

impl Pager {
    /// Returns an output that starts a pager when needed.
    pub(crate) fn when_long() -> Self {
        match terminal::height() {
            Some(height) if io::stdout().is_terminal() && command().is_some() => {
                Self::Short { text: Vec::new(), lines: 0, height }
            }
            _ => Self::never(),
        }
    }

    /// Returns plain standard output.
    pub(crate) fn never() -> Self {
        Self::Direct(BufWriter::new(io::stdout().lock()))
    }

    /// Writes the rest, and waits until the pager is closed.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if let Self::Short { text, .. } = &mut self {
            let text = std::mem::take(text);
            self = Self::never();
            self.write_all(&text)?;
        }
        let flushed = self.flush();
        if let Self::Paged { child, input } = &mut self {
            drop(input.take());
            child.wait()?;
        }
        flushed
    }

    fn begin(&mut self, text: &[u8]) -> io::Result<()> {
        let started = command().and_then(|mut command| command.stdin(Stdio::piped()).spawn().ok());
        *self = match started {
            Some(mut child) => {
                let input = child.stdin.take().map(BufWriter::new);
                Self::Paged { child, input }
            }
            None => Self::never(),
        };
        self.write_all(text)
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Direct(out) => out.write(bytes),
            Self::Paged { input: Some(input), .. } => input.write(bytes),
            Self::Paged { input: None, .. } => Err(io::ErrorKind::BrokenPipe.into()),
            Self::Short { text, lines, height } => {
                text.extend_from_slice(bytes);
                *lines += bytes.iter().filter(|it| **it == b'\n').count();
                // The shell's prompt needs a line, too.
                if *lines >= *height {
                    let text = std::mem::take(text);
                    self.begin(&text)?;
                }
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Direct(out) => out.flush(),
            Self::Paged { input: Some(input), .. } => input.flush(),
            _ => Ok(()),
        }
    }
}

/// Returns the pager from `PAGER`, or `less`; `None` if the variable is empty or `cat`.
///
/// `-R` passes colours through, `-K` lets Ctrl-C end it together with this program.
fn command() -> Option<Command> {
    let mut command = match env::var("PAGER") {
        Ok(given) => {
            let mut words = given.split_whitespace();
            let program = words.next().filter(|program| *program != "cat")?;
            let mut command = Command::new(program);
            command.args(words);
            command
        }
        Err(_) => {
            let mut command = Command::new("less");
            command.args(["-R", "-K"]);
            command
        }
    };
    if env::var_os("LESS").is_none() {
        command.env("LESS", "RK");
    }
    Some(command)
}

//! Finds the next record on a line, and distinguishes it from content of a broken record.

use std::ops::Range;

use memchr::memmem;

use crate::recover::is_record;
use crate::recover::scan::{Scan, is_space, scan};

/// The first bytes of every object with keys, as agents write it.
const OBJECT: &[u8] = b"{\"";

/// Finds the records of a line, one after another.
#[derive(Clone, Debug)]
pub(super) struct Finder<'a> {
    line: &'a [u8],
    /// Only records, zero bytes and separators were found so far.
    is_intact_so_far: bool,
    run: Run,
}

/// A run of objects, separated by nothing or a comma: its end, and what follows it.
///
/// It is remembered so that the run is not scanned again for each of its objects, which would be
/// quadratic.
#[derive(Clone, Copy, Debug)]
struct Run {
    end: usize,
    after: Suffix,
}

impl<'a> Finder<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, is_intact_so_far: true, run: Run { end: 0, after: Suffix::End } }
    }

    /// Finds the first record at or after `from`, the end of the previous one.
    pub(super) fn find(&mut self, from: usize) -> Option<Range<usize>> {
        let mut place = match next_intact(self.line, from) {
            Some(place) if self.is_intact_so_far => place,
            _ => self.search(from)?,
        };
        loop {
            let Place { start, prefix } = place;
            place = match scan(self.line, start) {
                Scan::Whole { end, keys } if is_record(prefix, self.suffix(prefix, end), keys) => {
                    return Some(start..end);
                }
                Scan::Whole { end, .. } => self.search(end)?,
                Scan::Broken { at, closed } => {
                    self.is_intact_so_far = false;
                    let last = closed.and_then(|it| last_in_fragment(self.line, it));
                    if last.is_some() {
                        return last;
                    }
                    match splice(self.line, start, at) {
                        Some(start) => Place { start, prefix: prefix.broken_at(self.line, start) },
                        None => self.search(at.max(start + 1))?,
                    }
                }
            };
        }
    }

    /// Returns what follows the object that ends at `end`, or the run of objects that it opens.
    fn suffix(&mut self, prefix: Prefix, end: usize) -> Suffix {
        match prefix {
            Prefix::Intact => self.suffix_of_run(end),
            _ => Suffix::of(self.line, end),
        }
    }

    /// Returns what follows the run of objects that continues at `end`.
    fn suffix_of_run(&mut self, end: usize) -> Suffix {
        if end > self.run.end {
            self.run = Run::from(self.line, end);
        }
        self.run.after
    }

    /// Returns the next place where an object may begin, after lost bytes.
    fn search(&mut self, from: usize) -> Option<Place> {
        self.is_intact_so_far = false;
        let start = from + memmem::find(&self.line[from..], OBJECT)?;
        Some(Place { start, prefix: Prefix::of(self.line, start) })
    }
}

impl Run {
    fn from(line: &[u8], mut end: usize) -> Self {
        loop {
            match next_object(line, end).map(|start| scan(line, start)) {
                None => return Self { end, after: Suffix::of(line, end) },
                Some(Scan::Broken { .. }) => return Self { end, after: Suffix::End },
                Some(Scan::Whole { end: next_end, .. }) => end = next_end,
            }
        }
    }
}

/// Where a record may begin.
struct Place {
    start: usize,
    prefix: Prefix,
}

/// What the bytes before a place prove about it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    /// Everything before it is intact, so a record must begin here.
    Intact,
    /// A record with an intact prefix broke here.
    Splice,
    /// The byte before it cannot precede a value inside a record.
    Between,
    /// It may be inside a broken record.
    Inside,
}

impl Prefix {
    fn of(line: &[u8], start: usize) -> Self {
        match line[..start].iter().rfind(|it| !is_space(**it)) {
            Some(b':' | b'[' | b',') => Self::Inside,
            _ => Self::Between,
        }
    }

    /// Returns the prefix of `start`, where a record with this prefix broke.
    fn broken_at(self, line: &[u8], start: usize) -> Self {
        match self {
            Self::Intact | Self::Splice => Self::Splice,
            Self::Between | Self::Inside => Self::of(line, start),
        }
    }
}

/// What follows a complete object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suffix {
    /// The end of the line, another object, or zero bytes.
    End,
    /// The rest of what seems to be an enclosing value.
    Rest,
    /// Anything else.
    Noise,
}

impl Suffix {
    fn of(line: &[u8], end: usize) -> Self {
        match line[end..].iter().find(|it| !is_space(**it)) {
            None | Some(b'{' | b'\0') => Self::End,
            Some(b',' | b']' | b'}') => Self::Rest,
            Some(_) => Self::Noise,
        }
    }
}

/// Returns the start of the object that follows `end`, directly or after a comma.
fn next_object(line: &[u8], end: usize) -> Option<usize> {
    let bytes = line.iter().enumerate().skip(end);
    let mut bytes = bytes.filter(|(_, it)| !is_space(**it)).peekable();
    bytes.next_if(|(_, it)| **it == b',');
    bytes.next().filter(|(_, it)| **it == b'{').map(|(start, _)| start)
}

/// Returns the place of the next object, if only separators and zero bytes precede it.
fn next_intact(line: &[u8], from: usize) -> Option<Place> {
    let separators = line[from..].iter().take_while(|it| is_space(**it) || b",\0".contains(it));
    let start = from + separators.count();
    (line.get(start) == Some(&b'{')).then_some(Place { start, prefix: Prefix::Intact })
}

/// Returns where a record was spliced into the one that begins at `start` and broke at `at`.
///
/// If that one ended inside a string, the `{` of the spliced record looks like text and its first
/// quote like the end of the string, so the error is at the first letter of its first key.
fn splice(line: &[u8], start: usize, at: usize) -> Option<usize> {
    if line.get(at) == Some(&b'{') {
        return Some(at);
    }
    let quoted = at.checked_sub(OBJECT.len())?;
    (quoted > start && line[quoted..at] == *OBJECT).then_some(quoted)
}

/// Returns the object at `start` if it seems to be a record that was spliced in place of a value.
///
/// It ended right before a fragment broke. Only its keys distinguish it from a piece of the
/// fragment that happens to end there.
fn last_in_fragment(line: &[u8], start: usize) -> Option<Range<usize>> {
    match scan(line, start) {
        Scan::Whole { end, keys } if keys.typed && keys.signed => Some(start..end),
        _ => None,
    }
}

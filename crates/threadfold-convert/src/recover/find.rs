//! Finds the next record on a line, and tells it from a piece of content of a broken one.

use std::ops::Range;

use memchr::memmem;

use crate::recover::scan::{Keys, Scan, is_space, scan};

/// How every object begins that holds something, as agents write it.
const OBJECT: &[u8] = b"{\"";

/// Finds the records of a line, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Finder<'a> {
    line: &'a [u8],
    /// Nothing but records, zero bytes and separators came so far.
    is_whole_so_far: bool,
    run: Run,
}

/// Objects with nothing or a comma between them: where the last ends, and what comes after it.
///
/// It is kept so that no run is looked through again for each of its objects.
#[derive(Clone, Copy, Debug)]
struct Run {
    end: usize,
    after: After,
}

impl<'a> Finder<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, is_whole_so_far: true, run: Run { end: 0, after: After::End } }
    }

    /// Finds the first record at or after `from`, which is where the last one ended.
    pub(super) fn find(&mut self, from: usize) -> Option<Range<usize>> {
        let mut place = match next_in_whole(self.line, from) {
            Some(place) if self.is_whole_so_far => place,
            _ => self.search(from)?,
        };
        loop {
            let Place { start, ground } = place;
            place = match scan(self.line, start) {
                Scan::Whole { end, keys } if self.is_record(ground, keys, end) => {
                    return Some(start..end);
                }
                Scan::Whole { end, .. } => self.search(end)?,
                Scan::Broken { at, closed } => {
                    self.is_whole_so_far = false;
                    let last = closed.and_then(|it| last_in_fragment(self.line, it));
                    if last.is_some() {
                        return last;
                    }
                    match splice(self.line, start, at) {
                        Some(start) => Place { start, ground: ground.broken_at(self.line, start) },
                        None => self.search(at.max(start + 1))?,
                    }
                }
            };
        }
    }

    /// Says whether the whole object that ends at `end` is a record.
    fn is_record(&mut self, ground: Ground, keys: Keys, end: usize) -> bool {
        let after = match ground {
            Ground::Whole => self.after_run(end),
            _ => After::of(self.line, end),
        };
        match (ground, after) {
            (Ground::Whole, After::End) => true,
            (Ground::Whole, After::Noise) => keys.any,
            (Ground::Whole, After::Rest) => keys.typed && keys.signed,
            (Ground::Splice, After::End) => true,
            (Ground::Splice, After::Noise | After::Rest) => keys.typed,
            (Ground::Between, After::End | After::Noise) => keys.typed,
            (Ground::Inside, After::End | After::Noise) => keys.typed && keys.signed,
            (Ground::Between | Ground::Inside, After::Rest) => false,
        }
    }

    /// Returns what comes after the object that ends at `end` and the objects that follow it.
    fn after_run(&mut self, end: usize) -> After {
        if end > self.run.end {
            self.run = Run::from(self.line, end);
        }
        self.run.after
    }

    /// Returns the next place where an object may begin, past something that is lost.
    fn search(&mut self, from: usize) -> Option<Place> {
        self.is_whole_so_far = false;
        let start = from + memmem::find(&self.line[from..], OBJECT)?;
        Some(Place { start, ground: Ground::of(self.line, start) })
    }
}

impl Run {
    fn from(line: &[u8], mut end: usize) -> Self {
        loop {
            match next_object(line, end).map(|start| scan(line, start)) {
                None => return Self { end, after: After::of(line, end) },
                Some(Scan::Broken { .. }) => return Self { end, after: After::End },
                Some(Scan::Whole { end: next_end, .. }) => end = next_end,
            }
        }
    }
}

/// Where a record may begin.
struct Place {
    start: usize,
    ground: Ground,
}

/// What is known of a place from what comes before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ground {
    /// All before it is whole, so a record is what must come.
    Whole,
    /// A record that began on whole ground broke here.
    Splice,
    /// The byte before it cannot stand before a value inside of a record.
    Between,
    /// It may well be inside of a record that is broken.
    Inside,
}

impl Ground {
    fn of(line: &[u8], start: usize) -> Self {
        match line[..start].iter().rfind(|it| !is_space(**it)) {
            Some(b':' | b'[' | b',') => Self::Inside,
            _ => Self::Between,
        }
    }

    /// Returns the ground at `start`, where what stood on this ground broke.
    fn broken_at(self, line: &[u8], start: usize) -> Self {
        match self {
            Self::Whole | Self::Splice => Self::Splice,
            Self::Between | Self::Inside => Self::of(line, start),
        }
    }
}

/// What comes after a whole object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The end of the line, another object, or zero bytes.
    End,
    /// The rest of what seems to be around it.
    Rest,
    /// Something else.
    Noise,
}

impl After {
    fn of(line: &[u8], end: usize) -> Self {
        match line[end..].iter().find(|it| !is_space(**it)) {
            None | Some(b'{' | b'\0') => Self::End,
            Some(b',' | b']' | b'}') => Self::Rest,
            Some(_) => Self::Noise,
        }
    }
}

/// Returns where the object begins that follows `end`, directly or after a comma.
fn next_object(line: &[u8], end: usize) -> Option<usize> {
    let bytes = line.iter().enumerate().skip(end);
    let mut bytes = bytes.filter(|(_, it)| !is_space(**it)).peekable();
    bytes.next_if(|(_, it)| **it == b',');
    bytes.next().filter(|(_, it)| **it == b'{').map(|(start, _)| start)
}

/// Returns the place of the next object, if only separators and zero bytes come before it.
fn next_in_whole(line: &[u8], from: usize) -> Option<Place> {
    let separators = line[from..].iter().take_while(|it| is_space(**it) || b",\0".contains(it));
    let start = from + separators.count();
    (line.get(start) == Some(&b'{')).then_some(Place { start, ground: Ground::Whole })
}

/// Returns where a record was spliced into the one that begins at `start` and broke at `at`.
///
/// Inside of a string its `{` was taken for text and its first quote for the string's end, so
/// that it broke only at the first letter of its first key.
fn splice(line: &[u8], start: usize, at: usize) -> Option<usize> {
    if line.get(at) == Some(&b'{') {
        return Some(at);
    }
    let quoted = at.checked_sub(OBJECT.len())?;
    (quoted > start && line[quoted..at] == *OBJECT).then_some(quoted)
}

/// Returns the object at `start` if it seems to be a record spliced in where a value may stand.
///
/// It is the last thing before a fragment broke. Only its keys tell it from a piece of the
/// fragment that happens to end there.
fn last_in_fragment(line: &[u8], start: usize) -> Option<Range<usize>> {
    match scan(line, start) {
        Scan::Whole { end, keys } if keys.typed && keys.signed => Some(start..end),
        _ => None,
    }
}

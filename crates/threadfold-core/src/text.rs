//! Text that grows: appending is cheap, and every earlier length stays readable.
//!
//! All states that hold a growing text share one buffer; each state is a length in it. Appending at
//! the longest length writes into the buffer. Appending at a shorter one, in a state that diverged
//! from its clone, copies the buffer first.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that may still grow.
#[derive(Clone)]
pub struct Text(Repr);

#[derive(Clone)]
enum Repr {
    Whole(Arc<str>),
    Growing(Buffer, usize),
}

impl Text {
    /// Returns the length in UTF-8 bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Whole(text) => text.len(),
            Repr::Growing(_, length) => *length,
        }
    }

    /// Returns true if the text is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the text, copied if it is still growing.
    pub fn to_str(&self) -> Cow<'_, str> {
        match &self.0 {
            Repr::Whole(text) => Cow::Borrowed(text),
            Repr::Growing(buffer, length) => Cow::Owned(buffer.prefix(*length)),
        }
    }

    /// Returns true if the text at `offset` is `known`.
    pub(crate) fn holds(&self, offset: usize, known: &str) -> bool {
        match &self.0 {
            Repr::Whole(text) => text.get(offset..offset + known.len()) == Some(known),
            Repr::Growing(buffer, _) => buffer.holds(offset, known),
        }
    }

    /// Moves the text into a buffer that can be appended to.
    pub(crate) fn grow(&mut self) -> Buffer {
        match &self.0 {
            Repr::Growing(buffer, _) => buffer.clone(),
            Repr::Whole(text) => {
                let buffer = Buffer::holding(text);
                self.0 = Repr::Growing(buffer.clone(), text.len());
                buffer
            }
        }
    }

    /// Returns a text of `length` bytes in `buffer`.
    pub(crate) fn in_buffer(buffer: Buffer, length: usize) -> Self {
        Self(Repr::Growing(buffer, length))
    }

    /// Appends `delta`.
    pub(crate) fn append(&mut self, delta: &str) {
        let length = self.len();
        let mut buffer = self.grow();
        if !buffer.push(length, delta) {
            buffer = buffer.fork(length, delta);
        }
        self.0 = Repr::Growing(buffer, length + delta.len());
    }
}

/// A text buffer that several states share.
#[derive(Clone)]
pub(crate) struct Buffer(Arc<Mutex<String>>);

impl Buffer {
    fn holding(text: &str) -> Self {
        let mut buffer = String::with_capacity((text.len() * 2).max(64));
        buffer.push_str(text);
        Self(Arc::new(Mutex::new(buffer)))
    }

    /// Appends `delta` if `length` is the buffer's whole length. Returns true if it did.
    pub(crate) fn push(&self, length: usize, delta: &str) -> bool {
        let mut text = self.lock();
        let is_newest = text.len() == length;
        if is_newest {
            text.push_str(delta);
        }
        is_newest
    }

    /// Returns a new buffer with the first `length` bytes of this one, followed by `delta`.
    pub(crate) fn fork(&self, length: usize, delta: &str) -> Self {
        let mut text = String::with_capacity(((length + delta.len()) * 2).max(64));
        text.push_str(&self.lock()[..length]);
        text.push_str(delta);
        Self(Arc::new(Mutex::new(text)))
    }

    /// Returns true if the text at `offset` is `known`.
    pub(crate) fn holds(&self, offset: usize, known: &str) -> bool {
        self.lock().get(offset..offset + known.len()) == Some(known)
    }

    fn prefix(&self, length: usize) -> String {
        self.lock()[..length].to_owned()
    }

    fn lock(&self) -> MutexGuard<'_, String> {
        // A string is valid after every push, so a panic elsewhere cannot leave it half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::from("")
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Repr::Whole(text.into()))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Repr::Whole(text.into()))
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Self(Repr::Whole(text))
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        match (&self.0, &other.0) {
            (Repr::Whole(a), Repr::Whole(b)) => a == b,
            (Repr::Growing(a, _), Repr::Growing(b, _)) if Arc::ptr_eq(&a.0, &b.0) => true,
            _ => self.to_str() == other.to_str(),
        }
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_str())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_str())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// Reads a text without a copy in between: it may be a large part of the memory.
struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text, E> {
        Ok(Text::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diverging_clone_does_not_change_the_original() {
        let mut first = Text::from("a");
        first.append("b");
        let mut other = first.clone();
        first.append("c");
        other.append("d");
        first.append("e");
        assert_eq!(
            (&*first.to_str(), &*other.to_str()),
            ("abce", "abd"),
            "two states share a buffer only up to where they diverge"
        );
    }

    #[test]
    fn every_earlier_length_stays_readable() {
        let mut text = Text::default();
        let mut kept = Vec::new();
        for letter in 'a'..='z' {
            text.append(&letter.to_string());
            kept.push(text.clone());
        }
        let lengths: Vec<_> = kept.iter().map(|it| it.to_str().len()).collect();
        assert_eq!(lengths, (1..=26).collect::<Vec<_>>());
        assert_eq!(&*kept[2].to_str(), "abc");
    }
}

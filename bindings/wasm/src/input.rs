//! The host's input: texts of known lengths, one after another in one buffer.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Takes texts from the front of the input.
pub(crate) struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Takes so many bytes, or as many as there are.
    pub(crate) fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        head
    }

    /// Takes so many bytes of text.
    pub(crate) fn text(&mut self, length: usize) -> Result<&'a str, String> {
        text(self.bytes(length))
    }

    /// Takes a length: four bytes, the lowest first.
    #[cfg(feature = "convert")]
    pub(crate) fn length(&mut self) -> usize {
        let bytes = self.bytes(4);
        bytes.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte))
    }

    /// Takes everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.bytes(usize::MAX)
    }
}

/// Returns bytes as text.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| format!("the text is not UTF-8: {error}"))
}

/// Calls `each` with the text of every event: a list of events, or lines of one event each.
pub(crate) fn each_event(text: &str, mut each: impl FnMut(&str)) -> Result<(), String> {
    if text.trim_start().starts_with('[') {
        let events: Vec<&RawValue> = serde_json::from_str(text).map_err(|it| it.to_string())?;
        events.into_iter().for_each(|event| each(event.get()));
        return Ok(());
    }
    text.split('\n').filter(|line| !line.trim().is_empty()).for_each(each);
    Ok(())
}

/// The part of a frame that a reducer reads.
#[derive(Deserialize)]
pub(crate) struct EventsFrame<'a> {
    #[serde(borrow)]
    pub(crate) events: &'a RawValue,
}

/// A conversation in any text that contains one: a snapshot of a state, a snapshot of a session,
/// or a frame with the latter.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SnapshotText<'a> {
    #[serde(borrow, default)]
    snapshot: Option<&'a RawValue>,
    #[serde(borrow, default)]
    slices: Option<&'a RawValue>,
    #[serde(default)]
    state_hash: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SliceText<'a> {
    slice_type: String,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// Returns the text of the state in a snapshot, and the hash that it should have, if that is known.
pub(crate) fn find_state(text: &str) -> Result<(&str, Option<String>), String> {
    let outer: SnapshotText<'_> = serde_json::from_str(text).map_err(|it| it.to_string())?;
    if let Some(inner) = outer.snapshot {
        return find_state(inner.get());
    }
    let Some(slices) = outer.slices else { return Ok((text, None)) };
    let slices: Vec<SliceText<'_>> =
        serde_json::from_str(slices.get()).map_err(|it| it.to_string())?;
    let slice = slices.iter().find(|it| it.slice_type == "conversation");
    let item = slice.and_then(|it| it.items.first()).ok_or("the snapshot has no conversation")?;
    Ok((item.get(), outer.state_hash))
}

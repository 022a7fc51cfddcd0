//! A request as JSON, parsed only as deep as the rules need.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::surrogate;
use super::violation::{ProviderRule, Violation};
use crate::work;

/// An object of a request, with its fields unparsed.
#[derive(Clone, Debug, Default)]
pub(super) struct Item<'a>(BTreeMap<Cow<'a, str>, &'a RawValue>);

impl<'a> Item<'a> {
    pub(super) fn read(raw: &'a RawValue) -> Self {
        Self(serde_json::from_str(raw.get()).unwrap_or_default())
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied().filter(|raw| raw.get() != "null")
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(text)
    }

    /// Returns the text of `name`, or an empty string.
    pub(super) fn string(&self, name: &str) -> String {
        self.text(name).unwrap_or_default()
    }

    pub(super) fn list(&self, name: &str) -> Option<Vec<&'a RawValue>> {
        self.get(name).and_then(list)
    }

    pub(super) fn items(&self, name: &str) -> Vec<Self> {
        self.list(name).unwrap_or_default().into_iter().map(Self::read).collect()
    }
}

pub(super) fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

pub(super) fn list(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// A request: its fields, and its messages.
pub(super) struct Request<'a> {
    pub(super) fields: Item<'a>,
    pub(super) messages: Vec<&'a RawValue>,
}

impl<'a> Request<'a> {
    /// Reads a request, or only its list of messages, which is the field `name`.
    pub(super) fn read(bytes: &'a [u8], name: &str) -> Result<Self, Violation> {
        work::read(bytes.len());
        let wrong = |found: String| Violation::new(ProviderRule::A7, "", found);
        let text = std::str::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
        let raw: &RawValue =
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if surrogate::has_lone(text) {
            return Err(wrong(surrogate::FOUND.to_owned()));
        }
        if let Some(messages) = list(raw) {
            return Ok(Self { fields: Item::default(), messages });
        }
        let fields = Item::read(raw);
        let messages = fields
            .list(name)
            .ok_or_else(|| Violation::new(ProviderRule::A7, name, "no list of messages"))?;
        Ok(Self { fields, messages })
    }
}

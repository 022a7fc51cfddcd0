//! Text of a record that is borrowed from it: what the agents' wire types are made of.

use std::borrow::Cow;

use serde::Deserialize;

/// Text that is borrowed from the record where it can be.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Str<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl std::ops::Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

//! Text that wire types borrow from a record.

use std::borrow::Cow;

use serde::Deserialize;

/// Text that is borrowed from the record, unless it contains escapes.
///
/// `serde` borrows for `Cow` only with `borrow` on the field itself, which `Option<Cow>` ignores;
/// hence a type of its own.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Str<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl std::ops::Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

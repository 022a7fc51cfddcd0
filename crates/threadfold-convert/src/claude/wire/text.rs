//! Text that is deserialized directly into shared memory.

use std::fmt;
use std::sync::Arc;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use threadfold_core::Text;

/// Text that a block will hold.
///
/// It is deserialized into the block's own allocation, so that long texts are not copied twice.
#[derive(Debug, Clone)]
pub(in crate::claude) struct SharedText(pub(in crate::claude) Arc<str>);

impl SharedText {
    /// Returns the text, which shares its memory; a missing one is empty.
    pub(in crate::claude) fn text(shared: &Option<Self>) -> Text {
        shared.as_ref().map(|it| it.0.clone()).unwrap_or_default().into()
    }
}

impl std::ops::Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for SharedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl Visitor<'_> for TextVisitor {
            type Value = SharedText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(SharedText(text.into()))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

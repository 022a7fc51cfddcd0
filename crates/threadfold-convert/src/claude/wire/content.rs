//! Messages and their content: text, or a list of blocks.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::SharedText;
use crate::borrowed::Str;

/// How many blocks a message may have. Each takes memory out of proportion to its bytes, so a record
/// with more is kept as a whole, like any record that is not understood.
const MOST_BLOCKS: usize = 1 << 14;

/// A message from or to the model.
#[derive(Debug, Deserialize)]
pub(in crate::claude) struct Message<'a> {
    #[serde(borrow)]
    pub(in crate::claude) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::claude) model: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(in crate::claude) content: Content<'a>,
    #[serde(borrow)]
    pub(in crate::claude) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(in crate::claude) stop_reason: Option<Str<'a>>,
}

/// The content of a message.
#[derive(Debug, Default)]
pub(in crate::claude) enum Content<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    Blocks(Vec<ContentBlock<'a>>),
}

/// One block of a message, of any type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::claude) struct ContentBlock<'a> {
    #[serde(borrow, rename = "type")]
    pub(in crate::claude) kind: Option<Str<'a>>,
    pub(in crate::claude) text: Option<SharedText>,
    pub(in crate::claude) thinking: Option<SharedText>,
    pub(in crate::claude) signature: Option<SharedText>,
    #[serde(borrow)]
    pub(in crate::claude) data: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::claude) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::claude) name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::claude) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(in crate::claude) tool_use_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::claude) content: Option<&'a RawValue>,
    pub(in crate::claude) is_error: Option<bool>,
    #[serde(borrow)]
    pub(in crate::claude) source: Option<ImageSource<'a>>,
    #[serde(borrow)]
    pub(in crate::claude) title: Option<Str<'a>>,
}

/// The source of an image or a document: inline data, or a URL.
#[derive(Debug, Deserialize)]
pub(in crate::claude) struct ImageSource<'a> {
    #[serde(borrow)]
    pub(in crate::claude) media_type: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::claude) data: Option<Str<'a>>,
    #[serde(borrow)]
    pub(in crate::claude) url: Option<Str<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrBlocks;

        impl<'de> Visitor<'de> for TextOrBlocks {
            type Value = Content<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, or a list of blocks")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Content::None)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                // The agent writes one line per block.
                let mut blocks = Vec::with_capacity(1);
                while let Some(element) = list.next_element::<Element<'de>>()? {
                    if blocks.len() == MOST_BLOCKS {
                        return Err(A::Error::custom("a message has too many blocks"));
                    }
                    blocks.push(element.0);
                }
                Ok(Content::Blocks(blocks))
            }
        }

        deserializer.deserialize_any(TextOrBlocks)
    }
}

/// An element of a content list: a block, or plain text, which counts as a text block.
struct Element<'a>(ContentBlock<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Element<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrBlock;

        impl<'de> Visitor<'de> for TextOrBlock {
            type Value = Element<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, or a block")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Element(text_block(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Element(text_block(Cow::Owned(text.to_owned()))))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let fields = serde::de::value::MapAccessDeserializer::new(map);
                ContentBlock::deserialize(fields).map(Element)
            }
        }

        deserializer.deserialize_any(TextOrBlock)
    }
}

fn text_block(text: Cow<'_, str>) -> ContentBlock<'_> {
    ContentBlock {
        kind: Some(Str(Cow::Borrowed("text"))),
        text: Some(SharedText(text.into())),
        ..ContentBlock::default()
    }
}

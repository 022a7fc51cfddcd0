//! Rust types as far as they are on the wire.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// Types by their names.
#[derive(Debug, Default)]
pub(super) struct Items {
    types: BTreeMap<String, Item>,
    constants: BTreeMap<String, String>,
}

/// A type.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) docs: Vec<String>,
    pub(super) shape: Shape,
}

#[derive(Debug)]
pub(super) enum Shape {
    /// An object.
    Object(Vec<Field>),
    /// One of several texts.
    Texts(Vec<String>),
    /// One of several objects, distinguished by `type`, with their fields.
    Tagged(Vec<Variant>),
    /// One of several objects, distinguished by `type`, each a type of its own.
    Bodies(Vec<Body>),
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) docs: Vec<String>,
    pub(super) name: String,
    /// The type in TypeScript.
    pub(super) kind: String,
    pub(super) is_optional: bool,
    /// The fields of that type stand here instead of it.
    pub(super) is_flat: bool,
}

#[derive(Debug)]
pub(super) struct Variant {
    pub(super) docs: Vec<String>,
    pub(super) wire: String,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug)]
pub(super) struct Body {
    pub(super) docs: Vec<String>,
    pub(super) wire: String,
    pub(super) of: String,
}

impl Items {
    pub(super) fn add(&mut self, name: String, docs: Vec<String>, shape: Shape) {
        self.types.insert(name, Item { docs, shape });
    }

    pub(super) fn add_constant(&mut self, name: String, value: String) {
        self.constants.insert(name, value);
    }

    pub(super) fn get(&self, name: &str) -> Result<&Item> {
        self.types.get(name).with_context(|| format!("no Rust type `{name}` was found"))
    }

    pub(super) fn constant(&self, name: &str) -> Result<&str> {
        let found = self.constants.get(name).map(String::as_str);
        found.with_context(|| format!("no constant `{name}` was found"))
    }

    /// Returns the fields of an object.
    pub(super) fn fields(&self, name: &str) -> Result<&[Field]> {
        match &self.get(name)?.shape {
            Shape::Object(fields) => Ok(fields),
            _ => anyhow::bail!("`{name}` is not an object"),
        }
    }
}

//! What the committed modules were built from.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::inputs;
use super::toolchain::Toolchain;

const FILE: &str = "built.json";

/// The record beside the built files.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BuildRecord {
    /// The compiler.
    pub(super) toolchain: String,
    /// The hash of the sources, the dependencies and the profile.
    pub(super) inputs: String,
    /// The hash of each module.
    pub(super) modules: BTreeMap<String, String>,
}

impl BuildRecord {
    pub(super) fn of(toolchain: &Toolchain, built: &[(&str, Vec<u8>)]) -> Result<Self> {
        let modules = built.iter().map(|(name, bytes)| ((*name).to_owned(), hash_of(bytes)));
        Ok(Self {
            toolchain: toolchain.name(),
            inputs: inputs::hash()?,
            modules: modules.collect(),
        })
    }

    pub(super) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("`{}`: run `cargo xtask wasm`", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("`{}`", path.display()))
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(folder.join(FILE), text).context("the record cannot be written")
    }
}

pub(super) fn hash_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

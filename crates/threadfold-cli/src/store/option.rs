//! The `--store` option.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use etcetera::BaseStrategy;
use etcetera::base_strategy::choose_native_strategy;

use super::StoreLocation;
use crate::error::CommandError;

/// Which store is used.
#[derive(Args, Clone)]
pub(crate) struct StoreArgs {
    /// Use this store instead of `threadfold/store.db` in the data folder: a file, or
    /// `postgres://USER@HOST/DATABASE`
    #[arg(long, value_name = "STORE", env = "THREADFOLD_STORE", hide_env_values = true, value_parser = possibly_empty())]
    store: Option<OsString>,
}

/// Accepts an empty value, which the environment variable may have, and which counts as unset.
fn possibly_empty() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new()
}

impl StoreArgs {
    /// Returns whether a person named the store.
    pub(super) fn is_named(&self) -> bool {
        self.value().is_some()
    }

    fn value(&self) -> Option<&OsString> {
        self.store.as_ref().filter(|value| !value.is_empty())
    }

    /// Returns where the store is, or would be created.
    pub(crate) fn location(&self) -> Result<StoreLocation, CommandError> {
        if let Some(value) = self.value() {
            return StoreLocation::parse(value);
        }
        let folder = data_folder().ok_or_else(|| {
            CommandError::new(
                anyhow!("there is no home folder for a store"),
                "choose a store with `--store` or `THREADFOLD_STORE`",
            )
        })?;
        Ok(StoreLocation::File(folder.join("store.db")))
    }
}

/// Returns the program's data folder.
pub(crate) fn data_folder() -> Option<PathBuf> {
    choose_native_strategy().ok().map(|folders| folders.data_dir().join("threadfold"))
}

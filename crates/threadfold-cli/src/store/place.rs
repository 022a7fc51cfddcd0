//! Where the store is.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use etcetera::BaseStrategy;
use etcetera::base_strategy::choose_native_strategy;

use crate::error::CommandError;

/// Which store is used.
#[derive(Args, Clone)]
pub(crate) struct StoreArgs {
    /// Use the store in this file instead of `threadfold/store.db` in the data folder
    #[arg(long, value_name = "PATH", env = "THREADFOLD_STORE", hide_env_values = true, value_parser = path_or_nothing())]
    store: Option<PathBuf>,
}

/// An empty value, as an environment may have one, says nothing.
fn path_or_nothing() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

impl StoreArgs {
    /// Says whether a person named it.
    pub(super) fn is_named(&self) -> bool {
        self.named().is_some()
    }

    fn named(&self) -> Option<&PathBuf> {
        self.store.as_ref().filter(|path| !path.as_os_str().is_empty())
    }

    /// Returns where the store is, or would be.
    pub(crate) fn path(&self) -> Result<PathBuf, CommandError> {
        if let Some(path) = self.named() {
            return Ok(path.clone());
        }
        match choose_native_strategy() {
            Ok(folders) => Ok(folders.data_dir().join("threadfold").join("store.db")),
            Err(_) => Err(CommandError::new(
                anyhow!("there is no home folder to keep a store in"),
                "`--store` or `THREADFOLD_STORE` tell where the store is",
            )),
        }
    }
}

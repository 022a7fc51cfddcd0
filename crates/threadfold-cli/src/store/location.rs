//! Where a store is: a path or a URL, and how it is opened.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Store, StoreError};

use crate::error::CommandError;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    /// An SQLite file.
    File(PathBuf),
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    ReadWrite,
    ReadOnly,
}

impl StoreLocation {
    /// Parses a path, or a URL such as `sqlite://PATH`.
    pub(super) fn parse(value: &OsStr) -> Result<Self, CommandError> {
        match value.to_str().and_then(split_scheme) {
            None => Ok(Self::File(PathBuf::from(value))),
            Some(("sqlite", path)) => Ok(Self::File(PathBuf::from(path))),
            Some((scheme, _)) => Err(CommandError::new(
                anyhow!("stores with the URL scheme `{scheme}://` are not supported"),
                "give the path of a file, or a URL with a supported scheme: `sqlite://PATH`",
            )),
        }
    }

    /// Opens the store; one for writing is created if it does not exist.
    pub(super) fn open(&self, access: Access) -> Result<Arc<dyn Store>, StoreError> {
        match (self, access) {
            (Self::File(path), Access::ReadWrite) => Ok(Arc::new(SqliteStore::open(path)?)),
            (Self::File(path), Access::ReadOnly) => {
                Ok(Arc::new(SqliteStore::open_read_only(path)?))
            }
        }
    }

    /// Returns whether the store exists. Existence of a remote store is only known after opening it,
    /// so remote stores count as existing.
    pub(super) fn exists(&self) -> bool {
        match self {
            Self::File(path) => path.exists(),
        }
    }

    /// Returns the store's file, if it is in one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
        }
    }
}

/// Splits a URL into its scheme and the rest; `None` for a path.
fn split_scheme(value: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = value.split_once("://")?;
    let is_scheme = scheme.starts_with(|it: char| it.is_ascii_alphabetic())
        && scheme.bytes().all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it));
    is_scheme.then_some((scheme, rest))
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_or_an_sqlite_url_is_a_file() {
        for (value, path) in [
            ("store.db", "store.db"),
            ("/data/store.db", "/data/store.db"),
            ("sqlite://store.db", "store.db"),
            ("sqlite:///data/store.db", "/data/store.db"),
            ("C:\\data\\store.db", "C:\\data\\store.db"),
            ("odd folder/://store.db", "odd folder/://store.db"),
        ] {
            let location = StoreLocation::parse(OsStr::new(value)).ok();
            assert_eq!(location, Some(StoreLocation::File(path.into())), "{value}");
        }
    }

    #[test]
    fn an_unknown_scheme_is_refused_with_the_supported_ones() {
        let Err(CommandError::Failed { error, hint }) =
            StoreLocation::parse(OsStr::new("postgres://host/db"))
        else {
            panic!("it is not supported yet");
        };
        assert_eq!(error.to_string(), "stores with the URL scheme `postgres://` are not supported");
        assert!(hint.contains("`sqlite://PATH`"), "{hint}");
    }
}

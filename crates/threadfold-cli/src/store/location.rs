//! Where a store is: a path or a URL, and how it is opened.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fmt, fs};

use anyhow::anyhow;
use threadfold_postgres::{PostgresStore, PostgresUrl};
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Store, StoreError};

use crate::error::CommandError;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    /// An SQLite file.
    File(PathBuf),
    /// A PostgreSQL database.
    Database(Box<PostgresUrl>),
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    ReadWrite,
    ReadOnly,
}

impl StoreLocation {
    /// Parses a path, or a URL such as `sqlite://PATH` or `postgres://USER@HOST/DATABASE`.
    pub(crate) fn parse(value: &OsStr) -> Result<Self, CommandError> {
        match value.to_str().and_then(split_scheme) {
            None => Ok(Self::File(PathBuf::from(value))),
            Some(("sqlite", path)) => Ok(Self::File(PathBuf::from(path))),
            Some(("postgres" | "postgresql", _)) => {
                let url: Result<PostgresUrl, _> = value.to_str().unwrap_or_default().parse();
                let url = url.map_err(|error| {
                    CommandError::new(anyhow!(error), "give it as `postgres://USER@HOST/DATABASE`")
                })?;
                Ok(Self::Database(Box::new(with_password(url)?)))
            }
            Some((scheme, _)) => Err(CommandError::new(
                anyhow!("stores with the URL scheme `{scheme}://` are not supported"),
                "give the path of a file, or a URL with a supported scheme: `sqlite://PATH` or \
                 `postgres://USER@HOST/DATABASE`",
            )),
        }
    }

    /// Opens the store; one for writing is created if it does not exist.
    pub(super) async fn open(&self, access: Access) -> Result<Arc<dyn Store>, StoreError> {
        match (self, access) {
            (Self::Database(url), Access::ReadWrite) => {
                Ok(Arc::new(PostgresStore::open(url).await?))
            }
            (Self::Database(url), Access::ReadOnly) => {
                Ok(Arc::new(PostgresStore::open_read_only(url).await?))
            }
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
            Self::Database(_) => true,
        }
    }

    /// Returns the store's file, if it is in one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Database(_) => None,
        }
    }
}

/// Adds the password from the environment or from the user's password file, if the URL has none.
fn with_password(url: PostgresUrl) -> Result<PostgresUrl, CommandError> {
    if url.has_password() {
        return Ok(url);
    }
    if let Ok(password) = env::var("PGPASSWORD") {
        return Ok(url.with_password(&password));
    }
    let named = env::var_os("PGPASSFILE").map(PathBuf::from);
    let usual = || env::home_dir().map(|home| home.join(".pgpass"));
    let Some(path) = named.clone().or_else(usual) else { return Ok(url) };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(_) if named.is_none() => return Ok(url),
        Err(error) => {
            let problem = anyhow!(error).context(format!("cannot read `{}`", path.display()));
            return Err(CommandError::new(problem, "`PGPASSFILE` names this file"));
        }
    };
    if is_open_to_others(&path) {
        return Err(CommandError::new(
            anyhow!("`{}` can be read by others, and has passwords", path.display()),
            format!("chmod 0600 {}", path.display()),
        ));
    }
    Ok(match url.password_in(&text) {
        Some(password) => url.with_password(&password),
        None => url,
    })
}

#[cfg(unix)]
fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|it| it.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &Path) -> bool {
    false
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
            Self::Database(url) => url.fmt(f),
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
    fn a_postgres_url_is_a_database_and_prints_without_its_password() {
        for scheme in ["postgres", "postgresql"] {
            let value = format!("{scheme}://me:secret@host/db");
            let Ok(location) = StoreLocation::parse(OsStr::new(&value)) else { panic!("{value}") };
            assert!(location.file().is_none() && location.exists());
            assert!(!location.to_string().contains("secret"), "{location}");
        }
    }

    #[test]
    fn an_unknown_scheme_is_refused_with_the_supported_ones() {
        let Err(CommandError::Failed { error, hint }) =
            StoreLocation::parse(OsStr::new("mysql://host/db"))
        else {
            panic!("it is not supported");
        };
        assert_eq!(error.to_string(), "stores with the URL scheme `mysql://` are not supported");
        assert!(hint.contains("`sqlite://PATH`") && hint.contains("`postgres://"), "{hint}");
    }
}

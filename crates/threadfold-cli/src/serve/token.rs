//! The token of the server, in a file that only its user can read.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use threadfold_export::create_private;
use threadfold_server::Token;

use super::noted::is_noted;
use crate::error::CommandError;
use crate::store::data_folder;

/// The environment variable with the token, for clients.
const VARIABLE: &str = "THREADFOLD_TOKEN";

/// Returns the file of the token.
pub(super) fn path(given: Option<PathBuf>) -> Result<PathBuf, CommandError> {
    match given {
        Some(path) => Ok(path),
        None => default_path().ok_or_else(|| {
            CommandError::new(
                anyhow!("there is no home folder for a token"),
                "choose a file with `--token-file`",
            )
        }),
    }
}

fn default_path() -> Option<PathBuf> {
    data_folder().map(|folder| folder.join("token"))
}

/// Reads the token, or creates one.
pub(super) fn open(path: &Path) -> Result<Token, CommandError> {
    match create(path) {
        Ok(token) => Ok(token),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            check_mode(path)?;
            parse(path, &fs::read_to_string(path).map_err(|error| unreadable(path, error))?)
        }
        Err(error) => Err(unreadable(path, error)),
    }
}

/// Creates the file with a new token, unless there is one.
fn create(path: &Path) -> io::Result<Token> {
    let mut file = create_private(path)?;
    let token = Token::random();
    file.write_all(format!("{}\n", token.as_str()).as_bytes())?;
    file.sync_all()?;
    Ok(token)
}

/// Refuses a file that others can read.
#[cfg(unix)]
fn check_mode(path: &Path) -> Result<(), CommandError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path).map_err(|error| unreadable(path, error))?.permissions().mode();
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(CommandError::new(
            anyhow!("other users can read the token file `{}`", path.display()),
            format!(
                "`chmod 600 {}` makes it private; remove it to get a new token",
                path.display()
            ),
        )),
    }
}

#[cfg(not(unix))]
fn check_mode(_: &Path) -> Result<(), CommandError> {
    Ok(())
}

fn parse(path: &Path, text: &str) -> Result<Token, CommandError> {
    Token::new(text).ok_or_else(|| {
        CommandError::new(
            anyhow!("`{}` does not contain a token", path.display()),
            "a token has at least 16 letters and digits; remove the file to get a new one",
        )
    })
}

fn unreadable(path: &Path, error: io::Error) -> CommandError {
    let what = format!("the token file `{}` cannot be read", path.display());
    let error = anyhow::Error::new(error).context(what);
    CommandError::new(
        error,
        "check its path and its mode, or choose another one with `--token-file`",
    )
}

/// Reads the token for a client of a server: from a file that the user named, from the environment, or
/// from where `serve` keeps it, if `serve` listens at this address.
pub(crate) fn read_token(
    address: &str,
    given: Option<&Path>,
) -> Result<Option<String>, CommandError> {
    if let Some(path) = given {
        let text = fs::read_to_string(path).map_err(|error| unreadable(path, error))?;
        return Ok(Some(parse(path, &text)?.as_str().to_owned()));
    }
    if let Some(token) = token_from_environment() {
        return Ok(Some(token));
    }
    let own = default_path().filter(|_| is_noted(address));
    let own = own.and_then(|path| fs::read_to_string(path).ok());
    Ok(own.and_then(|text| Some(Token::new(&text)?.as_str().to_owned())))
}

/// Returns the token in the environment, if there is one.
fn token_from_environment() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|it| !it.is_empty())
}

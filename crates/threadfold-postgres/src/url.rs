//! Where a database is: a URL as other programs for PostgreSQL take it, and a password from
//! somewhere else.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::Host;
use url::Url;

/// The address of a database: `postgres://USER@HOST:PORT/DATABASE?sslmode=verify-full`.
///
/// It prints without its password.
#[derive(Clone)]
pub struct PostgresUrl {
    pub(crate) config: Config,
    pub(crate) encryption: Encryption,
    /// A certificate that is trusted besides those of the system.
    pub(crate) root_certificate: Option<PathBuf>,
    shown: String,
}

/// How a connection is encrypted, by the names that PostgreSQL gave to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    /// `disable`.
    Never,
    /// `prefer`: if the server can.
    IfPossible,
    /// `require`: always, but whoever answers is believed.
    Unverified,
    /// `verify-full`: always, and the server's certificate must have its name.
    Verified,
}

/// Why a text is no address of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresUrlError {
    /// What is wrong, without the text itself: it may contain a password.
    pub problem: String,
}

impl fmt::Display for PostgresUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the URL of the database is not valid: {}", self.problem)
    }
}

impl std::error::Error for PostgresUrlError {}

fn invalid(problem: impl Into<String>) -> PostgresUrlError {
    PostgresUrlError { problem: problem.into() }
}

impl FromStr for PostgresUrl {
    type Err = PostgresUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut url = Url::parse(text).map_err(|error| invalid(error.to_string()))?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(invalid("it begins with neither `postgres://` nor `postgresql://`"));
        }
        let (mut encryption, mut root_certificate) = (None, None);
        let mut others = Vec::new();
        for (name, value) in url.query_pairs() {
            match &*name {
                "sslmode" => encryption = Some(encryption_of(&value)?),
                "sslrootcert" => root_certificate = Some(PathBuf::from(&*value)),
                _ => others.push((name.into_owned(), value.into_owned())),
            }
        }
        url.set_query(None);
        if !others.is_empty() {
            url.query_pairs_mut().extend_pairs(&others);
            // A plus is a space in a form, and a plus to PostgreSQL.
            let query = url.query().map(|it| it.replace('+', "%20"));
            url.set_query(query.as_deref());
        }
        let mut config: Config = url.as_str().parse().map_err(|error: tokio_postgres::Error| {
            // Its own text names the parameter, and never its value.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            invalid(cause.unwrap_or_else(|| error.to_string()))
        })?;
        if config.get_application_name().is_none() {
            config.application_name("threadfold");
        }
        // A certificate is compared with a name, and a socket in a folder has none.
        let is_local = matches!(config.get_hosts(), [Host::Unix(_)]);
        let default = if is_local { Encryption::Never } else { Encryption::IfPossible };
        let shown = without_password(&url);
        let encryption = encryption.unwrap_or(default);
        Ok(Self { config, encryption, root_certificate, shown })
    }
}

fn encryption_of(value: &str) -> Result<Encryption, PostgresUrlError> {
    match value {
        "disable" => Ok(Encryption::Never),
        "allow" | "prefer" => Ok(Encryption::IfPossible),
        "require" => Ok(Encryption::Unverified),
        "verify-ca" | "verify-full" => Ok(Encryption::Verified),
        _ => Err(invalid("`sslmode` is none of `disable`, `prefer`, `require` and `verify-full`")),
    }
}

/// Returns the URL without its password and without its parameters.
fn without_password(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    // A URL without a host has no password either.
    shown.set_password(None).ok();
    shown.to_string()
}

impl PostgresUrl {
    /// Returns the address with this password, if it has none of its own.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        if self.config.get_password().is_none() {
            self.config.password(password);
        }
        self
    }

    /// Returns whether the address has a password.
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// Returns the password that the text of a password file has for this address, as `libpq` finds
    /// it: the first line `HOST:PORT:DATABASE:USER:PASSWORD` that matches, where `*` matches
    /// everything.
    pub fn password_in(&self, file: &str) -> Option<String> {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(host)) => host.clone(),
            Some(Host::Unix(folder)) => folder_name(folder),
            None => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432).to_string();
        let user = self.config.get_user().unwrap_or_default();
        let database = self.config.get_dbname().unwrap_or(user);
        let wanted = [&*host, &*port, database, user];
        file.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let fields = split_fields(line);
            let [parts @ .., password] = &fields[..] else { return None };
            let is_match = parts.len() == wanted.len()
                && parts.iter().zip(wanted).all(|(part, wanted)| part == "*" || part == wanted);
            is_match.then(|| password.clone())
        })
    }
}

/// Returns the name that password files have for a socket in this folder.
fn folder_name(folder: &Path) -> String {
    match folder.to_str() {
        Some("/var/run/postgresql" | "/tmp") | None => "localhost".to_owned(),
        Some(other) => other.to_owned(),
    }
}

/// Splits a line of a password file, in which `\` precedes a `:` or `\` that is meant.
fn split_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => {
                if let (Some(next), Some(field)) = (letters.next(), fields.last_mut()) {
                    field.push(next);
                }
            }
            _ => {
                if let Some(field) = fields.last_mut() {
                    field.push(letter);
                }
            }
        }
    }
    fields
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresUrl").field(&self.shown).finish()
    }
}

/// Two addresses are equal if a person reads the same.
impl PartialEq for PostgresUrl {
    fn eq(&self, other: &Self) -> bool {
        self.shown == other.shown
    }
}

impl Eq for PostgresUrl {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on must stop")]

    use super::*;

    #[test]
    fn a_space_in_a_parameter_stays_one() {
        let url: PostgresUrl = "postgres://u@h/d?options=-c%20a%3Db+c%2Bd".parse().unwrap();
        assert_eq!(url.config.get_options(), Some("-c a=b c+d"));
    }

    #[test]
    fn a_password_is_never_printed() {
        for text in [
            "postgres://me:secret@host:5433/db?sslmode=require",
            "postgresql://me:secret@host/db?password=secret",
            "postgres://me@host/db?password=secret&application_name=secret",
        ] {
            let url: PostgresUrl = text.parse().unwrap();
            assert!(url.has_password());
            assert!(!format!("{url} {url:?}").contains("secret"), "{url}");
        }
        for text in ["postgres://me:secret@host/db?sslmode=secret", "mysql://me:secret@host/db"] {
            let error = text.parse::<PostgresUrl>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
    }

    #[test]
    fn encryption_is_as_the_url_says() {
        for (text, expected) in [
            ("postgres://host/db", Encryption::IfPossible),
            ("postgres://host/db?sslmode=disable", Encryption::Never),
            ("postgres://host/db?sslmode=require", Encryption::Unverified),
            ("postgres://host/db?sslmode=verify-full", Encryption::Verified),
            ("postgres://%2Frun%2Fpg/db", Encryption::Never),
        ] {
            assert_eq!(text.parse::<PostgresUrl>().unwrap().encryption, expected, "{text}");
        }
    }

    #[test]
    fn a_password_file_is_read_as_other_programs_read_it() {
        let file = "# a comment\nother:*:*:*:no\nhost:5432:db:me:a\\:b\\\\c\n*:*:*:*:rest:of\n";
        let found = |url: &str| url.parse::<PostgresUrl>().unwrap().password_in(file);
        assert_eq!(found("postgres://me@host/db").as_deref(), Some("a:b\\c"));
        assert_eq!(found("postgres://me@third/db").as_deref(), Some("rest:of"));
        assert_eq!("postgres://me@host/db".parse::<PostgresUrl>().unwrap().password_in(""), None);
    }
}

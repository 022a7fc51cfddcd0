//! Passwords of servers: where they come from. They are sent, and never shown or stored.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use reqwest::Url;
use serde::Deserialize;

use crate::agents::Machine;
use crate::server::ServerAccess;

/// The only user that a server accepts.
const USER: &str = "opencode";

/// The variables in which a server finds its password, in its order.
pub(super) const VARIABLES: [&str; 2] = ["OPENCODE_PASSWORD", "OPENCODE_SERVER_PASSWORD"];

/// A user and a password.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    pub(super) fn of_password(password: String) -> Self {
        Self { user: USER.to_owned(), password }
    }

    /// Takes the user and the password out of an address.
    pub(super) fn take(address: &mut Url) -> Option<Self> {
        let password = address.password().map(decode);
        let user = match address.username() {
            "" => USER.to_owned(),
            user => decode(user),
        };
        // Both fail only for addresses that cannot have either.
        let has_none = address.set_username("").is_err() | address.set_password(None).is_err();
        // A token in the address is a password as well.
        address.set_query(None);
        address.set_fragment(None);
        password.filter(|_| !has_none).map(|password| Self { user, password })
    }
}

/// Returns the text of a percent-encoded part of an address.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let code = rest.clone().take(2).map(char::from).collect::<String>();
        match u8::from_str_radix(&code, 16) {
            Ok(decoded) if byte == b'%' && code.len() == 2 => {
                bytes.push(decoded);
                rest.nth(1);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the password for the server at an address: the one that the user gave, that of the
/// environment, or the one that a background service has noted.
pub(in crate::agents::opencode) fn password(
    address: &str,
    access: &ServerAccess<'_>,
) -> Option<String> {
    let variable = |name: &str| {
        let value = (access.machine.variable)(name)?;
        value.into_string().ok().filter(|it| !it.is_empty())
    };
    let given = access.password.clone();
    given.or_else(|| VARIABLES.into_iter().find_map(variable)).or_else(|| {
        let service = service(access.machine)?;
        let is_same = is_same_server(&service.url, address);
        service.password.filter(|_| is_same)
    })
}

/// What a background service notes about itself.
#[derive(Deserialize)]
struct Service {
    url: String,
    password: Option<String>,
}

fn service(machine: &Machine<'_>) -> Option<Service> {
    let home = || machine.home.join(".local").join("state");
    let folder: PathBuf = machine.folder("XDG_STATE_HOME").unwrap_or_else(home);
    let text = fs::read(folder.join("opencode").join("service.json")).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Returns whether two addresses are one server: a password is sent to no other.
fn is_same_server(one: &str, other: &str) -> bool {
    let server = |address: &str| {
        let url = Url::parse(address).ok()?;
        let host = match url.host_str()? {
            "localhost" | "[::1]" => "127.0.0.1".to_owned(),
            host => host.to_owned(),
        };
        Some((url.scheme().to_owned(), host, url.port_or_known_default()))
    };
    server(one).is_some_and(|it| Some(it) == server(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_decoded_and_taken_out() {
        let mut url = Url::parse("http://opencode:p%40ss%25@127.0.0.1:1").unwrap();
        let found = Credentials::take(&mut url).unwrap();
        assert_eq!((found.user.as_str(), found.password.as_str()), ("opencode", "p@ss%"));
        assert_eq!(url.as_str(), "http://127.0.0.1:1/");
        assert_eq!(format!("{found:?}"), "Credentials");
    }

    #[test]
    fn the_password_of_a_service_is_for_that_service_only() {
        assert!(is_same_server("http://127.0.0.1:49374", "http://localhost:49374/"));
        for other in ["http://127.0.0.1:4096", "http://example.org:49374", "nothing"] {
            assert!(!is_same_server("http://127.0.0.1:49374", other), "{other}");
        }
    }
}

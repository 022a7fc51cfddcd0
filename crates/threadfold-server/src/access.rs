//! Who may use the server: the checks of Host, Origin and token, in this order, before anything
//! else happens to a request.
//!
//! A page of another site can send requests to a server on this machine, under a name that it lets
//! point to it. The name is in `Host` and the site in `Origin`, so both are compared with lists.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, StatusCode, Uri, header};
use subtle::ConstantTimeEq;
use url::Url;

use crate::problem::Problem;

/// The secret that every client needs, except for a health check.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Returns a token, if it is long enough not to be guessed and is allowed in a header.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        (text.len() >= 16 && text.bytes().all(is_plain)).then(|| Self(text.to_owned()))
    }

    /// Returns a new token of 256 random bits.
    pub fn random() -> Self {
        let part = || uuid::Uuid::new_v4().simple().to_string();
        Self(format!("{}{}", part(), part()))
    }

    /// Returns the token as text, for a header.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares it in a time that does not depend on where the two differ.
    fn is(&self, given: &[u8]) -> bool {
        // Hashes have one length, so the token's own is not revealed either.
        let [own, given] = [self.0.as_bytes(), given].map(|it| *blake3::hash(it).as_bytes());
        own.ct_eq(&given).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token")
    }
}

/// Which clients are let in.
#[derive(Clone, Debug)]
pub struct Access {
    /// The token; nothing if the program around the router authenticates clients itself.
    token: Option<Token>,
    /// Allowed values of `Host`, in lower case.
    hosts: Vec<String>,
    /// Allowed values of `Origin`.
    origins: Vec<String>,
}

impl Access {
    /// Lets in clients that address the server by a loopback name with its port, and have the token.
    pub fn loopback(port: u16, token: Token) -> Self {
        let mut access = Self { token: Some(token), hosts: Vec::new(), origins: Vec::new() };
        for name in ["127.0.0.1", "localhost", "[::1]"] {
            access.allow(&format!("http://{name}:{port}"));
        }
        access
    }

    /// Lets in clients that address the server as it is bound, and have the token.
    pub fn bound(address: SocketAddr, token: Token) -> Self {
        let mut access = Self::loopback(address.port(), token);
        if !address.ip().is_unspecified() {
            let name = match address.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            };
            access.allow(&format!("http://{name}:{}", address.port()));
        }
        access
    }

    /// Checks only `Host` and `Origin`, because the program around the router authenticates clients.
    pub fn behind_own_auth(urls: &[&str]) -> Self {
        let mut access = Self { token: None, hosts: Vec::new(), origins: Vec::new() };
        urls.iter().for_each(|url| _ = access.allow(url));
        access
    }

    /// Also lets in clients that address the server by this URL: of a tunnel, or of a code space.
    ///
    /// Returns whether the URL has a host.
    pub fn allow(&mut self, url: &str) -> bool {
        let Ok(url) = Url::parse(url) else { return false };
        let Some(host) = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https")) else {
            return false;
        };
        let named = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        self.origins.push(format!("{}://{named}", url.scheme()));
        if let (None, Some(port)) = (url.port(), url.port_or_known_default()) {
            // A client may write the port that follows from the scheme.
            self.hosts.push(format!("{host}:{port}"));
        }
        self.hosts.push(named);
        true
    }

    /// Refuses a request whose `Host` or `Origin` is not allowed.
    pub(crate) fn check_names(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next().and_then(|it| it.to_str().ok());
        let is_only = hosts.next().is_none();
        // A request may name the host in its first line as well.
        let is_same = uri.authority().is_none_or(|it| Some(it.as_str()) == host);
        if !(host.is_some_and(|it| self.is_host(it)) && is_only && is_same) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "the request names a host that this server does not answer for",
                "use the address that `threadfold serve` printed; `--public-url URL` allows another one",
            ));
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        if origins.any(|it| !it.to_str().is_ok_and(|it| self.is_origin(it))) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "the request comes from a page of another site",
                "open the page that this server serves; `--public-url URL` allows another one",
            ));
        }
        Ok(())
    }

    fn is_host(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.hosts.contains(&host)
    }

    fn is_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|it| it == origin)
    }

    /// Refuses a request without the token.
    pub(crate) fn check_token(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(token) = &self.token else { return Ok(()) };
        let given = headers.get(header::AUTHORIZATION).map(|it| it.as_bytes());
        let given = given.and_then(|it| {
            let (scheme, token) = it.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
        });
        match given {
            Some(given) if token.is(given) => Ok(()),
            _ => Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                if given.is_some() { "the token is wrong" } else { "the request has no token" },
                "send the header `Authorization: Bearer TOKEN`; the token is in the file that \
                 `threadfold serve` names",
            )),
        }
    }

    /// Returns whether clients need a token.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }
}

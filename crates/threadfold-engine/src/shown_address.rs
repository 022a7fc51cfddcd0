//! Addresses as they may be shown.

/// Returns an address as it may be shown, whether or not it is a valid one.
pub(crate) fn without_password(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    // A password may contain characters that end a host, so the last `@` counts.
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let host = host.split(['?', '#']).next().unwrap_or(host);
    match scheme {
        "" => host.to_owned(),
        scheme => format!("{scheme}://{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        for (address, shown) in [
            ("http://opencode:s3cret@127.0.0.1:4096/x", "http://127.0.0.1:4096/x"),
            ("http://opencode:s3/cr@et@host:99999999", "http://host:99999999"),
            ("http://127.0.0.1:4096/?auth_token=c2VjcmV0", "http://127.0.0.1:4096/"),
            ("http://[broken", "http://[broken"),
        ] {
            assert_eq!(without_password(address), shown);
        }
    }
}

//! HTTP clients whose TLS uses `ring` and the certificates of the operating system.
//!
//! The default of `rustls`, `aws-lc-rs`, is C code that takes a minute of a first build.

use std::error::Error;
use std::sync::Arc;

use reqwest::ClientBuilder;
use reqwest::redirect::Policy;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;

/// Returns a builder of HTTP clients. They follow no redirects: a redirect would connect to a server
/// that nobody named, and pass on what a request contains.
///
/// Its cryptography is not installed for the whole process: that is for the program to decide.
pub fn http_client() -> Result<ClientBuilder, Box<dyn Error + Send + Sync>> {
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    Ok(ClientBuilder::new().tls_backend_preconfigured(tls).redirect(Policy::none()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A client without cryptography would panic or refuse the scheme before it connects.
    #[tokio::test]
    async fn https_begins_with_a_tls_handshake() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let hello = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut hello = [0; 3];
            stream.read_exact(&mut hello).unwrap();
            stream.write_all(b"no TLS here").unwrap();
            hello
        });
        let client = http_client().unwrap().no_proxy().build().unwrap();
        client.get(format!("https://{address}")).send().await.unwrap_err();
        assert_eq!(hello.join().unwrap(), [0x16, 3, 1], "a handshake record of TLS");
    }
}

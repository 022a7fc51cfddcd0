//! Where the servers of this user listen, so that a client gives their token to nobody else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use url::{Host, Url};

use crate::store::data_folder;

/// The note of a server that runs, by the number of its process. It is removed with it.
pub(super) struct NotedServer {
    path: PathBuf,
}

impl NotedServer {
    /// Notes the addresses of this process; nothing without a home folder. Notes of processes that were
    /// killed are removed.
    pub(super) fn note(addresses: &[&str]) -> io::Result<Option<Self>> {
        let Some(folder) = folder() else { return Ok(None) };
        fs::create_dir_all(&folder)?;
        for note in notes(&folder).filter(|it| !is_alive(it)) {
            match fs::remove_file(note) {
                // Another server, which starts as well, may have removed it.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let path = folder.join(std::process::id().to_string());
        fs::write(&path, addresses.join("\n"))?;
        Ok(Some(Self { path }))
    }
}

impl Drop for NotedServer {
    fn drop(&mut self) {
        // Whoever reads a note checks that its process is alive.
        fs::remove_file(&self.path).ok();
    }
}

/// Returns whether a server of this user listens at an address.
pub(super) fn is_noted(address: &str) -> bool {
    let (Some(folder), Ok(wanted)) = (folder(), Url::parse(address)) else { return false };
    notes(&folder).filter(|path| is_alive(path)).any(|path| {
        let text = fs::read_to_string(&path).unwrap_or_default();
        text.lines().filter_map(|it| Url::parse(it).ok()).any(|it| is_same(&it, &wanted))
    })
}

fn notes(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path())
}

fn folder() -> Option<PathBuf> {
    data_folder().map(|folder| folder.join("servers"))
}

#[cfg(unix)]
fn is_alive(note: &Path) -> bool {
    use rustix::process::{Pid, test_kill_process};
    let name = note.file_name().and_then(|it| it.to_str());
    let process = name.and_then(|it| it.parse().ok()).and_then(Pid::from_raw);
    process.is_some_and(|it| test_kill_process(it).is_ok())
}

#[cfg(not(unix))]
fn is_alive(_: &Path) -> bool {
    true
}

/// Returns whether two addresses are those of one server: a server that listens on a loopback address,
/// or on all, is reached by each name of this machine's loopback.
fn is_same(noted: &Url, wanted: &Url) -> bool {
    let is_same_host = noted.host() == wanted.host()
        || ((is_loopback(noted) || is_unspecified(noted)) && is_loopback(wanted));
    noted.scheme() == wanted.scheme()
        && noted.port_or_known_default() == wanted.port_or_known_default()
        && is_same_host
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn is_unspecified(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_unspecified(),
        Some(Host::Ipv6(address)) => address.is_unspecified(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_a_noted_server_only_with_its_port_and_host() {
        let same =
            |noted, wanted| is_same(&Url::parse(noted).unwrap(), &Url::parse(wanted).unwrap());
        let noted = "http://127.0.0.1:4127";
        assert!(same(noted, "http://127.0.0.1:4127/v1"));
        assert!(same(noted, "http://localhost:4127"));
        assert!(same("http://0.0.0.0:4127", "http://[::1]:4127"));
        assert!(same("https://name.example", "https://name.example:443/"));
        for other in ["http://127.0.0.1:4128", "http://192.0.2.2:4127", "https://127.0.0.1:4127"] {
            assert!(!same(noted, other), "{other}");
        }
        assert!(!same("http://0.0.0.0:4127", "http://192.0.2.2:4127"));
    }
}

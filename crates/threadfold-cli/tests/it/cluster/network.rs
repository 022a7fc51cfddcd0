//! A network namespace with two links: one to clients, and one to the database, which can be cut.

use std::net::SocketAddr;
use std::process::Command;

/// A namespace of this machine's network.
pub(crate) struct PartitionedNetwork {
    name: String,
    database_link: String,
    /// An address of this machine that the namespace reaches over the link to the database.
    pub(crate) database_side: SocketAddr,
    /// The address under which clients reach a server in the namespace.
    pub(crate) node: SocketAddr,
}

impl PartitionedNetwork {
    /// Creates it; nothing if this needs more rights than the process has.
    pub(crate) fn create(number: u8) -> Option<Self> {
        let process = std::process::id() % 100_000;
        let name = format!("tf{process}n{number}");
        let [client_link, database_link] = ["c", "d"].map(|kind| format!("{name}{kind}"));
        if !ip(&["netns", "add", &name]) {
            return None;
        }
        let network = Self {
            database_side: format!("10.213.{number}.1:0").parse().unwrap(),
            node: format!("10.214.{number}.2:4127").parse().unwrap(),
            name,
            database_link,
        };
        let is_linked = network.link(&network.database_link, &format!("10.213.{number}"))
            && network.link(&client_link, &format!("10.214.{number}"))
            && ip(&["-n", &network.name, "link", "set", "lo", "up"]);
        is_linked.then_some(network)
    }

    fn link(&self, link: &str, net: &str) -> bool {
        let (inside, name) = (format!("{link}i"), self.name.as_str());
        ip(&["link", "add", link, "type", "veth", "peer", "name", &inside, "netns", name])
            && ip(&["addr", "add", &format!("{net}.1/30"), "dev", link])
            && ip(&["link", "set", link, "up"])
            && ip(&["-n", name, "addr", "add", &format!("{net}.2/30"), "dev", &inside])
            && ip(&["-n", name, "link", "set", &inside, "up"])
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Cuts the link to the database.
    pub(crate) fn cut(&self) {
        assert!(ip(&["link", "set", &self.database_link, "down"]));
    }

    /// Restores it.
    pub(crate) fn restore(&self) {
        assert!(ip(&["link", "set", &self.database_link, "up"]));
    }
}

impl Drop for PartitionedNetwork {
    /// Its links disappear with it.
    fn drop(&mut self) {
        ip(&["netns", "del", &self.name]);
        ip(&["link", "del", &self.database_link]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).output().is_ok_and(|it| it.status.success())
}

//! Several servers over one database: what tests of them share, and the tests of what they promise.

mod fault_proxy;
mod fleet;
mod network;
mod node;
mod promises;
mod traffic;

pub(crate) use fault_proxy::FaultProxy;
pub(crate) use fleet::Fleet;
pub(crate) use network::PartitionedNetwork;
pub(crate) use node::{Node, NodePlace};
pub(crate) use traffic::{Traffic, TrafficOptions};

use std::fs::OpenOptions;
use std::io::Write;

/// Returns a number that a soak asks for, or the usual one.
pub(crate) fn asked(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|it| it.parse().ok()).unwrap_or(usual)
}

/// Adds a line to the report that a soak asks for, and prints it.
pub(crate) fn report(line: &str) {
    println!("{line}");
    if let Some(path) = std::env::var_os("THREADFOLD_SOAK_REPORT") {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }
}

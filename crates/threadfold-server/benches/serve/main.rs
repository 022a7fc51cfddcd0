//! The load of many subscribers, beside plain axum WebSockets over a broadcast channel.
//!
//! Server and clients are processes of their own, and both servers are given the same events at the
//! same time of one run: compare ratios.

mod clients;
mod events;
mod ours;
mod plain;
mod process;
mod publisher;
mod scenario;
mod slow;

use std::io;

use crate::scenario::Scale;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--role", "ours", sessions, bytes] => publisher::serve::<ours::Ours>(sessions, bytes),
        ["--role", "plain", sessions, bytes] => {
            publisher::serve::<plain::Plain<{ plain::DEFAULT }>>(sessions, bytes)
        }
        ["--role", "plain-small", sessions, bytes] => {
            publisher::serve::<plain::Plain<{ plain::SMALL }>>(sessions, bytes)
        }
        ["--role", "clients", address, sessions, connections, stalled, batch] => {
            clients::run(address, [sessions, connections, stalled, batch])
        }
        _ => {
            let scale = Scale::parse(&arguments)?;
            process::raise_file_limit(&scale)?;
            scenario::run(&scale)
        }
    }
}

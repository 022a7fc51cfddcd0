//! Who we are to others who want to write, and whether somebody who wrote is still there.

use std::fs;

use threadfold_store::Holder;

/// Returns this process as the holder of a lease; `what` is what it does.
pub fn holder(what: impl Into<String>) -> Holder {
    let process = std::process::id();
    Holder {
        what: what.into(),
        host: host(),
        process,
        started: started(process).unwrap_or_default(),
    }
}

/// Says whether a holder certainly does not run any more: it was a process of this machine, since
/// it was last started, and there is no such process.
pub fn is_gone(holder: &Holder) -> bool {
    let is_here = holder.process != 0 && holder.started != 0 && holder.host == host();
    is_here && can_see_processes() && started(holder.process) != Some(holder.started)
}

/// Returns this machine's name with a mark of when it was started.
fn host() -> String {
    let name = node_name();
    match fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Ok(boot) => format!("{name} ({})", boot.trim().get(..8).unwrap_or_default()),
        Err(_) => name,
    }
}

#[cfg(unix)]
fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn node_name() -> String {
    "this machine".to_owned()
}

fn can_see_processes() -> bool {
    started(std::process::id()).is_some()
}

/// Returns when a process began, in the machine's own ticks.
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may hold anything; the fields after it are numbers.
    let fields = stat.rsplit_once(')')?.1;
    let state = fields.split_whitespace().next()?;
    let started = fields.split_whitespace().nth(19)?.parse().ok()?;
    (state != "Z" && state != "X").then_some(started)
}

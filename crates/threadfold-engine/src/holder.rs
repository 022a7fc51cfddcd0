//! Identifies this process as a lease holder, and detects holders that have died.

use std::fs;

use threadfold_store::Holder;

/// Returns this process as the holder of a lease; `what` names its activity.
pub fn holder(what: impl Into<String>) -> Holder {
    let process = std::process::id();
    Holder {
        what: what.into(),
        host: host(),
        process,
        started: started(process).unwrap_or_default(),
        namespace: namespace().unwrap_or_default(),
    }
}

/// Returns whether a holder is certainly dead: it was a process of this machine, since the last
/// boot, and no such process exists.
///
/// A process in another container is never reported dead, even if both have the same host name,
/// because its process id has another meaning here.
pub fn is_gone(holder: &Holder) -> bool {
    let is_here = holder.process != 0 && holder.started != 0 && holder.host == host();
    let is_seen = namespace().is_some_and(|namespace| namespace == holder.namespace);
    is_here && is_seen && started(holder.process) != Some(holder.started)
}

/// Returns this machine's name with its boot id.
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

/// Returns the process id namespace of this process; `None` if it cannot be determined.
/// Process ids are comparable only within one.
fn namespace() -> Option<String> {
    let shown: u32 = fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?.to_str()?.to_owned();
    let is_ours = shown == std::process::id() && started(shown).is_some();
    is_ours.then_some(namespace)
}

/// Returns when a process started, in clock ticks since boot.
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The command name in parentheses may contain anything; the fields after it are numbers.
    let fields = stat.rsplit_once(')')?.1;
    let state = fields.split_whitespace().next()?;
    let started = fields.split_whitespace().nth(19)?.parse().ok()?;
    (state != "Z" && state != "X").then_some(started)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Returns this process, with a process id that does not exist.
    fn dead() -> Holder {
        Holder { process: u32::MAX, ..holder("a test") }
    }

    #[test]
    fn a_process_that_ended_is_gone_and_one_that_runs_is_not() {
        assert!(!is_gone(&holder("a test")));
        assert!(is_gone(&dead()));
        let its_number_is_used_again = Holder { started: 1, ..holder("a test") };
        assert!(is_gone(&its_number_is_used_again));
    }

    #[test]
    fn a_process_on_another_host_is_unknown() {
        let other_machine = Holder { host: "elsewhere".into(), ..dead() };
        let other_container = Holder { namespace: "pid:[1]".into(), ..dead() };
        let older = r#"{"what":"watch","host":"HOST","process":4294967295,"started":1}"#;
        let older = older.replace("HOST", &host());
        let of_an_older_program: Holder = serde_json::from_str(&older).unwrap();
        for holder in [other_machine, other_container, of_an_older_program] {
            assert!(!is_gone(&holder), "{holder:?}");
        }
    }
}

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
        namespace: namespace().unwrap_or_default(),
    }
}

/// Says whether a holder certainly does not run any more: it was a process of this machine, since
/// it was last started, and there is no such process.
///
/// A process of another container is never said to be gone, also not where both have the machine's
/// name: its number means another process here.
pub fn is_gone(holder: &Holder) -> bool {
    let is_here = holder.process != 0 && holder.started != 0 && holder.host == host();
    let is_seen = namespace().is_some_and(|namespace| namespace == holder.namespace);
    is_here && is_seen && started(holder.process) != Some(holder.started)
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

/// Returns within what the numbers of processes hold that can be seen here; nothing if that cannot
/// be told.
fn namespace() -> Option<String> {
    let shown: u32 = fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?.to_str()?.to_owned();
    let is_ours = shown == std::process::id() && started(shown).is_some();
    is_ours.then_some(namespace)
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Returns this process, with a number that nobody has.
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
    fn of_a_process_elsewhere_nobody_knows() {
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

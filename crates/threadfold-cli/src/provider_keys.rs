//! Keys from the environment, which the program's children must not be able to read.
//!
//! A process cannot take a variable out of `/proc/PID/environ`, which shows the memory that it was
//! started with. So the program starts itself again, in the same process, with the keys in a pipe
//! instead of its environment. Beyond that it is not dumpable: a process of the same user can read
//! neither its memory nor its environment, unless it may trace every process, as root may.

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{self, Command};
use std::sync::OnceLock;

use crate::error::print_note;

/// The variables that contain keys.
pub(crate) const ANTHROPIC: &str = "ANTHROPIC_API_KEY";
pub(crate) const OPENAI: &str = "OPENAI_API_KEY";

/// Names the pipe with the keys, and the process that it is meant for: children inherit the
/// variable, and must not read a descriptor that means something else to them.
const HANDOVER: &str = "THREADFOLD_KEYS";
/// A pipe accepts this much without a reader.
const MOST: usize = 32 << 10;

static KEYS: OnceLock<BTreeMap<String, String>> = OnceLock::new();

type Keys = BTreeMap<String, String>;

/// Takes the keys out of the environment. Called before anything is started or read.
pub(crate) fn take() {
    let received = env::var(HANDOVER).ok().and_then(|it| receive(&it));
    let keys = received.clone().unwrap_or_else(|| {
        let value = |name: &str| Some((name.to_owned(), env::var(name).ok()?));
        [ANTHROPIC, OPENAI].into_iter().filter_map(value).collect()
    });
    if received.is_none()
        && !keys.is_empty()
        && let Err(error) = restart(&keys)
    {
        print_note(format_args!("tools may be able to read the key in the environment: {error}"));
    }
    // It is called once, so nothing was set before.
    KEYS.set(keys).ok();
    protect();
}

/// Returns the key that a variable contained when the program started.
pub(crate) fn key(variable: &str) -> String {
    KEYS.get().and_then(|keys| keys.get(variable)).cloned().unwrap_or_default()
}

/// Starts the program again without keys in its environment. Returns only if that fails.
fn restart(keys: &Keys) -> io::Result<()> {
    let text = serde_json::to_vec(keys)?;
    if text.len() > MOST {
        return Err(io::Error::other("it is too long"));
    }
    let (reader, mut writer) = io::pipe()?;
    writer.write_all(&text)?;
    drop(writer);
    rustix::io::fcntl_setfd(&reader, rustix::io::FdFlags::empty())?;
    let mut arguments = env::args_os();
    let mut command = Command::new(env::current_exe()?);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).env(HANDOVER, format!("{}:{}", reader.as_raw_fd(), process::id()));
    for name in [ANTHROPIC, OPENAI] {
        command.env_remove(name);
    }
    Err(command.exec())
}

/// Reads the keys that this process handed over to itself. The pipe is empty then.
fn receive(place: &str) -> Option<Keys> {
    let (descriptor, owner) = place.split_once(':')?;
    if owner.parse::<u32>().ok() != Some(process::id()) {
        return None;
    }
    let descriptor: u32 = descriptor.parse().ok()?;
    let mut text = Vec::new();
    let pipe = File::open(format!("/dev/fd/{descriptor}")).ok()?;
    pipe.take(MOST as u64).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Keeps other processes of the same user out of this one's memory.
#[cfg(target_os = "linux")]
fn protect() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};

    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        print_note(format_args!("tools may be able to read the key in memory: {error}"));
    }
}

#[cfg(not(target_os = "linux"))]
fn protect() {}

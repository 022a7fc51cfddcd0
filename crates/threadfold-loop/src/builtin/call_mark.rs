//! The marks of calls on a file: extended attributes with the calls' keys.
//!
//! The same rename publishes a mark and the new content. A mark therefore proves that the call took
//! effect, whatever the text looks like. A later change by one of our tools keeps it, but other
//! programs do not, so its absence proves nothing. What does is the *intent* that a call leaves on
//! the file that it is about to replace: while the file has that, it was not replaced.

use cap_std::fs::File;
use threadfold_core::CallKey;

const MARKS: &str = "user.threadfold.call";
const INTENT: &str = "user.threadfold.intent";
/// How many bytes of marks are kept, the latest ones. File systems accept few.
const MOST: usize = 2048;

/// Returns the marks of a file.
pub(super) fn read(file: &File) -> Vec<u8> {
    attribute(file, MARKS)
}

/// Sets marks on a file, and the mark of this call besides, if the file system supports it.
pub(super) fn set(file: &File, marks: Vec<u8>, key: Option<&CallKey>) {
    let mut keys: Vec<_> = marks.split(|byte| *byte == b'\n').filter(|it| !it.is_empty()).collect();
    keys.extend(key.map(|key| key.as_str().as_bytes()));
    while keys.iter().map(|key| key.len() + 1).sum::<usize>() > MOST {
        keys.remove(0);
    }
    if !keys.is_empty() {
        set_attribute(file, MARKS, &keys.join(&b'\n'));
    }
}

/// Returns true if a file has the mark of this call.
pub(super) fn is_of(file: &File, key: &CallKey) -> bool {
    read(file).split(|byte| *byte == b'\n').any(|it| it == key.as_str().as_bytes())
}

/// Notes on a file that this call is about to replace it.
pub(super) fn announce(file: &File, key: &CallKey) {
    set_attribute(file, INTENT, key.as_str().as_bytes());
}

/// Returns true if this call was about to replace a file, and did not.
pub(super) fn is_announced(file: &File, key: &CallKey) -> bool {
    attribute(file, INTENT) == key.as_str().as_bytes()
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn set_attribute(file: &File, name: &str, value: &[u8]) {
    use rustix::fs::{XattrFlags, fsetxattr};
    fsetxattr(file, name, value, XattrFlags::empty()).ok();
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
fn attribute(file: &File, name: &str) -> Vec<u8> {
    let mut value = vec![0; 2 * MOST];
    let length = rustix::fs::fgetxattr(file, name, &mut value[..]).unwrap_or_default();
    value.truncate(length);
    value
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn set_attribute(_: &File, _: &str, _: &[u8]) {}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn attribute(_: &File, _: &str) -> Vec<u8> {
    Vec::new()
}

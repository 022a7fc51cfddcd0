//! The mark on a file that a call left: an extended attribute with the call's key.
//!
//! It comes into being in the same rename as the new content. So whoever finds it knows that the
//! call happened, however the text looks; whoever does not find it knows nothing.

use cap_std::fs::File;
use threadfold_core::CallKey;

#[cfg(any(target_os = "linux", target_os = "macos"))]
const NAME: &str = "user.threadfold.call";

/// Puts the mark of a call on a file, where the file system takes one.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(super) fn set(file: &File, key: &CallKey) {
    use rustix::fs::{XattrFlags, fsetxattr};
    fsetxattr(file, NAME, key.as_str().as_bytes(), XattrFlags::empty()).ok();
}

/// Says whether a file has the mark of this call.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(super) fn is_of(file: &File, key: &CallKey) -> bool {
    let mut value = vec![0; key.as_str().len()];
    let length = rustix::fs::fgetxattr(file, NAME, &mut value[..]);
    length.is_ok_and(|it| it == value.len()) && value == key.as_str().as_bytes()
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(super) fn set(_: &File, _: &CallKey) {}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(super) fn is_of(_: &File, _: &CallKey) -> bool {
    false
}

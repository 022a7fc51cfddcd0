//! The mark of a call on a file: an extended attribute with the call's key.
//!
//! The same rename publishes the mark and the new content. A mark therefore proves that the call
//! took effect, whatever the text looks like; its absence proves nothing.

use cap_std::fs::File;
use threadfold_core::CallKey;

#[cfg(any(target_os = "linux", target_os = "macos"))]
const NAME: &str = "user.threadfold.call";

/// Sets the mark of a call on a file, if the file system supports it.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(super) fn set(file: &File, key: &CallKey) {
    use rustix::fs::{XattrFlags, fsetxattr};
    fsetxattr(file, NAME, key.as_str().as_bytes(), XattrFlags::empty()).ok();
}

/// Returns true if a file has the mark of this call.
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

//! Recognizes files that did not change, without reading them.

use std::fs::Metadata;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::files::noted;

/// A file that changed more recently than this may change again within the same tick of the clock
/// of its file system, and look unchanged.
const SETTLED_AFTER: Duration = Duration::from_millis(50);
/// The same for file systems that keep only full seconds, or even ones.
const SETTLED_AFTER_COARSE: Duration = Duration::from_secs(4);

const SECOND: i64 = 1_000_000_000;

/// A file as its file system describes it: what has the same stamp is the same file, unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileStamp {
    /// Its absolute path.
    pub(crate) path: String,
    /// The device that it is on.
    pub(crate) device: u64,
    /// Its number on that device.
    pub(crate) inode: u64,
    /// Its length in bytes.
    pub(crate) size: u64,
    /// When its content was changed last, in nanoseconds.
    pub(crate) modified: i64,
    /// When it or its description was changed last, in nanoseconds. No program can set it.
    pub(crate) changed: i64,
}

impl FileStamp {
    /// Returns the stamp of a file; nothing if it is missing, or if the platform does not
    /// provide enough to distinguish it from others.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        Self::new(path, &path.metadata().ok()?)
    }

    pub(crate) fn new(path: &Path, metadata: &Metadata) -> Option<Self> {
        let (device, inode, changed) = identity(metadata)?;
        let modified = nanoseconds(metadata.modified().ok()?)?;
        let path = noted(&std::path::absolute(path).ok()?);
        Some(Self { path, device, inode, size: metadata.len(), modified, changed })
    }

    /// Returns whether the file, stamped at this time, cannot change without getting another stamp.
    ///
    /// A time in the future never settles: the clock jumped, or another machine wrote it.
    pub(crate) fn is_settled(&self, stamped: SystemTime) -> bool {
        let Some(stamped) = nanoseconds(stamped) else { return false };
        let is_coarse = self.modified % SECOND == 0 && self.changed % SECOND == 0;
        let wait = if is_coarse { SETTLED_AFTER_COARSE } else { SETTLED_AFTER };
        let latest = self.modified.max(self.changed);
        stamped.saturating_sub(latest) > wait.as_nanos() as i64
    }

    /// Returns whether this is an earlier stamp of the same file, which was shorter then.
    pub(crate) fn is_before_growth(&self, now: &Self) -> bool {
        (&self.path, self.device, self.inode) == (&now.path, now.device, now.inode)
            && self.size < now.size
    }
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Option<(u64, u64, i64)> {
    use std::os::unix::fs::MetadataExt;
    let changed = metadata.ctime().checked_mul(SECOND)?.checked_add(metadata.ctime_nsec())?;
    Some((metadata.dev(), metadata.ino(), changed))
}

/// Without a file's number and the time of its last change, nothing tells a file from another.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<(u64, u64, i64)> {
    None
}

fn nanoseconds(time: SystemTime) -> Option<i64> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(modified: i64, changed: i64) -> FileStamp {
        FileStamp { modified, changed, ..FileStamp::default() }
    }

    #[test]
    fn a_file_settles_when_the_tick_of_its_last_change_is_over() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let before = |milliseconds: i64| 1_000 * SECOND - milliseconds * 1_000_000 - 1;
        assert!(at(before(60), before(60)).is_settled(now));
        assert!(!at(before(10), before(10)).is_settled(now));
        // The time of the content can be set, that of the description cannot.
        assert!(!at(before(9_000), before(10)).is_settled(now));
        // Times in the future never settle.
        assert!(!at(before(-10), before(60)).is_settled(now));
        // Full seconds come from a file system that keeps nothing else.
        assert!(!at(998 * SECOND, 998 * SECOND).is_settled(now));
        assert!(at(990 * SECOND, 990 * SECOND).is_settled(now));
    }
}

//! Recognizes files that are unchanged since they were imported, without reading them.

use std::fs::Metadata;
use std::path::Path;
use std::time::{Duration, SystemTime};

use threadfold_fold::FileStamp;
use threadfold_store::Store;

use crate::error::EngineError;
use crate::files::{InputFile, noted};
use crate::found_session::FoundSession;
use crate::freshness::noted_summary;

/// A file that changed more recently than this may change again within the same tick of the clock
/// of its file system, and look unchanged.
const SETTLED_AFTER: Duration = Duration::from_millis(20);

/// Returns whether all files of a session are as they were when they were imported: device, number,
/// size and both times.
///
/// A file that was rewritten in place with the same size, and whose times were set back together
/// with the system's clock, is not noticed; reading it again is.
pub async fn is_unchanged(store: &dyn Store, found: &FoundSession) -> Result<bool, EngineError> {
    let Some(entry) = store.entry(&found.id).await? else { return Ok(false) };
    let Some(summary) = noted_summary(&entry).filter(|it| !it.files.is_empty()) else {
        return Ok(false);
    };
    let is_same_agent = summary.agent.as_deref() == found.agent.map(|it| it.name());
    Ok(is_same_agent && stamps_of(&found.content.files()?) == Some(summary.files))
}

/// Returns the stamps of files, by path; nothing if one is missing.
pub(crate) fn stamps_of(files: &[InputFile]) -> Option<Vec<FileStamp>> {
    let mut stamps =
        files.iter().map(|file| stamp_of(&file.path)).collect::<Option<Vec<FileStamp>>>()?;
    stamps.sort();
    stamps.dedup();
    Some(stamps)
}

/// Returns whether files that were stamped now cannot change without getting another stamp.
pub(crate) fn are_settled(stamps: &[FileStamp]) -> bool {
    let now = nanoseconds(SystemTime::now());
    let is_old = |time: i64| now.saturating_sub(time) > SETTLED_AFTER.as_nanos() as i64;
    stamps.iter().all(|it| is_old(it.modified) && is_old(it.changed))
}

fn stamp_of(path: &Path) -> Option<FileStamp> {
    let metadata = path.metadata().ok()?;
    let absolute = std::path::absolute(path).ok()?;
    let (device, inode, changed) = identity(&metadata)?;
    Some(FileStamp {
        path: noted(&absolute),
        device,
        inode,
        size: metadata.len(),
        modified: nanoseconds(metadata.modified().ok()?),
        changed,
    })
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Option<(u64, u64, i64)> {
    use std::os::unix::fs::MetadataExt;
    let changed =
        metadata.ctime().checked_mul(1_000_000_000)?.checked_add(metadata.ctime_nsec())?;
    Some((metadata.dev(), metadata.ino(), changed))
}

/// Without a file's number and the time of its last change, nothing tells a file from another.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<(u64, u64, i64)> {
    None
}

fn nanoseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

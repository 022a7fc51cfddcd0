//! Checks free disk space: without it, the linker dies with a signal and no message.

use std::path::Path;

use rustix::fs::statvfs;

/// The disk space of a full build.
const WANTED: u64 = 6 << 30;

/// Warns on stderr if the target folder has too little free space.
pub(crate) fn warn_if_short(target: &Path) {
    let Some(free) = free(target) else { return };
    if let Some(warning) = warning(free, target) {
        eprintln!("{warning}");
    }
}

/// Returns the bytes that are free where a folder is, or will be.
fn free(folder: &Path) -> Option<u64> {
    let known = folder.ancestors().find(|folder| folder.exists())?;
    let disk = statvfs(known).ok()?;
    Some(disk.f_bavail * disk.f_frsize)
}

fn warning(free: u64, target: &Path) -> Option<String> {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    (free < WANTED).then(|| {
        format!(
            "warning: {:.1} GiB are free for `{}`; a build of everything takes about {:.0} GiB\n\
             hint: `cargo clean` removes earlier builds",
            gib(free),
            target.display(),
            gib(WANTED),
        )
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::shell;

    #[test]
    fn too_little_disk_space_is_reported_with_the_required_space() {
        let target = Path::new("target");
        assert_snapshot!(warning(3 << 29, target).unwrap(), @"
        warning: 1.5 GiB are free for `target`; a build of everything takes about 6 GiB
        hint: `cargo clean` removes earlier builds
        ");
        assert_eq!(warning(WANTED, target), None);
    }

    #[test]
    fn a_missing_folder_has_the_free_space_of_its_parent() {
        assert!(free(&shell::root().join("no/such/folder")).is_some_and(|free| free > 0));
    }
}

//! Recognizes file systems whose changes this machine may not see.

use std::path::Path;

/// The types, by `statfs`, of file systems that another machine can change without a notification
/// here: NFS, SMB and CIFS, 9P, FUSE (sshfs, virtiofs, and folders shared with a virtual machine),
/// Ceph, AFS, Coda.
#[cfg(target_os = "linux")]
const REMOTE: [u64; 10] = [
    0x6969,
    0x517b,
    0xfe53_4d42,
    0xff53_4d42,
    0x0102_1997,
    0x6573_5546,
    0x00c3_6400,
    0x5346_414f,
    0x6b41_4653,
    0x7375_7245,
];

/// Returns whether a folder's file system may change without notifications.
#[cfg(target_os = "linux")]
pub(super) fn is_remote(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|it| {
        // The type's width and sign depend on the architecture; its 32 bits do not.
        #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
        let kind = it.f_type as u64 & 0xffff_ffff;
        REMOTE.contains(&kind)
    })
}

/// Returns whether a folder's file system may change without notifications.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_remote(_folder: &Path) -> bool {
    false
}

//! A checksum behind packed bytes.

use super::PackError;

/// Eight bytes: a corrupt row passes with a probability of 2⁻⁶⁴.
const LENGTH: usize = 8;

/// Appends the checksum of `bytes` to them.
///
/// `place` is hashed as well, so bytes that are intact but stand at the wrong place are found.
pub(super) fn add(bytes: &mut Vec<u8>, place: &[u8]) {
    let checksum = compute(bytes, place);
    bytes.extend(checksum);
}

/// Returns the bytes without their checksum, after verifying it.
pub(super) fn remove<'a>(packed: &'a [u8], place: &[u8]) -> Result<&'a [u8], PackError> {
    let (bytes, checksum) =
        packed.split_last_chunk().ok_or(PackError("the checksum is missing"))?;
    if compute(bytes, place) == *checksum {
        Ok(bytes)
    } else {
        Err(PackError("the checksum does not match"))
    }
}

fn compute(bytes: &[u8], place: &[u8]) -> [u8; LENGTH] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(place);
    hasher.update(bytes);
    let mut checksum = [0; LENGTH];
    hasher.finalize_xof().fill(&mut checksum);
    checksum
}

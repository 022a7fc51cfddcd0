//! A few bytes at the end of others that tell whether those are still what they were.

use super::Malformed;

/// So many that a flipped bit is not overlooked.
const LENGTH: usize = 8;

/// Adds the seal of `bytes` to them; `place` is where they belong.
pub(super) fn add(bytes: &mut Vec<u8>, place: &[u8]) {
    let seal = compute(bytes, place);
    bytes.extend(seal);
}

/// Returns the bytes without their seal, if it is theirs.
pub(super) fn remove<'a>(sealed: &'a [u8], place: &[u8]) -> Result<&'a [u8], Malformed> {
    let (bytes, seal) = sealed.split_last_chunk().ok_or(Malformed("it has no seal"))?;
    if compute(bytes, place) == *seal { Ok(bytes) } else { Err(Malformed("its seal is broken")) }
}

fn compute(bytes: &[u8], place: &[u8]) -> [u8; LENGTH] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(place);
    hasher.update(bytes);
    let mut seal = [0; LENGTH];
    hasher.finalize_xof().fill(&mut seal);
    seal
}

//! Compression, where it makes smaller.

use super::Malformed;

/// Quick enough to keep up with an import; more costs much and saves little.
const LEVEL: i32 = 3;
/// No content is larger; a length beyond it is damage.
const LARGEST: usize = 1 << 31;

/// Returns `bytes` compressed; as they are if that is not smaller.
pub(crate) fn squeeze(bytes: &[u8]) -> Vec<u8> {
    match zstd::bulk::compress(bytes, LEVEL) {
        Ok(squeezed) if squeezed.len() < bytes.len() => squeezed,
        _ => bytes.to_vec(),
    }
}

/// Returns what was squeezed, of which the length is known.
pub(crate) fn unsqueeze(squeezed: Vec<u8>, length: usize) -> Result<Vec<u8>, Malformed> {
    if squeezed.len() == length {
        return Ok(squeezed);
    }
    if length > LARGEST || squeezed.len() > length {
        return Err(Malformed("its length cannot be"));
    }
    let bytes = zstd::bulk::decompress(&squeezed, length)
        .map_err(|_| Malformed("it cannot be decompressed"))?;
    if bytes.len() == length { Ok(bytes) } else { Err(Malformed("it has another length")) }
}

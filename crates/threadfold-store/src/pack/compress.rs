//! Compression, where it saves space.

use super::PackError;

/// Fast enough to keep up with an import; higher levels cost much time and save little.
const LEVEL: i32 = 3;
/// No stored content is larger: a greater length is corrupt, and must not be allocated.
const LARGEST: usize = 1 << 31;

/// Returns `bytes` compressed, or unchanged if compression does not make them shorter.
pub fn compress(bytes: &[u8]) -> Vec<u8> {
    match zstd::bulk::compress(bytes, LEVEL) {
        Ok(compressed) if compressed.len() < bytes.len() => compressed,
        _ => bytes.to_vec(),
    }
}

/// Reverses [`compress`], given the original length.
///
/// No flag marks compressed bytes: bytes are compressed if they are shorter than `length`.
pub fn decompress(compressed: Vec<u8>, length: usize) -> Result<Vec<u8>, PackError> {
    if compressed.len() == length {
        return Ok(compressed);
    }
    if length > LARGEST || compressed.len() > length {
        return Err(PackError("the length is out of range"));
    }
    let bytes = zstd::bulk::decompress(&compressed, length)
        .map_err(|_| PackError("the content cannot be decompressed"))?;
    if bytes.len() == length { Ok(bytes) } else { Err(PackError("the content is truncated")) }
}

//! Compression, where it saves space.

use std::sync::{Mutex, PoisonError};

use zstd::bulk::Compressor;

use super::PackError;

/// Fast enough to keep up with an import; higher levels cost much time and save little.
const LEVEL: i32 = 3;
/// No stored content is larger: a greater length is corrupt, and must not be allocated.
const LARGEST: usize = 1 << 31;

/// Contexts that are not in use. Each takes over a megabyte, and to allocate one for every content
/// would take as long as to compress it.
static IDLE: Mutex<Vec<Compressor<'static>>> = Mutex::new(Vec::new());
/// How many of them are kept.
const MOST_IDLE: usize = 4;

/// Returns `bytes` compressed, or unchanged if compression does not make them shorter.
pub fn compress(bytes: &[u8]) -> Vec<u8> {
    match frame(bytes, Checksum::Without) {
        Some(compressed) if compressed.len() < bytes.len() => compressed,
        _ => bytes.to_vec(),
    }
}

/// Returns `bytes` as one zstd frame with a checksum, so that it can be judged by itself.
pub(super) fn compress_frame(bytes: &[u8]) -> Option<Vec<u8>> {
    frame(bytes, Checksum::With)
}

#[derive(PartialEq)]
enum Checksum {
    With,
    Without,
}

fn frame(bytes: &[u8], checksum: Checksum) -> Option<Vec<u8>> {
    let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = idle().pop();
    let mut compressor = kept.or_else(|| Compressor::new(LEVEL).ok())?;
    compressor.include_checksum(checksum == Checksum::With).ok()?;
    let mut compressed = compressor.compress(bytes).ok()?;
    // The buffer was allocated for bytes that cannot be compressed.
    compressed.shrink_to_fit();
    let mut idle = idle();
    if idle.len() < MOST_IDLE {
        idle.push(compressor);
    }
    Some(compressed)
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

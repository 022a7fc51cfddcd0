//! Bytes to lines.

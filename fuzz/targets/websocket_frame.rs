#![no_main]

//! Frames of a WebSocket's client mean the same wherever their bytes are cut.

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "the frames of a server are not fuzzed")]
#[path = "../../crates/threadfold-server/src/websocket_frame.rs"]
mod websocket_frame;

#[path = "../../crates/threadfold-server/src/websocket_frame/law.rs"]
mod law;

fuzz_target!(|input: &[u8]| law::any_bytes_are_read_or_refused(input));

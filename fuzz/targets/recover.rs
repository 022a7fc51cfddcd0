#![no_main]

//! Recovery drops no byte, and each recovered record is valid.

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target checks one law")]
#[path = "../../crates/threadfold-convert/tests/it/law.rs"]
mod law;

fuzz_target!(|input: &[u8]| law::pieces_cover_the_line(input));

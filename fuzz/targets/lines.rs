#![no_main]

//! Chunk boundaries do not change the records.

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target checks one law")]
#[path = "../../crates/threadfold-fold/tests/it/law.rs"]
mod law;

fuzz_target!(|input: &[u8]| law::lines_of_any_input(input));

#![no_main]

//! No byte of a line is dropped, and what is given as a record is one.

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target checks one law")]
#[path = "../../crates/threadfold-convert/tests/it/law.rs"]
mod law;

fuzz_target!(|input: &[u8]| law::pieces_cover_the_line(input));

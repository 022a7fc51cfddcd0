#![no_main]

//! Any input of Codex folds deterministically.

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target checks one law")]
#[path = "../../crates/threadfold-fold/tests/it/law.rs"]
mod law;

fuzz_target!(|input: &[u8]| law::codex_folds(input));

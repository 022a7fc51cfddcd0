#![no_main]

//! A parsed event survives a round trip.

use libfuzzer_sys::fuzz_target;

#[allow(dead_code, reason = "each target checks one law")]
#[path = "../../crates/threadfold-convert/tests/it/law.rs"]
mod law;

fuzz_target!(|input: &[u8]| law::an_event_survives_a_round_trip(input));

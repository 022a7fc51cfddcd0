//! The smaller modules do what the larger ones do, and have nothing else.

use crate::engine::Wasm;

#[test]
fn the_small_module_has_the_reducer_and_no_converters() {
    let (mut small, mut full) = (Wasm::core(), Wasm::full());
    assert!(full.has("parse_text") && !small.has("parse_text"));
    assert!(Wasm::verify().has("verify") && !full.has("verify"));
    let block = r#"{"type":"block:upsert","payload":{"block":{"id":"b1","type":"thinking","status":"pending","content":"Hm"}}}"#;
    let mut states = Vec::new();
    for wasm in [&mut small, &mut full] {
        let state = wasm.expect("state_new", &[]);
        wasm.apply(state, block);
        states.push((wasm.hash_and_json(state), wasm.read("state_snapshot", state)));
    }
    assert_eq!(states[0], states[1]);
}

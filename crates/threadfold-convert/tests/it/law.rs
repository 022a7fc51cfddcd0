//! Invariants that hold for any bytes; the fuzz targets check the same functions.

use std::str;

use threadfold_convert::recover::{Damage, Piece, records};
use threadfold_core::SessionEvent;

/// Every byte is in a piece, or separates two; and each piece has the kind it claims.
pub(crate) fn pieces_cover_the_line(line: &[u8]) {
    let mut covered = 0;
    for piece in records(line) {
        let (start, bytes) = match piece {
            Piece::Record(text) => {
                let raw: &serde_json::value::RawValue =
                    serde_json::from_str(text).expect("a record is JSON");
                assert_eq!(raw.get(), text);
                assert!(text.starts_with('{'));
                // The only place where it can be: after separators.
                (covered + separators(&line[covered..]), text.as_bytes())
            }
            Piece::Lost { bytes, why, offset } => {
                assert_eq!(why == Damage::NotUtf8, str::from_utf8(bytes).is_err());
                assert_eq!(why == Damage::NulRun, bytes.contains(&0));
                (offset, bytes)
            }
        };
        assert!(!bytes.is_empty());
        assert_eq!(separators(&line[covered..start]), start - covered);
        assert_eq!(&line[start..start + bytes.len()], bytes);
        covered = start + bytes.len();
    }
    assert_eq!(separators(&line[covered..]), line.len() - covered);
}

fn separators(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|it| b" \t\r\n,".contains(it)).count()
}

/// What is read as an event is written, and read again, as the same.
pub(crate) fn an_event_survives_a_round_trip(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let Ok(event) = SessionEvent::from_json(text) else { return };
    let json = serde_json::to_string(&event).expect("an event has a form in JSON");
    let again = SessionEvent::from_json(&json).expect("it was just written");
    assert_eq!(again, event);
    assert_eq!(serde_json::to_string(&again).expect("plain data"), json);
}

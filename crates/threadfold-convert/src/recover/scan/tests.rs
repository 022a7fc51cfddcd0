//! Compares the scanner with `serde_json`, and checks where it reports syntax errors.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;

fn whole(text: &str) -> Option<&str> {
    match scan(text.as_bytes(), 0) {
        Scan::Whole { end, .. } => Some(&text[..end]),
        Scan::Broken { .. } => None,
    }
}

fn whole_to_serde(text: &str) -> Option<&str> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let value = values.next()?.ok()?;
    assert_eq!(&text[..values.byte_offset()], value.get());
    Some(value.get())
}

proptest! {
    #[test]
    fn it_accepts_what_serde_json_accepts(text in r#"\{(["{}\[\]:,\\u0-9a-fA-F.eE+ \t-]|"[a\\]*":|true|null|1e400|\\ud800|é|\u{1}){0,24}\}?"#) {
        prop_assert_eq!(whole(&text), whole_to_serde(&text));
    }

    #[test]
    fn it_accepts_any_value_that_serde_json_writes(value in value()) {
        let text = serde_json::to_string(&value).expect("plain data");
        prop_assert_eq!(whole(&text), Some(text.as_str()));
    }

    #[test]
    fn a_truncated_value_breaks_at_its_end(value in value(), cut in any::<prop::sample::Index>()) {
        let text = format!("[{value}]");
        let cut = cut.index(text.len());
        let Scan::Broken { at, .. } = scan(&text.as_bytes()[..cut], 0) else {
            return Err(TestCaseError::fail("a truncated value is complete"));
        };
        prop_assert_eq!(at, cut);
    }
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<Option<bool>>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|it| serde_json::Value::Object(it.into_iter().collect())),
        ]
    })
}

#[test]
fn a_syntax_error_has_its_byte_and_the_object_that_closed_before() {
    let broken = |text: &str| match scan(text.as_bytes(), 0) {
        Scan::Broken { at, closed } => (at, closed),
        Scan::Whole { .. } => panic!("`{text}` is whole"),
    };
    assert_eq!(broken(r#"{"a":tr{"#), (7, None));
    assert_eq!(broken(r#"{"a":"b{"type""#), (9, None));
    assert_eq!(broken(r#"{"a":{"b":1}{"c""#), (12, Some(5)));
    assert_eq!(broken(r#"{"a":[{"b":1} "#), (14, Some(6)));
    assert_eq!(broken(r#"{"a":[{"b":1},"#), (14, None));
    assert_eq!(broken(r#"{"a":01}"#), (6, None));
    assert_eq!(broken(""), (0, None));
}

//! Formats tool inputs and outputs as text, without interpreting them.

use std::fmt;
use std::sync::Arc;

use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use threadfold_core::{Content, Fields, Json, Part, PartBody};

use crate::numbers::{number, size};

/// Returns a tool's output: text as text, images by size, anything else as JSON.
pub fn output_text(output: &Json) -> String {
    if let Some(text) = output.to_text() {
        return text;
    }
    let mut text = String::new();
    let mut is_first = true;
    let read = each_element(output, |part| {
        if !std::mem::take(&mut is_first) {
            text.push('\n');
        }
        text.push_str(&part_text(&part));
    });
    match read {
        Ok(()) => text,
        Err(_) if output.is_null() => String::new(),
        Err(_) => output.to_string(),
    }
}

/// Calls `each` with the elements of a list. A list may have millions of tiny ones, which are never
/// in memory together.
fn each_element(list: &Json, each: impl FnMut(Json)) -> serde_json::Result<()> {
    struct Elements<F>(F);

    impl<'de, F: FnMut(Json)> Visitor<'de> for Elements<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            while let Some(element) = list.next_element()? {
                (self.0)(element);
            }
            Ok(())
        }
    }

    serde_json::Deserializer::from_str(list.as_str()).deserialize_seq(Elements(each))
}

fn part_text(part: &Json) -> String {
    let Some(fields) = object(part) else { return part.to_string() };
    let text = |fields: &Fields, name| fields.get(name).and_then(Json::to_text);
    match text(&fields, "type").as_deref() {
        Some("text" | "input_text" | "output_text") => text(&fields, "text").unwrap_or_default(),
        Some("image") => {
            let source = fields.get("source").and_then(object).unwrap_or_default();
            image(text(&source, "media_type").as_deref(), text(&source, "data").as_deref())
        }
        Some("input_image") => {
            let address = text(&fields, "image_url").unwrap_or_default();
            let data = address.strip_prefix("data:").and_then(|it| it.split_once(";base64,"));
            image(data.map(|it| it.0), data.map(|it| it.1))
        }
        Some("tool_reference") if fields.get("tool_name").is_some() => {
            text(&fields, "tool_name").unwrap_or_default()
        }
        _ => part.to_string(),
    }
}

/// Returns the text of a user's message.
pub fn content_text(content: &Content) -> String {
    match content {
        Content::Text(text) => text.to_str().into_owned(),
        Content::Parts(parts) => parts.iter().map(text_of_part).collect::<Vec<_>>().join("\n"),
    }
}

fn text_of_part(part: &Part) -> String {
    match &part.body {
        PartBody::Text(part) => part.text.to_str().into_owned(),
        PartBody::Image(part) => image(part.media_type.as_deref(), part.data.as_deref()),
        PartBody::File(part) => {
            let name: Option<&Arc<str>> = part.name.as_ref().or(part.media_type.as_ref());
            thing("file", name.map_or("", |name| name), part.data.as_deref())
        }
        PartBody::Other(kind) => format!("[{kind}]"),
        _ => "[unknown]".to_owned(),
    }
}

fn image(media_type: Option<&str>, data: Option<&str>) -> String {
    let kind = media_type.unwrap_or("");
    thing("image", kind.strip_prefix("image/").unwrap_or(kind), data)
}

/// Returns `[image png, 12 KB]`. Base64 encodes three bytes as four characters.
fn thing(what: &str, name: &str, data: Option<&str>) -> String {
    let name = if name.is_empty() { String::new() } else { format!(" {name}") };
    let large = data.map(|data| {
        let padding = data.bytes().rev().take(2).take_while(|it| *it == b'=').count();
        format!(", {}", size((data.len() / 4 * 3).saturating_sub(padding)))
    });
    format!("[{what}{name}{}]", large.unwrap_or_default())
}

/// Returns the names and values of an object, each value as text.
pub fn input_fields(input: &Json) -> Option<Vec<(String, String)>> {
    let (fields, omitted) = members(input)?;
    let mut shown: Vec<_> =
        fields.iter().map(|(name, value)| (name.to_owned(), plain(value))).collect();
    if omitted > 0 {
        shown.push(("…".to_owned(), format!("{} more", number(omitted))));
    }
    Some(shown)
}

/// Returns a string's text, and any other value as JSON.
pub fn plain(value: &Json) -> String {
    value.to_text().unwrap_or_else(|| value.to_string())
}

/// Returns the strings of a list.
pub fn strings(value: &Json) -> Vec<String> {
    let mut strings = Vec::new();
    let read = each_element(value, |it| strings.extend(it.to_text()));
    read.map_or_else(|_| Vec::new(), |()| strings)
}

/// Returns the objects of a list.
pub fn objects(value: &Json) -> Vec<Fields> {
    let mut objects = Vec::new();
    let read = each_element(value, |it| objects.extend(object(&it)));
    read.map_or_else(|_| Vec::new(), |()| objects)
}

/// Returns the values of an object: the first ones, of an object with more than anyone reads.
pub fn object(value: &Json) -> Option<Fields> {
    members(value).map(|(fields, _)| fields)
}

/// Returns the first values of an object, and how many more there are.
fn members(value: &Json) -> Option<(Fields, u64)> {
    const MOST: usize = 1000;

    struct Members;

    impl<'de> Visitor<'de> for Members {
        type Value = (Fields, u64);

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members: Vec<(Arc<str>, Json)> = Vec::new();
            while members.len() < MOST {
                let Some(member) = map.next_entry()? else { break };
                members.push(member);
            }
            let mut omitted = 0;
            while members.len() == MOST && map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                omitted += 1;
            }
            Ok((members.into_iter().collect(), omitted))
        }
    }

    serde_json::Deserializer::from_str(value.as_str()).deserialize_map(Members).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(json: &str) -> String {
        output_text(&Json::parse(json).unwrap())
    }

    #[test]
    fn outputs_are_text_where_they_can_be() {
        let cases = [
            (r#""a\nb""#, "a\nb"),
            (r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#, "a\nb"),
            (r#"[{"type":"input_text","text":"a"},{"type":"output_text","text":"b"}]"#, "a\nb"),
            (r#"{"a":1}"#, r#"{"a":1}"#),
            (r#"[1,{"type":"tool_reference","x":2}]"#, "1\n{\"type\":\"tool_reference\",\"x\":2}"),
            (r#"[{"type":"tool_reference","tool_name":"WebSearch"}]"#, "WebSearch"),
            ("null", ""),
            (r#""\ud800""#, r#""\ud800""#),
        ];
        for (json, expected) in cases {
            assert_eq!(output(json), expected, "{json}");
        }
    }

    #[test]
    fn images_show_their_kind_and_size() {
        let json = format!(
            r#"[{{"type":"image","source":{{"media_type":"image/png","data":"{}=="}}}}]"#,
            "A".repeat(15_998)
        );
        assert_eq!(output(&json), "[image png, 12 KB]");
        assert_eq!(output(r#"[{"type":"image"}]"#), "[image]");
        let json = r#"[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]"#;
        assert_eq!(output(json), "[image png, 3 B]");
        assert_eq!(output(r#"[{"type":"input_image","image_url":"http://a/b"}]"#), "[image]");
    }
}

//! Reads the tags that an agent's harness puts around parts of a text.

/// An element at the top level of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Element<'t> {
    pub(super) name: &'t str,
    pub(super) body: &'t str,
}

/// Returns the elements of a text that consists of elements only; none for any other text.
pub(super) fn elements(text: &str) -> Vec<Element<'_>> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let Some((name, inside)) = opening(rest) else { return Vec::new() };
        let closing = format!("</{name}>");
        let Some(end) = inside.find(&closing) else { return Vec::new() };
        out.push(Element { name, body: &inside[..end] });
        rest = inside[end + closing.len()..].trim_start();
    }
    out
}

/// Returns the content of the first element of a name; up to the last closing tag, because the
/// content may have tags of the same name.
pub(super) fn inner<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let opening = format!("<{name}>");
    let start = text.find(&opening)? + opening.len();
    let end = start + text[start..].rfind(&format!("</{name}>"))?;
    Some(&text[start..end])
}

/// Returns the name of the tag that a text begins with, and what follows the tag.
fn opening(text: &str) -> Option<(&str, &str)> {
    let after = text.strip_prefix('<')?;
    let (name, inside) = after.split_once('>')?;
    let is_name = |it: u8| it.is_ascii_lowercase() || matches!(it, b'-' | b'_');
    (!name.is_empty() && name.bytes().all(is_name)).then_some((name, inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_markup_only_if_all_of_it_is() {
        let names =
            |text: &str| elements(text).iter().map(|it| it.name.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(" <a>1</a>\n<b-c></b-c> "), ["a", "b-c"]);
        for text in ["", "words <a>1</a>", "<a>1</a> words", "<a>1", "<A>1</A>", "<>1</>"] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn the_last_closing_tag_counts() {
        assert_eq!(inner("x <r>a </r> b</r> c", "r"), Some("a </r> b"));
        assert_eq!(inner("<r>a", "r"), None);
    }
}

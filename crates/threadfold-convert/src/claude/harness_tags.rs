//! Words that the harness puts around a person's prompt, in tags.

/// Who wrote a piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    Person,
    Harness,
}

/// Cuts a text into what a person wrote and the tags of the harness before and after it.
///
/// The pieces together are the text. Tags between a person's words stay there: people paste them.
pub(super) fn split(text: &str) -> Vec<(Author, &str)> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(length) = leading_tag(rest) {
        pieces.push((Author::Harness, &rest[..length]));
        rest = &rest[length..];
    }
    let mut after = Vec::new();
    while let Some(start) = trailing_tag(rest) {
        after.push((Author::Harness, &rest[start..]));
        rest = &rest[..start];
    }
    if !rest.is_empty() {
        pieces.push((Author::Person, rest));
    }
    pieces.extend(after.into_iter().rev());
    pieces
}

/// Returns whether the harness writes tags of this name.
fn is_harness_tag(name: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'-');
    name.bytes().all(is_name)
        && (name.starts_with("ide_")
            || name.ends_with("-hook")
            || matches!(name, "system-reminder" | "new-diagnostics"))
}

/// Returns the length of the tag that a text begins with, and of the white space around it.
fn leading_tag(text: &str) -> Option<usize> {
    let start = text.len() - text.trim_start().len();
    let name_end = start + 1 + text[start..].strip_prefix('<')?.find(['>', ' ', '\n'])?;
    let name = &text[start + 1..name_end];
    if !is_harness_tag(name) {
        return None;
    }
    let close = format!("</{name}>");
    // A tag without its end is cut off, and everything after it belongs to it.
    let end = text[name_end..].find(&close).map_or(text.len(), |at| name_end + at + close.len());
    Some(end + space_length(&text[end..]))
}

/// Returns the length of the white space that a text begins with. Editors also write `\n` for the end
/// of a line.
fn space_length(text: &str) -> usize {
    let mut rest = text.trim_start();
    while let Some(after) = rest.strip_prefix("\\n") {
        rest = after.trim_start();
    }
    text.len() - rest.len()
}

/// Returns the start of the tag that a text ends with, and of the white space before it.
fn trailing_tag(text: &str) -> Option<usize> {
    let name_start = text.trim_end().strip_suffix('>')?.rfind("</")? + 2;
    let name = text.trim_end().strip_suffix('>')?.get(name_start..)?;
    if !is_harness_tag(name) {
        return None;
    }
    let start = text[..name_start].rfind(&format!("<{name}>"))?;
    let words = text[..start].trim_end();
    Some(words.len()).filter(|_| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    use Author::{Harness, Person};

    #[test]
    fn tags_before_and_after_a_prompt_are_the_harness_s() {
        let text = "<ide_opened_file>a.rs</ide_opened_file>\n<system-reminder>x</system-reminder>fix it\n\n<ide_selection>1</ide_selection>\n";
        assert_eq!(
            split(text),
            [
                (Harness, "<ide_opened_file>a.rs</ide_opened_file>\n"),
                (Harness, "<system-reminder>x</system-reminder>"),
                (Person, "fix it"),
                (Harness, "\n\n<ide_selection>1</ide_selection>\n"),
            ]
        );
    }

    #[test]
    fn a_line_end_that_is_spelled_out_after_a_tag_is_the_harness_s() {
        let (tag, space) = ("<ide_opened_file>a.rs</ide_opened_file>", "\\n\n");
        let text = format!("{tag}{space}\\d is a digit");
        let expected = format!("{tag}{space}");
        assert_eq!(split(&text), [(Harness, expected.as_str()), (Person, "\\d is a digit")]);
    }

    #[test]
    fn a_persons_own_tags_stay_theirs() {
        for text in
            ["<div>hello</div>", "why is <system-reminder>x</system-reminder> here?", "", "<"]
        {
            let expected: Vec<_> =
                (!text.is_empty()).then_some((Person, text)).into_iter().collect();
            assert_eq!(split(text), expected);
        }
    }

    #[test]
    fn a_tag_that_is_cut_off_is_the_harness_s_to_the_end() {
        assert_eq!(split("<ide_selection>fn ma"), [(Harness, "<ide_selection>fn ma")]);
    }
}

//! Short beginnings of long texts.

use crate::numbers::count;
use crate::printable::one_line;

/// How many lines of an output are searched for words.
const SEARCHED_LINES: usize = 4;

/// Returns a text truncated to what one line can show.
pub fn beginning(text: &str) -> &str {
    let end = text.char_indices().nth(2_000).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Returns text without the tags that an agent's harness adds.
pub fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let name = tag[1..].strip_prefix('/').unwrap_or(&tag[1..]);
        let length = name.find(|it: char| !it.is_ascii_lowercase() && it != '-' && it != '_');
        let is_tag = length.is_some_and(|length| length > 0 && name[length..].starts_with('>'));
        let end = if is_tag { tag.find('>').map_or(1, |end| end + 1) } else { 1 };
        out.push_str(if is_tag { " " } else { "<" });
        rest = &tag[end..];
    }
    out.push_str(rest);
    out
}

/// Returns the first line with words, and how many more lines there are; only their number, if no
/// line has words.
pub fn first_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let has_words = |line: &&&str| without_tags(line).contains(char::is_alphanumeric);
    match (lines.iter().take(SEARCHED_LINES).find(has_words), lines.as_slice()) {
        (None, []) => String::new(),
        (Some(first), [_]) | (None, [first]) => one_line(beginning(first)),
        (None, _) => count(lines.len(), "line", "lines"),
        (Some(first), _) => {
            let first = one_line(beginning(first));
            format!("{first} (+{})", count(lines.len() - 1, "line", "lines"))
        }
    }
}

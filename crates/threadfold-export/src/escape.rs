//! Embeds untrusted text in a Markdown document: readable, without active content.

use std::borrow::Cow;

use pulldown_cmark::{Event, Options, Parser, Tag};

use crate::printable::printable;

/// How often the text is parsed again after an escape.
const ROUNDS: usize = 4;

/// Returns a model's Markdown without HTML and without images that would be fetched.
///
/// The caller must still put the result into a block quote, which closes any open element.
pub(crate) fn inert_markdown(text: &str) -> String {
    let mut text = plain_letters(text);
    for _ in 0..ROUNDS {
        // Escaping HTML may expose Markdown inside it, so the text is parsed again.
        match escape_active_content(&text) {
            Some(less) => text = less,
            None => return text,
        }
    }
    fenced(&text)
}

/// Returns the text with active content escaped; `None` if there is none.
fn escape_active_content(text: &str) -> Option<String> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut escapes: Vec<(usize, &str)> = Vec::new();
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Html(_) | Event::InlineHtml(_) => {
                let found = text[range.clone()].match_indices('<');
                escapes.extend(found.map(|(at, _)| (range.start + at, "&lt;")));
            }
            Event::Start(Tag::Image { .. }) => {
                escapes.push((range.start, "\\!"));
            }
            _ => {}
        }
    }
    if escapes.is_empty() {
        return None;
    }
    escapes.sort_unstable();
    escapes.dedup();
    let mut out = String::with_capacity(text.len() + 16);
    let mut done = 0;
    for (at, instead) in escapes {
        // Each escape replaces one single-byte character: `<` or `!`.
        out.push_str(&text[done..at]);
        out.push_str(instead);
        done = at + 1;
    }
    out.push_str(&text[done..]);
    Some(out)
}

/// Returns text inside a code fence that it cannot close.
pub(crate) fn fenced(text: &str) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let text = plain_letters(text);
    format!("{fence}text\n{}\n{fence}", text.trim_end_matches('\n'))
}

/// Returns text escaped for HTML.
pub(crate) fn html(text: &str) -> String {
    let text = printable(text);
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        // Characters with a meaning in Markdown are escaped as well.
        if letter.is_ascii_punctuation() && !matches!(letter, '.' | ',' | '/' | '-' | ':' | ' ') {
            out.push_str(&format!("&#{};", u32::from(letter)));
        } else {
            out.push(letter);
        }
    }
    out
}

/// Returns text with control characters escaped, except line ends and tabs.
fn plain_letters(text: &str) -> String {
    let line = |line: &str| -> String {
        let line = line.strip_suffix('\r').unwrap_or(line);
        line.split('\t').map(printable).collect::<Vec<Cow<'_, str>>>().join("\t")
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_and_images_become_text() {
        let cases = [
            ("a **b** `<c>`", "a **b** `<c>`"),
            ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
            ("x </details> y", "x &lt;/details> y"),
            ("![p](http://x/y.png)", "\\![p](http://x/y.png)"),
            ("<div>\n![p](http://x)\n</div>", "&lt;div>\n\\![p](http://x)\n&lt;/div>"),
            ("a < b", "a < b"),
            ("\u{1b}[2Jx", "\\u{1b}[2Jx"),
        ];
        for (text, expected) in cases {
            assert_eq!(inert_markdown(text), expected, "{text}");
        }
    }

    #[test]
    fn no_text_closes_its_code_fence() {
        assert_eq!(fenced("a"), "```text\na\n```");
        assert_eq!(fenced("````\nx\n"), "`````text\n````\nx\n`````");
    }
}

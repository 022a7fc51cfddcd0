//! Text that is cut to a number of columns.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Returns how many columns a text takes on a terminal.
///
/// A whole text is measured, because a variation selector or a joiner changes the width of the
/// character before it.
pub fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Returns `text`, truncated at the end to `width` columns, with an ellipsis if anything was
/// removed.
pub fn cut(text: &str, width: usize) -> String {
    if text.len() <= width || columns(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut taken = 0;
    for letter in text.graphemes(true) {
        let wide = columns(letter);
        if taken + wide + 1 > width {
            break;
        }
        out.push_str(letter);
        taken += wide;
    }
    if width > 0 {
        out.truncate(out.trim_end().len());
        out.push('…');
    }
    out
}

/// Returns `text`, truncated at the front to `width` columns, with an ellipsis if anything was
/// removed.
pub fn cut_front(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut taken = 1;
    let fits = |letter: &&str| {
        taken += columns(letter);
        taken <= width
    };
    let end: Vec<&str> = text.graphemes(true).rev().take_while(fits).collect();
    if width == 0 {
        String::new()
    } else {
        format!("…{}", end.into_iter().rev().collect::<String>())
    }
}

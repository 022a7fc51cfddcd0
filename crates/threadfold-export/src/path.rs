//! Draws paths: relative to the session's folder, and cut at the front if they do not fit.

use crate::printable::one_line;

use crate::numbers::count;
use crate::width::{columns, cut_front};

/// Returns a path relative to a folder, if it is inside.
pub fn relative<'p>(path: &'p str, folder: Option<&str>) -> &'p str {
    let inside = folder
        .map(|folder| folder.trim_end_matches(['/', '\\']))
        .filter(|folder| !folder.is_empty())
        .and_then(|folder| path.strip_prefix(folder))
        .and_then(|inside| inside.strip_prefix(['/', '\\']));
    inside.filter(|it| !it.is_empty()).unwrap_or(path)
}

/// Returns paths in one line of at most `width` columns; each loses its front if they do not fit.
pub fn joined_paths(paths: &[String], folder: Option<&str>, width: usize) -> String {
    let shown: Vec<String> = paths.iter().map(|it| one_line(relative(it, folder))).collect();
    let all = shown.join(", ");
    if columns(&all) <= width {
        return all;
    }
    let Some(first) = shown.first() else { return all };
    let more = match shown.len() {
        1 => String::new(),
        all => format!(" and {}", count(all - 1, "more file", "more files")),
    };
    format!("{}{more}", cut_path(first, width.saturating_sub(columns(&more))))
}

/// Returns a path, truncated at the front as [`cut_front`] does, at a separator if one is near.
pub fn cut_path(path: &str, width: usize) -> String {
    let cut = cut_front(path, width);
    let Some(end) = cut.strip_prefix('…').filter(|_| cut != path) else { return cut };
    match end.find(['/', '\\']) {
        Some(at) if columns(&end[..at]) <= width / 3 => format!("…{}", &end[at..]),
        _ => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_do_not_fit_lose_their_front() {
        let paths = ["/p/src/view/text.rs".to_owned(), "/p/b.rs".to_owned()];
        assert_eq!(joined_paths(&paths, Some("/p"), 40), "src/view/text.rs, b.rs");
        assert_eq!(joined_paths(&paths, None, 26), "…/text.rs and 1 more file");
    }
}

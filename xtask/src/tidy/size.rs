//! Checks file lengths.

use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

const LIMIT: usize = 800;

/// A folder of generated files, which nobody reads from beginning to end.
const GENERATED: &str = "/generated/";

pub(crate) fn check(file: &SourceFile) -> Option<Finding> {
    if file.path.contains(GENERATED) {
        return None;
    }
    let count = file.text.lines().count();
    let text = format!("the file has {count} lines; the maximum is {LIMIT}, aim for 300");
    (count > LIMIT).then(|| Finding::new(&file.path, LIMIT + 1, text))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    fn check_lines(count: usize) -> String {
        printed(check(&SourceFile {
            path: "web/src/page.tsx".to_owned(),
            text: "line\n".repeat(count),
        }))
    }

    #[test]
    fn eight_hundred_lines_are_allowed() {
        assert_snapshot!(check_lines(800), @"");
    }

    #[test]
    fn one_line_more_is_refused() {
        assert_snapshot!(check_lines(801), @"web/src/page.tsx:801: the file has 801 lines; the maximum is 800, aim for 300");
    }
}

//! Checks that no crate includes a file of another one by its path: that is a dependency that no
//! manifest declares.

use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

pub(crate) fn check(file: &SourceFile) -> Vec<Finding> {
    // The fuzz targets are a workspace of their own, and share the laws of the tests.
    let is_checked = file.extension() == "rs" && !file.path.starts_with("fuzz/");
    let lines = file.text.lines().enumerate().filter(|_| is_checked);
    let included = lines.filter(|(_, line)| leaves_the_crate(&file.path, line.trim_start()));
    let finding = |(index, _): (usize, &str)| {
        let text = "a module of another crate is included by its path, depend on that crate";
        Finding::new(&file.path, index + 1, text)
    };
    included.map(finding).collect()
}

/// Returns whether a line includes a module whose path leads out of the crate of the file.
fn leaves_the_crate(path: &str, line: &str) -> bool {
    let Some(included) = line.strip_prefix("#[path = \"").and_then(|it| it.split('"').next())
    else {
        return false;
    };
    // `crates/NAME/…`: the two first parts are the crate, the last is the file.
    let depth = path.split('/').count().saturating_sub(3);
    let ups = included.split('/').take_while(|part| *part == "..").count();
    ups > depth
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    fn check_text(text: &str) -> String {
        let path = "crates/a/tests/it/main.rs".to_owned();
        printed(check(&SourceFile { path, text: text.to_owned() }))
    }

    #[test]
    fn a_path_into_another_crate_is_refused() {
        let text = "#[path = \"../../../b/src/made.rs\"]\nmod made;\n";
        assert_snapshot!(check_text(text), @"crates/a/tests/it/main.rs:1: a module of another crate is included by its path, depend on that crate");
    }

    #[test]
    fn a_path_within_the_crate_is_fine() {
        assert_snapshot!(check_text("#[path = \"../../src/made.rs\"]\nmod made;\n"), @"");
    }
}

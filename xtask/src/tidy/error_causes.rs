//! Checks that no public error contains an error of another project's crate: a new version of that
//! crate would be a breaking change of ours.

use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

/// The first parts of paths that any public error may contain.
const OWN: [&str; 9] = ["std", "core", "alloc", "io", "fmt", "str", "string", "crate", "super"];

pub(crate) fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut is_derived, mut is_inside) = (false, false);
    for (index, line) in file.text.lines().enumerate() {
        // Attributes and comments may stand between the two.
        is_derived |= line.starts_with("#[derive(") && line.contains("Error");
        if line.starts_with("pub enum ") || line.starts_with("pub struct ") {
            is_inside = std::mem::take(&mut is_derived);
        }
        let code = line.trim_start();
        if is_inside
            && !code.starts_with("//")
            && let Some(path) = foreign_error(code)
        {
            let text = format!("a public error contains `{path}`, box it as a cause");
            findings.push(Finding::new(&file.path, index + 1, text));
        }
        if line == "}" || line.ends_with(");") {
            is_inside = false;
        }
    }
    findings
}

/// Returns the path of another project's error in a line of code.
fn foreign_error(code: &str) -> Option<&str> {
    let paths = code.split(|it: char| !(it.is_alphanumeric() || matches!(it, '_' | ':')));
    paths.map(|path| path.trim_matches(':')).find(|path| {
        let first = path.split("::").next().unwrap_or_default();
        let is_ours = OWN.contains(&first) || first.starts_with("threadfold_");
        path.contains("::") && path.ends_with("Error") && !is_ours
    })
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    fn check_text(text: &str) -> String {
        printed(check(&SourceFile { path: "a.rs".to_owned(), text: text.to_owned() }))
    }

    #[test]
    fn an_error_of_another_project_is_refused() {
        let text = "#[derive(Debug, thiserror::Error)]\n#[non_exhaustive]\npub enum AccessError {\n    \
                    /// Not `url::ParseError`.\n    Client(#[source] reqwest::Error),\n}\n";
        assert_snapshot!(check_text(text), @"a.rs:5: a public error contains `reqwest::Error`, box it as a cause");
        let text = "#[derive(Debug, thiserror::Error)]\npub struct ReadError(rusqlite::Error);\n";
        assert_snapshot!(check_text(text), @"a.rs:2: a public error contains `rusqlite::Error`, box it as a cause");
    }

    #[test]
    fn causes_of_the_standard_library_and_private_errors_are_fine() {
        let text = "#[derive(Debug, thiserror::Error)]\npub enum ReadError {\n    File(#[source] io::Error),\n    \
                    Other(Box<dyn std::error::Error>),\n}\n\nstruct Failure(rusqlite::Error);\n";
        assert_snapshot!(check_text(text), @"");
    }
}

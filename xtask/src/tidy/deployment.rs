//! Checks the files for containers where no container engine runs: they parse, versions are pinned,
//! nothing runs as root, and every name that one file uses another one declares.

mod compose;
mod dockerfile;

use anyhow::{Context, Result};

use crate::shell;
use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

/// Reads and checks the files.
pub(crate) fn check() -> Result<Vec<Finding>> {
    let [image, services, proxy] =
        ["Dockerfile", "compose.yaml", "examples/cluster/nginx.conf"].map(read);
    let (services, proxy) = (services?, proxy?);
    let mut findings = dockerfile::check(&image?);
    findings.extend(compose::check(&services));
    findings.extend(check_proxy(&proxy, &compose::services(&services)));
    Ok(findings)
}

fn read(path: &str) -> Result<SourceFile> {
    let text = std::fs::read_to_string(shell::root().join(path))
        .with_context(|| format!("`{path}` cannot be read"))?;
    Ok(SourceFile { path: path.to_owned(), text })
}

/// Checks that the reverse proxy sends requests to services that exist, and logs no query.
fn check_proxy(file: &SourceFile, services: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut depth = 0_i64;
    for (index, line) in file.text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default();
        depth += code.matches('{').count() as i64 - code.matches('}').count() as i64;
        let mut report = |text: String| findings.push(Finding::new(&file.path, index + 1, text));
        if let Some(("server", place)) = code.trim().split_once(' ')
            && let Some((name, _)) = place.split_once(':')
            && !services.iter().any(|it| it == name)
        {
            report(format!("`{name}` is not a service of `compose.yaml`"));
        }
        if code.contains("$request_uri") || code.contains("\"$request\"") {
            report("a query may have a ticket, log `$uri` instead".to_owned());
        }
    }
    if depth != 0 {
        findings.push(Finding::new(
            &file.path,
            file.text.lines().count(),
            "the braces do not match",
        ));
    }
    findings
}

/// Returns whether an image has a version of its own.
fn is_pinned(image: &str) -> bool {
    let tag = image.rsplit_once('/').map_or(image, |it| it.1).split_once(':');
    tag.is_some_and(|(_, tag)| tag != "latest" && tag.contains(|it: char| it.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    #[test]
    fn a_proxy_of_unknown_services_that_logs_tickets_is_refused() {
        let text =
            "upstream nodes {\n  server node1:1;\n  server other:1;\n}\nlog '$request_uri';\n}\n";
        let file = SourceFile { path: "nginx.conf".to_owned(), text: text.to_owned() };
        assert_snapshot!(printed(check_proxy(&file, &["node1".to_owned()])), @r"
        nginx.conf:3: `other` is not a service of `compose.yaml`
        nginx.conf:5: a query may have a ticket, log `$uri` instead
        nginx.conf:6: the braces do not match
        ");
    }

    #[test]
    fn an_image_without_a_version_is_not_pinned() {
        let images = ["debian:13", "debian:trixie-20250101", "debian", "x:latest", "a:5000/b"];
        assert_eq!(images.map(is_pinned), [true, true, false, false, false]);
    }
}

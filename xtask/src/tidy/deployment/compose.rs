//! Checks the services that run together.

use saphyr::{LoadableYamlNode, Yaml};

use super::is_pinned;
use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

/// Returns the names of the services.
pub(super) fn services(file: &SourceFile) -> Vec<String> {
    let documents = Yaml::load_from_str(&file.text).unwrap_or_default();
    documents.first().map(|it| keys(it.as_mapping_get("services"))).unwrap_or_default()
}

pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    let documents = match Yaml::load_from_str(&file.text) {
        Ok(documents) => documents,
        Err(error) => return vec![Finding::new(&file.path, 1, error.to_string())],
    };
    let [document] = &documents[..] else {
        return vec![Finding::new(&file.path, 1, "it is not one document")];
    };
    let mut findings = Vec::new();
    let mut report = |word: &str, text: String| {
        let line = file.text.lines().position(|it| it.contains(word)).map_or(1, |it| it + 1);
        findings.push(Finding::new(&file.path, line, text));
    };
    let names = services(file);
    if names.is_empty() {
        report("services", "there are no services".to_owned());
    }
    for name in &names {
        let Some(service) =
            document.as_mapping_get("services").and_then(|it| it.as_mapping_get(name))
        else {
            continue;
        };
        check_names(document, name, service, &mut report);
        let builds = service.contains_mapping_key("build");
        if let Some(image) = service.as_mapping_get("image").and_then(Yaml::as_str)
            && !builds
            && !is_pinned(image)
        {
            report(image, format!("`{image}` has no version"));
        }
        // What we build ourselves needs nothing that root may do.
        if builds {
            check_own(name, service, &mut report);
        }
        for variable in keys(service.as_mapping_get("environment")) {
            let is_secret = ["PASSWORD", "TOKEN", "SECRET"].iter().any(|it| variable.contains(it));
            if is_secret && !variable.ends_with("_FILE") {
                report(&variable, format!("`{variable}` would be seen by everybody, use a secret"));
            }
        }
    }
    findings
}

/// Checks that everything a service names is declared.
fn check_names(
    document: &Yaml<'_>,
    name: &str,
    service: &Yaml<'_>,
    report: &mut impl FnMut(&str, String),
) {
    for section in ["secrets", "networks"] {
        let declared = keys(document.as_mapping_get(section));
        for used in words(service.as_mapping_get(section)) {
            if !declared.contains(&used) {
                report(&used, format!("`{name}` uses `{used}`, which `{section}` does not have"));
            }
        }
    }
    let volumes = keys(document.as_mapping_get("volumes"));
    for used in words(service.as_mapping_get("volumes")) {
        let source = used.split(':').next().unwrap_or_default();
        if !source.starts_with(['.', '/']) && !volumes.iter().any(|it| it == source) {
            report(&used, format!("`{name}` uses the volume `{source}`, which is not declared"));
        }
    }
    let services = keys(document.as_mapping_get("services"));
    let needed = service.as_mapping_get("depends_on");
    for used in keys(needed).into_iter().chain(words(needed)) {
        if !services.contains(&used) {
            report(&used, format!("`{name}` depends on `{used}`, which is no service"));
        }
    }
}

fn check_own(name: &str, service: &Yaml<'_>, report: &mut impl FnMut(&str, String)) {
    if service.as_mapping_get("read_only").and_then(Yaml::as_bool) != Some(true) {
        report(name, format!("`{name}` can write to its image"));
    }
    if words(service.as_mapping_get("cap_drop")) != ["ALL"] {
        report(name, format!("`{name}` keeps capabilities"));
    }
    if service.as_mapping_get("healthcheck").is_none() {
        report(name, format!("`{name}` has no check of its health"));
    }
    if service.as_mapping_get("ports").is_some() {
        report(name, format!("`{name}` is reached without the proxy, and without encryption"));
    }
}

/// Returns the keys of a mapping.
fn keys(node: Option<&Yaml<'_>>) -> Vec<String> {
    let mapping = node.and_then(Yaml::as_mapping);
    let names = mapping.into_iter().flatten().filter_map(|(key, _)| key.as_str());
    names.map(str::to_owned).collect()
}

/// Returns the texts of a list.
fn words(node: Option<&Yaml<'_>>) -> Vec<String> {
    let list = node.and_then(Yaml::as_vec).into_iter().flatten();
    list.filter_map(Yaml::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    fn check_text(text: &str) -> String {
        printed(check(&SourceFile { path: "compose.yaml".to_owned(), text: text.to_owned() }))
    }

    #[test]
    fn names_that_nothing_declares_and_open_secrets_are_refused() {
        let text = "services:\n  a:\n    image: postgres\n    secrets: [x]\n    volumes: [v:/v]\n    \
                    depends_on: [b]\n    environment: {DB_PASSWORD: p}\n";
        assert_snapshot!(check_text(text), @r"
        compose.yaml:4: `a` uses `x`, which `secrets` does not have
        compose.yaml:5: `a` uses the volume `v`, which is not declared
        compose.yaml:6: `a` depends on `b`, which is no service
        compose.yaml:3: `postgres` has no version
        compose.yaml:7: `DB_PASSWORD` would be seen by everybody, use a secret
        ");
    }

    #[test]
    fn an_own_service_that_may_do_too_much_is_refused() {
        let text = "services:\n  node:\n    build: .\n    ports: [1:1]\n";
        assert_snapshot!(check_text(text), @r"
        compose.yaml:2: `node` can write to its image
        compose.yaml:2: `node` keeps capabilities
        compose.yaml:2: `node` has no check of its health
        compose.yaml:2: `node` is reached without the proxy, and without encryption
        ");
    }
}

//! The reference of the API: generated from the routes, and compared with the page in the docs.

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

/// Set to write the page instead of comparing it.
const UPDATE: &str = "THREADFOLD_UPDATE_DOCS";

const HEAD: &str = "\
# HTTP API

Generated from the routes of `threadfold-server`; `GET /v1/openapi.json` has the same for programs.
The [guide](../guide/server.md) shows how to use it, and [frames](frames.md) are what streams carry.

Every request needs `Authorization: Bearer TOKEN`, unless a route says otherwise, and a `Host` (and `Origin`, if any) that the server answers for.
Errors are `application/problem+json` with `status`, `title`, `detail` and `hint`; with `Retry-After` where another attempt may succeed.
";

fn page() -> String {
    let description = serde_json::to_value(threadfold_server::openapi()).unwrap();
    let mut page = HEAD.to_owned();
    let tags = [
        ("server", "The server"),
        ("sessions", "Sessions"),
        ("live", "Live"),
        ("ingest", "Ingest"),
    ];
    for (tag, title) in tags {
        writeln!(page, "\n## {title}").unwrap();
        for (path, item) in description["paths"].as_object().unwrap() {
            for (method, route) in item.as_object().unwrap() {
                if route["tags"][0] == tag {
                    write_route(&mut page, &method.to_uppercase(), path, route);
                }
            }
        }
    }
    page
}

fn write_route(page: &mut String, method: &str, path: &str, route: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().replace('\n', " ");
    writeln!(page, "\n### `{method} {path}`\n\n{}.", text(&route["summary"])).unwrap();
    if !text(&route["description"]).is_empty() {
        writeln!(page, "{}", text(&route["description"])).unwrap();
    }
    let parameters = route["parameters"].as_array().cloned().unwrap_or_default();
    if !parameters.is_empty() {
        writeln!(page, "\n| parameter | in | |\n|---|---|---|").unwrap();
        for it in &parameters {
            let (name, place) = (text(&it["name"]), text(&it["in"]));
            writeln!(page, "| `{name}` | {place} | {} |", text(&it["description"])).unwrap();
        }
    }
    writeln!(page, "\n| status | |\n|---|---|").unwrap();
    for (status, answer) in route["responses"].as_object().unwrap() {
        writeln!(page, "| {status} | {} |", text(&answer["description"])).unwrap();
    }
}

#[test]
fn the_reference_describes_the_routes_as_they_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/http.md");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page(),
        "run the test with `{UPDATE}=1`, and commit `docs/reference/http.md`"
    );
}

#[test]
fn no_get_request_is_described_as_a_change() {
    let description = serde_json::to_value(threadfold_server::openapi()).unwrap();
    for (path, item) in description["paths"].as_object().unwrap() {
        let route = &item["get"];
        assert!(route.is_null() || route["requestBody"].is_null(), "{path}");
    }
}

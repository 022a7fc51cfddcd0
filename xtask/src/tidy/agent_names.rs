//! Checks that an agent's name appears only in the agent's own folders, in the table of agents, and
//! outside the product (tests, benchmarks, xtask).
//!
//! Everything else asks the table, so that adding an agent touches its folders and one row.

use crate::tidy::crates::is_product_source;
use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

/// The agents, as they are spelled in code.
const AGENTS: &[&str] = &["claude", "opencode", "codex"];

/// The folder in which doc comments are the help of commands.
const COMMANDS: &str = "crates/threadfold-cli/src/commands/";

/// Files outside of an agent's folder that may name agents, with the reason.
const TABLES: &[&str] = &[
    // The table of agents, one row each.
    "crates/threadfold-convert/src/agent.rs",
    "crates/threadfold-convert/src/lib.rs",
    "crates/threadfold-engine/src/agents.rs",
];

pub(crate) fn check(file: &SourceFile) -> Vec<Finding> {
    if !is_product_source(&file.path)
        || TABLES.contains(&file.path.as_str())
        || is_of_agent(&file.path)
    {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        // What follows in a file of the product is its unit tests.
        if line.trim_start().starts_with("#[cfg(test)]") {
            break;
        }
        if let Some(agent) = AGENTS.iter().find(|agent| names(&file.path, line, agent)) {
            let text =
                format!("`{agent}` is named outside of its folders, ask the table of agents");
            findings.push(Finding::new(&file.path, index + 1, text));
        }
    }
    findings
}

/// Returns whether a file is in a folder of an agent, or is the file beside such a folder.
fn is_of_agent(path: &str) -> bool {
    let is_own = |part: &str| {
        let name = part.strip_suffix(".rs").unwrap_or(part);
        AGENTS.contains(&name)
    };
    path.split('/').any(is_own) || path.split('/').any(|part| part == "tests")
}

/// Returns whether the code of a line names an agent. Comments may: examples use real agents. The
/// doc comments of commands are their help, which users read for every agent.
fn names(path: &str, line: &str, agent: &str) -> bool {
    let code = line.trim_start();
    let is_help = path.starts_with(COMMANDS) && code.starts_with("///");
    if code.starts_with("//") && !is_help {
        return false;
    }
    code.to_ascii_lowercase().contains(agent)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    fn check_text(path: &str, text: &str) -> String {
        printed(check(&SourceFile { path: path.to_owned(), text: text.to_owned() }))
    }

    #[test]
    fn a_name_outside_of_its_folder_is_refused() {
        let text = "use threadfold_convert::claude;\nlet agent = Agent::Opencode;\n";
        assert_snapshot!(check_text("crates/threadfold-cli/src/list.rs", text), @"
        crates/threadfold-cli/src/list.rs:1: `claude` is named outside of its folders, ask the table of agents
        crates/threadfold-cli/src/list.rs:2: `opencode` is named outside of its folders, ask the table of agents
        ");
    }

    #[test]
    fn help_texts_name_no_agent() {
        let text = "/// Read the files of Claude Code\n// Codex names nothing.\n";
        assert_snapshot!(check_text("crates/threadfold-cli/src/commands/list.rs", text), @"crates/threadfold-cli/src/commands/list.rs:1: `claude` is named outside of its folders, ask the table of agents");
        assert_eq!(check_text("crates/threadfold-cli/src/view.rs", text), "");
    }

    #[test]
    fn an_agents_own_folder_the_table_and_tests_may_name_it() {
        let text = "use threadfold_convert::claude;\n";
        for path in [
            "crates/threadfold-convert/src/claude/live.rs",
            "crates/threadfold-convert/src/claude.rs",
            "crates/threadfold-engine/src/agents.rs",
            "crates/threadfold-cli/tests/it/list.rs",
            "crates/threadfold-testkit/src/lib.rs",
        ] {
            assert_eq!(check_text(path, text), "", "{path}");
        }
        let unit = "fn a() {}\n#[cfg(test)]\nmod tests {\n    use threadfold_convert::claude;\n}\n";
        assert_eq!(check_text("crates/threadfold-fold/src/name.rs", unit), "");
    }
}

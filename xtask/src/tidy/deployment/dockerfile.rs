//! Checks the recipe of the image.

use std::str::FromStr;

use dockerfile_parser_rs::{Dockerfile, Instruction};

use super::is_pinned;
use crate::tidy::finding::Finding;
use crate::tidy::workspace::SourceFile;

pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    let parsed = match Dockerfile::from_str(&file.text) {
        Ok(parsed) => parsed,
        Err(error) => return vec![Finding::new(&file.path, 1, error.to_string())],
    };
    let mut findings = Vec::new();
    let mut report = |word: &str, text: String| {
        let line = file.text.lines().position(|it| it.contains(word)).map_or(1, |it| it + 1);
        findings.push(Finding::new(&file.path, line, text));
    };
    let mut stages: Vec<Vec<&Instruction>> = Vec::new();
    for instruction in &parsed.instructions {
        match instruction {
            Instruction::From { image, .. } => {
                if !is_pinned(image) {
                    report(image, format!("`{image}` has no version"));
                }
                stages.push(Vec::new());
            }
            Instruction::Add { .. } => report("ADD", "`COPY` copies, `ADD` does more".to_owned()),
            Instruction::Run { command, .. } => check_run(&command.join(" "), &mut report),
            Instruction::Env(variables) => {
                for name in variables.keys().filter(|it| is_secret(it)) {
                    report(name, format!("`{name}` would be in the image"));
                }
            }
            Instruction::Arg(variables) => {
                for name in variables.keys().filter(|it| is_secret(it)) {
                    report(name, format!("`{name}` would be in the history of the image"));
                }
            }
            _ => {}
        }
        if let Some(stage) = stages.last_mut() {
            stage.push(instruction);
        }
    }
    if stages.len() < 2 {
        report("FROM", "the program is built in a stage of its own".to_owned());
    }
    let last = stages.last().map(Vec::as_slice).unwrap_or_default();
    let user = last.iter().rev().find_map(|it| match it {
        Instruction::User { user, .. } => Some(user.as_str()),
        _ => None,
    });
    // A number, because an orchestrator cannot see that a name is not root's.
    if user.and_then(|it| it.parse::<u32>().ok()).is_none_or(|it| it == 0) {
        report("USER", "the last stage runs as root, or as a user without a number".to_owned());
    }
    let copies = |it: &&Instruction| matches!(it, Instruction::Copy { from: Some(_), .. });
    if !last.iter().any(copies) {
        report("FROM", "the last stage copies nothing from the build".to_owned());
    }
    findings
}

fn check_run(command: &str, report: &mut impl FnMut(&str, String)) {
    if !command.contains("apt-get install") {
        return;
    }
    for needed in ["--no-install-recommends", "--yes", "rm -rf /var/lib/apt/lists"] {
        if !command.contains(needed) {
            report("apt-get install", format!("`apt-get install` without `{needed}`"));
        }
    }
}

fn is_secret(name: &str) -> bool {
    ["PASSWORD", "TOKEN", "SECRET", "KEY"].iter().any(|it| name.to_uppercase().contains(it))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::tidy::finding::printed;

    fn check_text(text: &str) -> String {
        printed(check(&SourceFile { path: "Dockerfile".to_owned(), text: text.to_owned() }))
    }

    #[test]
    fn an_image_that_runs_as_root_and_has_secrets_is_refused() {
        let text = "FROM debian\nENV TOKEN=\"x\"\nADD a b\nRUN apt-get install --yes curl\n";
        assert_snapshot!(check_text(text), @r"
        Dockerfile:1: `debian` has no version
        Dockerfile:2: `TOKEN` would be in the image
        Dockerfile:3: `COPY` copies, `ADD` does more
        Dockerfile:4: `apt-get install` without `--no-install-recommends`
        Dockerfile:4: `apt-get install` without `rm -rf /var/lib/apt/lists`
        Dockerfile:1: the program is built in a stage of its own
        Dockerfile:1: the last stage runs as root, or as a user without a number
        Dockerfile:1: the last stage copies nothing from the build
        ");
    }

    #[test]
    fn two_stages_and_a_user_are_fine() {
        let text = "FROM rust:1.95 AS build\nRUN cargo build\nFROM debian:13\n\
                    COPY --from=build /a /a\nUSER 10001:10001\n";
        assert_snapshot!(check_text(text), @"");
    }
}

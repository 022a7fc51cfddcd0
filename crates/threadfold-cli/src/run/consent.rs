//! Asks for consent before an untrusted run is resumed, after listing everything it would use.

use std::fs;
use std::io::{self, IsTerminal, Write};

use anyhow::anyhow;
use threadfold_core::{CallAction, Effect, SessionId, TurnState, resume_plan};
use threadfold_loop::McpConfig;

use super::setup::{ProviderArg, RunSetup};
use crate::error::{CommandError, print_note};
use crate::provider_keys;

/// How a person agrees to what is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// By an answer on the terminal.
    Ask,
    /// By `--yes` on the command line.
    Given,
}

/// Lists what an untrusted run would use, and asks whether to continue it.
pub(crate) fn ask_to_trust(
    session: &SessionId,
    why: &str,
    setup: &RunSetup,
    turns: &TurnState,
    consent: Consent,
) -> Result<(), CommandError> {
    print_note(format_args!("session {session} is an untrusted run: {why}"));
    print_note("to continue it, the program would use:");
    for (name, value) in setup.uses() {
        print_note(format_args!("  {name:<9} {value}"));
    }
    for call in &resume_plan(turns, |_| Effect::Unsafe).calls {
        if call.action != CallAction::Replay {
            let call = &call.call;
            // Whole: nobody can agree to what is cut off.
            print_note(format_args!("  {:<9} {} {}", "call", call.name, call.arguments));
        }
    }
    if consent == Consent::Given {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(CommandError::new(
            anyhow!("cannot ask for consent: standard input is not a terminal"),
            "add `--yes` to agree to what is listed; options such as `--base-url`, `--key-file` and `--tools` replace it",
        ));
    }
    write!(io::stderr(), "type `yes` to continue: ").ok();
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(CommandError::new(
            anyhow!("session `{session}` was not continued"),
            "`threadfold view` shows it without running anything",
        )),
    }
}

impl RunSetup {
    /// Returns everything that a run with this setup would use, by name.
    fn uses(&self) -> Vec<(&'static str, String)> {
        let path = |path: &std::path::Path| format!("`{}`", path.display());
        let mut uses = vec![("provider", self.provider_name())];
        if let Some(variable) = self.key_variable() {
            let address = self.base_url.clone();
            uses.push(("address", address.unwrap_or_else(|| "the provider's own".to_owned())));
            uses.push(match &self.key_file {
                Some(file) => ("key", format!("the content of {}", path(file))),
                None => ("key", format!("the variable `{variable}`")),
            });
        }
        uses.push(("model", self.model.clone()));
        uses.extend(self.script.as_deref().map(|it| ("script", path(it))));
        uses.extend(self.system.as_ref().map(|it| ("system", it.clone())));
        uses.push(("folder", path(&self.folder)));
        uses.push(("tools", self.tools.join(", ")));
        let Some(config) = &self.mcp else { return uses };
        uses.push(("MCP", path(config)));
        let servers = fs::read_to_string(config).ok().and_then(|it| McpConfig::parse(&it).ok());
        for (name, server) in servers.unwrap_or_default().servers {
            let command = [&[server.command][..], &server.args].concat().join(" ");
            uses.push(("MCP", format!("server `{name}`: {command}")));
            uses.extend(server.cwd.map(|it| ("MCP", format!("server `{name}`, in {}", path(&it)))));
            for (variable, value) in server.env {
                uses.push(("MCP", format!("server `{name}`, with `{variable}={value}`")));
            }
        }
        uses
    }

    fn provider_name(&self) -> String {
        let name = serde_json::to_value(self.provider).ok();
        name.as_ref().and_then(|it| it.as_str()).unwrap_or_default().to_owned()
    }

    /// Returns the variable of the provider's key.
    pub(super) fn key_variable(&self) -> Option<&'static str> {
        match self.provider {
            ProviderArg::Anthropic => Some(provider_keys::ANTHROPIC),
            ProviderArg::Openai | ProviderArg::OpenaiResponses => Some(provider_keys::OPENAI),
            ProviderArg::Scripted | ProviderArg::Demo => None,
        }
    }
}

//! Runs real Codex in a test: a pinned version, a clean environment, loopback only.
//!
//! Codex has two live views. `codex exec --json` is one process per prompt, with its prompt as an
//! argument; `codex app-server` speaks JSON-RPC on stdio, and its client sends every request.

mod app_server;
mod options;
mod program;
mod scripts;

pub use self::{
    app_server::AppServer,
    options::{CodexModel, CodexOptions},
    program::Codex,
    scripts::{CodexTools, codex_scripts},
};

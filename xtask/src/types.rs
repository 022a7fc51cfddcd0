//! `cargo xtask types`: the TypeScript types of the npm package, from the Rust types.
//!
//! The sources are read as they are, so that the pure crates need no feature, derive or dependency
//! for another language. Comments become comments.

mod emit;
mod item;
mod read;

use std::fs;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::shell;
use item::Items;

/// Where the types go.
const OUTPUT: &str = "bindings/js/src/generated/types.ts";

/// The files that define what is on the wire.
const SOURCES: &[&str] = &[
    "crates/threadfold-core/src/block.rs",
    "crates/threadfold-core/src/block/content.rs",
    "crates/threadfold-core/src/change.rs",
    "crates/threadfold-core/src/event.rs",
    "crates/threadfold-core/src/event/context.rs",
    "crates/threadfold-core/src/event/payload.rs",
    "crates/threadfold-core/src/event/turn.rs",
    "crates/threadfold-core/src/metadata.rs",
    "crates/threadfold-core/src/state/subagent.rs",
    "crates/threadfold-core/src/turn/message.rs",
    "crates/threadfold-core/src/turn/part.rs",
    "crates/threadfold-engine/src/frame.rs",
    "crates/threadfold-engine/src/session_row.rs",
    "crates/threadfold-fold/src/parity.rs",
    "crates/threadfold-fold/src/parity/file_order.rs",
    "crates/threadfold-fold/src/slice/change.rs",
    "crates/threadfold-server/src/catalog.rs",
    "crates/threadfold-server/src/problem.rs",
    "crates/threadfold-server/src/status.rs",
    "crates/threadfold-server/src/summary_feed.rs",
];

/// What to do with the types.
#[derive(Args)]
pub(crate) struct TypesArgs {
    /// Check that the committed types are those of the Rust types, and change nothing
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &TypesArgs) -> Result<()> {
    let (path, text) = (shell::root().join(OUTPUT), generate()?);
    if args.check {
        let found = fs::read_to_string(&path).unwrap_or_default();
        ensure!(found == text, "`{OUTPUT}` is stale: run `cargo xtask types`");
        println!("types: `{OUTPUT}` has the Rust types");
        return Ok(());
    }
    fs::write(&path, text).with_context(|| format!("`{OUTPUT}` cannot be written"))
}

fn generate() -> Result<String> {
    let mut items = Items::default();
    for source in SOURCES {
        let text = fs::read_to_string(shell::root().join(source))
            .with_context(|| format!("`{source}` cannot be read"))?;
        read::add_items(&text, &mut items).with_context(|| format!("`{source}`"))?;
    }
    emit::types(&items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_types_are_those_of_the_rust_types() {
        run(&TypesArgs { check: true }).unwrap();
    }
}

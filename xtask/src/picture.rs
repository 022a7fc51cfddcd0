//! `cargo xtask picture`: renders the screenshot for the README, a real `view` of the example.

use std::fs;

use anyhow::{Context, Result};

use crate::shell;

/// Where the picture is.
const PICTURE: &str = "docs/view.svg";

pub(crate) fn run() -> Result<()> {
    let shown = shell::read(&mut shell::command(
        "cargo run --quiet --locked --package threadfold -- \
         view examples/first-session.jsonl --color always --width 88 --no-pager",
    ))?;
    let drawn = anstyle_svg::Term::new().render_svg(&shown);
    let path = shell::root().join(PICTURE);
    fs::write(&path, drawn).with_context(|| format!("cannot write `{PICTURE}`"))?;
    println!("wrote {PICTURE}");
    Ok(())
}

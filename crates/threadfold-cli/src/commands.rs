//! What the program can do, a file each.

mod fold;
mod import;
mod list;
mod verify;
mod view;
mod watch;

use clap::Subcommand;

use crate::error::CommandError;

#[derive(Subcommand)]
pub(crate) enum Command {
    Fold(fold::FoldArgs),
    Import(import::ImportArgs),
    List(list::ListArgs),
    View(view::ViewArgs),
    Verify(verify::VerifyArgs),
    Watch(watch::WatchArgs),
}

impl Command {
    pub(crate) fn run(&self) -> Result<(), CommandError> {
        match self {
            Self::Fold(args) => fold::run(args),
            Self::Import(args) => import::run(args),
            Self::List(args) => list::run(args),
            Self::View(args) => view::run(args),
            Self::Verify(args) => verify::run(args),
            Self::Watch(args) => watch::run(args),
        }
    }
}

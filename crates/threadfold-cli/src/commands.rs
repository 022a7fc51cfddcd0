//! What the program can do, a file each.

mod fold;

use clap::Subcommand;

use crate::error::CommandError;

#[derive(Subcommand)]
pub(crate) enum Command {
    Fold(fold::FoldArgs),
}

impl Command {
    pub(crate) fn run(&self) -> Result<(), CommandError> {
        match self {
            Self::Fold(args) => fold::run(args),
        }
    }
}

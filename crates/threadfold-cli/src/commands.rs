//! What the program can do, a file each.

mod fold;
mod verify;

use clap::Subcommand;

use crate::error::CommandError;

#[derive(Subcommand)]
pub(crate) enum Command {
    Fold(fold::FoldArgs),
    Verify(verify::VerifyArgs),
}

impl Command {
    pub(crate) fn run(&self) -> Result<(), CommandError> {
        match self {
            Self::Fold(args) => fold::run(args),
            Self::Verify(args) => verify::run(args),
        }
    }
}

//! The commands of the program, one file each.

mod backup;
mod copy;
mod doctor;
mod export;
mod fold;
mod gc;
mod import;
mod list;
mod log;
mod push;
mod reindex;
mod restore;
mod resume;
mod rm;
mod run;
mod runs;
mod serve;
mod verify;
mod view;
mod watch;

use clap::Subcommand;

use crate::error::CommandError;

#[derive(Subcommand)]
pub(crate) enum Command {
    List(list::ListArgs),
    View(view::ViewArgs),
    Import(import::ImportArgs),
    Log(log::LogArgs),
    Export(export::ExportArgs),
    Restore(restore::RestoreArgs),
    Rm(rm::RmArgs),
    Reindex(reindex::ReindexArgs),
    Doctor(doctor::DoctorArgs),
    Gc(gc::GcArgs),
    Backup(backup::BackupArgs),
    Copy(copy::CopyArgs),
    Fold(fold::FoldArgs),
    Verify(verify::VerifyArgs),
    Watch(watch::WatchArgs),
    Serve(serve::ServeArgs),
    Push(push::PushArgs),
    Run(Box<run::RunArgs>),
    Resume(Box<resume::ResumeArgs>),
    Runs(runs::RunsArgs),
}

impl Command {
    pub(crate) fn run(&self) -> Result<(), CommandError> {
        match self {
            Self::List(args) => list::run(args),
            Self::View(args) => view::run(args),
            Self::Import(args) => import::run(args),
            Self::Log(args) => log::run(args),
            Self::Export(args) => export::run(args),
            Self::Restore(args) => restore::run(args),
            Self::Rm(args) => rm::run(args),
            Self::Reindex(args) => reindex::run(args),
            Self::Doctor(args) => doctor::run(args),
            Self::Gc(args) => gc::run(args),
            Self::Backup(args) => backup::run(args),
            Self::Copy(args) => copy::run(args),
            Self::Fold(args) => fold::run(args),
            Self::Verify(args) => verify::run(args),
            Self::Watch(args) => watch::run(args),
            Self::Serve(args) => serve::run(args),
            Self::Push(args) => push::run(args),
            Self::Run(args) => run::run(args),
            Self::Resume(args) => resume::run(args),
            Self::Runs(args) => runs::run(args),
        }
    }
}

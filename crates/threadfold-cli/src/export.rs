//! Exports sessions from the store: as original files, or in another format.

mod escape;
mod file_name;
mod markdown;
mod output;
mod session_files;

pub(crate) use file_name::file_name;
pub(crate) use markdown::write_markdown;
pub(crate) use output::Output;
pub(crate) use session_files::{
    SourceWriter, UsedPaths, WrittenFile, below, beside, has_files, lone_file, move_into,
    need_files,
};

//! Sessions on their way out of the store: the files as they were, or what they mean.

mod inert;
mod markdown;
mod name;
mod output;
mod scribe;

pub(crate) use markdown::write_markdown;
pub(crate) use name::file_name;
pub(crate) use output::Output;
pub(crate) use scribe::{
    Scribe, Taken, Written, below, beside, has_files, lone_file, move_into, need_files,
};

//! Sessions on their way out of the store: the files as they were, or what they mean.

mod inert;
mod markdown;
mod name;
mod scribe;

pub(crate) use markdown::write_markdown;
pub(crate) use name::file_name;
pub(crate) use scribe::{
    Scribe, Taken, Written, below, beside, create, has_files, lone_file, need_files,
};

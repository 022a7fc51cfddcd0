//! The sessions on this machine: where they lie, which one is meant, what is in them.
//!
//! Names that a person gives are compared with names that were found, and never become part of a
//! path. Finding reads folders and the list in a database only; a file is opened when its session
//! is asked for, or when its name is none that an agent gives.

mod find;
mod fresh;
mod load;
mod name;
mod opencode;
mod resolve;

pub(crate) use find::{FoundSession, Kept, Sessions};
pub(crate) use fresh::{Freshness, freshness};
pub(crate) use load::{Loaded, load_file, load_session};
pub(crate) use name::claude_session;
pub(crate) use resolve::{Given, Wanted, find_given, places, resolve};

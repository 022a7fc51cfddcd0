//! Resolves what the user typed to a session, and loads it.

mod load;
mod resolve;

pub(crate) use load::{LoadedSession, load_found};
pub(crate) use resolve::{ResolvedInput, Target, find_given, resolve};

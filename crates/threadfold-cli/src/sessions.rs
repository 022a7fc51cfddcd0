//! Which session is meant by what a person typed, and its content.

mod load;
mod resolve;

pub(crate) use load::{SessionContent, load_found};
pub(crate) use resolve::{Given, Target, find_given, resolve};

//! Sessions on their way into the store.

mod folder;
mod plan;
mod settle;
mod take;

pub(crate) use plan::{Content, Planned, Planner, Task, kept_as_it_is};
pub(crate) use settle::Names;
pub(crate) use take::{Imported, take, take_new};

//! Sessions on their way into the store.

mod plan;
mod take;

pub(crate) use plan::{Content, Planned, Planner, Task};
pub(crate) use take::{Imported, take, take_new};

//! What agents say, as events.

pub mod lines;
pub mod recover;

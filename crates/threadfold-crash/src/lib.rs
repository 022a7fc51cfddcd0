//! Kills a run of the loop everywhere, resumes it, and looks what ran twice.
//!
//! ```text
//! harness ── starts, kills ──► child: the loop, with a store that can kill it
//!    └────────── world ◄────── its tools: what they do is counted here
//! ```
//!
//! The world is part of the harness, so what a tool did is known though the process that ran it
//! is gone. The run has eight calls of every class of effect, two or three at once, in five turns.

mod child;
mod control;
mod killing;
mod matrix;
mod races;
mod story;
mod tools;
mod world;

pub use child::{ChildArgs, Fail, child};
pub use matrix::{Matrix, Report, boundaries, control_fails, random_kills};
pub use races::{Raced, race, zombie};
pub use world::World;

/// What goes wrong with the harness itself.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

//! Kills a run of the loop at every point, resumes it, and detects what ran twice.
//!
//! ```text
//! harness ── starts, kills ──► child: the loop, with a store that can kill it
//!    └────────── world ◄────── its tools report every effect here
//! ```
//!
//! The world is part of the harness, so the effects of a tool are known even after its process was
//! killed. The run has eight calls of every effect class, up to three in parallel, in five turns.

mod child;
mod control;
mod kill_switch;
mod matrix;
mod races;
mod run_place;
mod story;
mod tools;
mod world;

pub use child::{ChildArgs, Fail, Recording, child};
pub use matrix::{Matrix, Report, boundaries, control_fails, random_kills};
pub use races::{RaceResult, race, zombie};
pub use run_place::{RunPlace, StoreKind};
pub use world::World;

/// An error of the harness itself.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

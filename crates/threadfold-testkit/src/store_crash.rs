//! Kills a store's process and cuts a machine's power, and checks that every acknowledged write
//! survived.
//!
//! ```text
//! parent ── starts ──► child ── appends ──► store.db
//!    ▲                   │
//!    └── acknowledged ◄──┘  a line in a pipe, after each acknowledgement
//! ```
//!
//! The parent stops the child at a random moment, and then checks the file. The test is credible
//! only because the same power cuts lose records of a control writer that does not sync.

mod child;
mod cuts;
mod kills;
mod random;
mod verify;

pub use child::{Control, child};
pub use cuts::{Cuts, can_cut, cut_power};
pub use kills::{Kills, kill};
pub use verify::AcknowledgedWrites;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

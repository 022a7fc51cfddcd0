//! A store's process that is killed, and a machine whose power is cut: what was acknowledged must
//! be there.
//!
//! ```text
//! parent ── starts ──► child ── appends ──► store.db
//!    ▲                   │
//!    └── acknowledged ◄──┘  a line in a pipe, after each acknowledgement
//! ```
//!
//! The parent stops the child at a moment that neither knows, and then looks at what the file
//! holds. It is believed only because the same cuts lose records of a writer that does not sync.

mod child;
mod cuts;
mod kills;
mod random;
mod verify;

pub use child::{Control, child};
pub use cuts::{Cuts, can_cut, cut_power};
pub use kills::{Kills, kill};
pub use verify::Acknowledged;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

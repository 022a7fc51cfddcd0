//! What the converters do with hostile bytes, by example and as laws.

mod crashes;
mod law;
mod lines;
mod recover;

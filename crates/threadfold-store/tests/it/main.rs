//! The store suite for the store in memory.

mod memory;

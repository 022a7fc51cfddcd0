//! The reducer's rules, by example and as laws.

mod edge_cases;
mod laws;

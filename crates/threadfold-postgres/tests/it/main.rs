//! The store suite, and what can happen to a database.

mod suite;

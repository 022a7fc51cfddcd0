//! A store in a PostgreSQL server of its own for each test.

mod broken_rules;
mod connections;
mod sabotage_proxy;
mod suite;

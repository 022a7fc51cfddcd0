//! The `threadfold` program.

fn main() {}

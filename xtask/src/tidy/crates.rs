//! Which crate may use which: the table that `ARCHITECTURE.md` tells in words.

/// A row of the table.
pub(crate) struct Crate {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// The crates of ours that it may depend on.
    pub(crate) may_use: &'static [&'static str],
}

/// What a crate is there for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Part of the product that touches nothing of the world.
    Pure,
    /// Part of the product.
    Product,
    /// Shared by the tests, and never part of the product.
    Tests,
    /// Helps to build, and knows nothing of what is built.
    Chores,
}

/// The crate that only tests may use.
pub(crate) const TESTKIT: &str = "threadfold-testkit";

/// The store that tests, examples and benchmarks of every crate may use. Their product code knows
/// the interface alone, so that another store can take its place.
pub(crate) const TEST_STORE: &str = "threadfold-sqlite";

const CORE: &str = "threadfold-core";
const CONVERT: &str = "threadfold-convert";
pub(crate) const FOLD: &str = "threadfold-fold";
const STORE: &str = "threadfold-store";
const ENGINE: &str = "threadfold-engine";
const LOOP: &str = "threadfold-loop";

const CRATES: &[Crate] = &[
    Crate { name: CORE, role: Role::Pure, may_use: &[] },
    Crate { name: CONVERT, role: Role::Pure, may_use: &[CORE] },
    Crate { name: FOLD, role: Role::Pure, may_use: &[CORE, CONVERT] },
    Crate { name: STORE, role: Role::Product, may_use: &[CORE, FOLD] },
    Crate { name: TEST_STORE, role: Role::Product, may_use: &[CORE, FOLD, STORE] },
    Crate { name: ENGINE, role: Role::Product, may_use: &[CORE, CONVERT, FOLD, STORE] },
    Crate { name: LOOP, role: Role::Product, may_use: &[CORE, FOLD, STORE, ENGINE] },
    // Not `threadfold-convert`: the program detects, names, cuts and folds nothing by itself.
    Crate {
        name: "threadfold",
        role: Role::Product,
        may_use: &[CORE, FOLD, STORE, TEST_STORE, ENGINE, LOOP],
    },
    Crate { name: TESTKIT, role: Role::Tests, may_use: &[CORE, CONVERT, FOLD, STORE, TEST_STORE] },
    Crate {
        name: "threadfold-crash",
        role: Role::Tests,
        may_use: &[CORE, FOLD, STORE, TEST_STORE, ENGINE, LOOP, TESTKIT],
    },
    Crate { name: "xtask", role: Role::Chores, may_use: &[] },
];

/// Returns the row of a crate.
pub(crate) fn find(name: &str) -> Option<&'static Crate> {
    CRATES.iter().find(|it| it.name == name)
}

pub(crate) fn is_pure(name: &str) -> bool {
    find(name).is_some_and(|it| it.role == Role::Pure)
}

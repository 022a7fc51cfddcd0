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

/// The crate that tests may use besides what their crate may.
pub(crate) const TESTKIT: &str = "threadfold-testkit";

const CRATES: &[Crate] = &[
    Crate { name: "threadfold-core", role: Role::Pure, may_use: &[] },
    Crate { name: "threadfold-convert", role: Role::Pure, may_use: &["threadfold-core"] },
    Crate { name: "threadfold-store", role: Role::Product, may_use: &["threadfold-core"] },
    Crate {
        name: "threadfold-engine",
        role: Role::Product,
        may_use: &["threadfold-core", "threadfold-convert", "threadfold-store"],
    },
    Crate {
        name: "threadfold-loop",
        role: Role::Product,
        may_use: &["threadfold-core", "threadfold-store", "threadfold-engine"],
    },
    Crate {
        name: "threadfold-server",
        role: Role::Product,
        may_use: &["threadfold-core", "threadfold-engine", "threadfold-loop"],
    },
    Crate {
        name: "threadfold",
        role: Role::Product,
        may_use: &[
            "threadfold-core",
            "threadfold-convert",
            "threadfold-store",
            "threadfold-engine",
            "threadfold-loop",
            "threadfold-server",
        ],
    },
    Crate {
        name: TESTKIT,
        role: Role::Tests,
        may_use: &["threadfold-core", "threadfold-convert", "threadfold-store"],
    },
    Crate {
        name: "threadfold-crash",
        role: Role::Tests,
        may_use: &["threadfold-core", "threadfold-store", "threadfold-engine", "threadfold-loop"],
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

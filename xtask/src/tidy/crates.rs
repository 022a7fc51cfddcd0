//! The allowed dependencies between crates, as described in `ARCHITECTURE.md`.

/// A row of the table.
pub(crate) struct Crate {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// The crates of ours that it may depend on.
    pub(crate) may_use: &'static [&'static str],
}

/// The purpose of a crate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Part of the product, without I/O.
    Pure,
    /// Part of the product.
    Product,
    /// Shared by the tests, and never part of the product.
    Tests,
    /// Build tooling, independent of the product.
    Tooling,
}

/// The crate that only tests may use.
pub(crate) const TESTKIT: &str = "threadfold-testkit";

/// The store that tests, examples and benchmarks of every crate may use. Their product code knows
/// the interface alone, so that another store can take its place.
pub(crate) const TEST_STORE: &str = "threadfold-sqlite";

const CORE: &str = "threadfold-core";
const CONVERT: &str = "threadfold-convert";
pub(crate) const FOLD: &str = "threadfold-fold";
const WASM: &str = "threadfold-wasm";
const STORE: &str = "threadfold-store";
const POSTGRES: &str = "threadfold-postgres";
const ENGINE: &str = "threadfold-engine";
const EXPORT: &str = "threadfold-export";
const CLIENT: &str = "threadfold-client";
const SERVER: &str = "threadfold-server";
const LOOP: &str = "threadfold-loop";

const CRATES: &[Crate] = &[
    Crate { name: CORE, role: Role::Pure, may_use: &[] },
    Crate { name: CONVERT, role: Role::Pure, may_use: &[CORE] },
    Crate { name: FOLD, role: Role::Pure, may_use: &[CORE, CONVERT] },
    Crate { name: WASM, role: Role::Product, may_use: &[CORE, CONVERT, FOLD] },
    Crate { name: STORE, role: Role::Product, may_use: &[CORE, FOLD] },
    Crate { name: TEST_STORE, role: Role::Product, may_use: &[CORE, FOLD, STORE] },
    // The engine is for its benchmark: from an append here to a frame there.
    Crate { name: POSTGRES, role: Role::Product, may_use: &[CORE, FOLD, STORE, ENGINE] },
    Crate { name: ENGINE, role: Role::Product, may_use: &[CORE, CONVERT, FOLD, STORE] },
    Crate { name: EXPORT, role: Role::Product, may_use: &[CORE, FOLD, STORE, ENGINE] },
    Crate { name: CLIENT, role: Role::Product, may_use: &[CORE, FOLD, ENGINE] },
    // The client is for its tests: they are the server's other side.
    Crate {
        name: SERVER,
        role: Role::Product,
        may_use: &[CORE, FOLD, STORE, ENGINE, EXPORT, CLIENT],
    },
    Crate { name: LOOP, role: Role::Product, may_use: &[CORE, FOLD, STORE, ENGINE] },
    // Not `threadfold-convert`: the program detects, names, cuts and folds nothing by itself.
    Crate {
        name: "threadfold",
        role: Role::Product,
        may_use: &[CORE, FOLD, STORE, TEST_STORE, POSTGRES, ENGINE, EXPORT, CLIENT, SERVER, LOOP],
    },
    Crate { name: TESTKIT, role: Role::Tests, may_use: &[CORE, CONVERT, FOLD, STORE, TEST_STORE] },
    Crate {
        name: "threadfold-loop-crash",
        role: Role::Tests,
        may_use: &[CORE, FOLD, STORE, TEST_STORE, POSTGRES, ENGINE, LOOP, TESTKIT],
    },
    Crate { name: "xtask", role: Role::Tooling, may_use: &[] },
];

/// Returns the row of a crate.
pub(crate) fn find(name: &str) -> Option<&'static Crate> {
    CRATES.iter().find(|it| it.name == name)
}

pub(crate) fn is_pure(name: &str) -> bool {
    find(name).is_some_and(|it| it.role == Role::Pure)
}

/// Returns true for the crates that users build on.
pub(crate) fn is_product(name: &str) -> bool {
    find(name).is_some_and(|it| matches!(it.role, Role::Pure | Role::Product))
}

/// Returns true for the source files of the crates that users build on, without their tests.
pub(crate) fn is_product_source(path: &str) -> bool {
    let folder = path.strip_prefix("crates/").and_then(|it| it.split_once('/'));
    folder.is_some_and(|(folder, rest)| {
        // The folder of the program has another name than its package.
        let name = if folder == "threadfold-cli" { "threadfold" } else { folder };
        is_product(name) && rest.starts_with("src/")
    })
}

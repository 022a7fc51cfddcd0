//! `cargo xtask wasm`: builds for WebAssembly.
//!
//! The standard library for wasm32 comes from the active toolchain, if it has one; else from
//! Debian's packages, unpacked into a private folder with nothing installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::shell;

const TARGET: &str = "wasm32-unknown-unknown";
/// One fixed place: the path enters the hashes of symbols.
const TOOLCHAIN: &str = "/var/tmp/threadfold-wasm-toolchain";
/// The pure crates, of which the last depends on all others.
const PURE: &str = "threadfold-fold";

/// What is built for WebAssembly
#[derive(Args)]
pub(crate) struct WasmArgs {
    /// Check that the pure crates compile for WebAssembly
    #[arg(long, required = true)]
    check_pure: bool,
}

pub(crate) fn run(args: &WasmArgs) -> Result<()> {
    if !args.check_pure {
        bail!("nothing to do: `--check-pure` checks the pure crates");
    }
    let mut check = Command::new("cargo");
    check.current_dir(shell::root());
    // The toolchain variables of xtask itself would choose the wrong compiler.
    check.args(["check", "--locked", "--package", PURE, "--target", TARGET]);
    check.arg("--target-dir").arg(shell::target()?.join("wasm"));
    if !has_standard_library()? {
        let toolchain = debian_toolchain()?;
        check.args(["-Z", "build-std=std,panic_abort"]);
        check.env("RUSTC", &toolchain.rustc).env("RUSTC_BOOTSTRAP", "1");
        check.env("__CARGO_TESTS_ONLY_SRC_ROOT", &toolchain.library);
    }
    shell::run(&mut check)?;
    println!("wasm: `{PURE}` and all that it depends on compile for {TARGET}");
    Ok(())
}

/// Returns whether the active toolchain has the standard library for WebAssembly.
fn has_standard_library() -> Result<bool> {
    let mut ask = shell::command("rustc --print target-libdir --target");
    let folder = shell::read(ask.arg(TARGET))?;
    Ok(Path::new(folder.trim()).is_dir())
}

struct Toolchain {
    rustc: PathBuf,
    library: PathBuf,
}

/// Unpacks Debian's compiler for WebAssembly, unless that was done before.
fn debian_toolchain() -> Result<Toolchain> {
    let root = Path::new(TOOLCHAIN);
    let rustc = root.join("rustc");
    if !rustc.exists() {
        unpack(root)?;
    }
    let sources = fs::read_dir(root.join("usr/src")).context("the sources are not there")?;
    let mut sources: Vec<PathBuf> = sources.flatten().map(|it| it.path()).collect();
    sources.retain(|it| it.join("library").is_dir());
    sources.sort();
    let library = sources.pop().context("the package with the library's sources is empty")?;
    Ok(Toolchain { rustc, library: library.join("library") })
}

/// Returns the package that a package depends on, by the beginning of its name.
fn dependency(package: &str, prefix: &str) -> Result<String> {
    let shown = shell::read(shell::command("apt-cache depends").arg(package))?;
    let mut names = shown.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let found = names.find(|name| name.starts_with(prefix)).map(str::to_owned);
    found.with_context(|| format!("`{package}` depends on nothing named `{prefix}…`"))
}

fn unpack(root: &Path) -> Result<()> {
    let packages = root.join("packages");
    fs::create_dir_all(&packages)?;
    // An old list of packages has an old compiler, which does not know our edition.
    shell::run(&mut shell::command("apt-get update -qq"))?;
    let standard = dependency("libstd-rust-web-dev", "libstd-rust-web")?;
    let llvm = dependency(&standard, "libllvm")?;
    let lld = llvm.replacen("libllvm", "lld-", 1);
    let wanted = ["rustc-web", "libstd-rust-web-dev", &standard, "rust-web-src", &llvm, &lld];
    for package in wanted {
        shell::run(shell::command("apt-get download").arg(package).current_dir(&packages))?;
    }
    for file in fs::read_dir(&packages)?.flatten() {
        shell::run(Command::new("dpkg").arg("-x").arg(file.path()).arg(root))?;
    }
    let bin = root.join("usr/bin");
    std::os::unix::fs::symlink(bin.join(&lld), root.join("rust-lld"))?;
    let library = root.join("usr/lib/x86_64-linux-gnu");
    let wrapper = format!(
        "#!/bin/sh\nexport LD_LIBRARY_PATH={}:{}/usr/lib\nexport PATH={}:{}:$PATH\nexec {}/rustc \"$@\"\n",
        library.display(),
        root.display(),
        root.display(),
        bin.display(),
        bin.display()
    );
    // Written last: it marks a toolchain that is complete.
    let rustc = root.join("rustc");
    fs::write(&rustc, wrapper)?;
    shell::run(Command::new("chmod").arg("+x").arg(&rustc))
}

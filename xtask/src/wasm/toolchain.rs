//! The compiler for WebAssembly.
//!
//! The standard library for wasm32 comes from the active toolchain, if it has one; else from
//! Debian's packages, unpacked into a private folder with nothing installed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::TARGET;
use crate::shell;

/// One fixed place: the path enters the hashes of symbols.
const FOLDER: &str = "/var/tmp/threadfold-wasm-toolchain";

/// A compiler that can build for WebAssembly.
pub(super) enum Toolchain {
    /// The active one.
    Active { version: String },
    /// Debian's.
    Debian { version: String, rustc: PathBuf, library: PathBuf },
}

impl Toolchain {
    pub(super) fn find() -> Result<Self> {
        if has_standard_library()? {
            let version = shell::read(&mut shell::command("rustc --version"))?.trim().to_owned();
            return Ok(Self::Active { version });
        }
        let root = Path::new(FOLDER);
        let rustc = root.join("rustc");
        if !rustc.exists() {
            unpack(root)?;
        }
        let sources = fs::read_dir(root.join("usr/src")).context("the sources are not there")?;
        let mut sources: Vec<PathBuf> = sources.flatten().map(|it| it.path()).collect();
        sources.retain(|it| it.join("library").is_dir());
        sources.sort();
        let library = sources.pop().context("the package with the library's sources is empty")?;
        let version = shell::read(Command::new(&rustc).arg("--version"))?.trim().to_owned();
        Ok(Self::Debian { version, rustc, library: library.join("library") })
    }

    /// Returns the version of the compiler, and where it is from.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Active { version } => version.clone(),
            Self::Debian { version, .. } => format!("Debian's {version}"),
        }
    }

    /// Returns cargo with this compiler, for WebAssembly.
    pub(super) fn cargo(&self, task: &str) -> Result<Command> {
        let mut command = Command::new("cargo");
        command.current_dir(shell::root()).arg(task).args(["--locked", "--target", TARGET]);
        command.arg("--target-dir").arg(shell::target()?.join("wasm"));
        command.env("CARGO_INCREMENTAL", "0");
        let mut flags = vec![
            format!("--remap-path-prefix={}=/threadfold", shell::root().display()),
            format!("--remap-path-prefix={}=/cargo", cargo_home()?.display()),
        ];
        if let Self::Debian { rustc, library, .. } = self {
            command.args(["-Z", "build-std=std,panic_abort"]);
            command.env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "1");
            command.env("__CARGO_TESTS_ONLY_SRC_ROOT", library);
            flags.push(format!("--remap-path-prefix={}=/library", library.display()));
            // A panic is a trap, and there is nobody to print its message to.
            flags.push("-Zunstable-options".to_owned());
            flags.push("-Cpanic=immediate-abort".to_owned());
        }
        // One flag may contain spaces, so they are separated by something else.
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        Ok(command)
    }
}

fn cargo_home() -> Result<PathBuf> {
    let own = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    own.or_else(home).context("neither `CARGO_HOME` nor `HOME` is set")
}

/// Returns whether the active toolchain has the standard library for WebAssembly.
fn has_standard_library() -> Result<bool> {
    let mut ask = shell::command("rustc --print target-libdir --target");
    let folder = shell::read(ask.arg(TARGET))?;
    Ok(Path::new(folder.trim()).is_dir())
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

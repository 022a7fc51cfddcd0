//! Opens the browser.
//!
//! The link has the token, and other users see the arguments of a process: so the browser is given a
//! file that only this user can read, which leads to the link.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use threadfold_export::create_private;

use crate::error::print_note;

/// Opens a link in the browser. A failure is reported, and the server goes on.
pub(super) fn open(link: &str, token_path: &Path) {
    if let Err(error) = try_open(link, token_path) {
        print_note(format_args!("the browser cannot be opened: {error}"));
    }
}

fn try_open(link: &str, token_path: &Path) -> io::Result<()> {
    let page = token_path.with_extension("open.html");
    if fs::exists(&page)? {
        fs::remove_file(&page)?;
    }
    let refresh = format!("<meta http-equiv=\"refresh\" content=\"0;url={link}\">\n");
    create_private(&page)?.write_all(refresh.as_bytes())?;
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = match cfg!(windows) {
        true => Command::new("explorer"),
        false => Command::new(program),
    };
    command.arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}

//! The files of the page, as they are in the program.
//!
//! They are built from `web` by `cargo xtask web` and committed, so that nobody needs Node to build
//! the server. Each is compressed once, then, and sent as it is. A program that is built for debugging
//! reads them from the source folder instead, so that the page can change without it.

use rust_embed::RustEmbed;
use std::borrow::Cow;

#[derive(RustEmbed)]
#[folder = "assets/"]
#[allow_missing = true]
struct Files;

/// A file of the page, compressed with gzip.
pub(crate) struct PageFile {
    pub(crate) compressed: Cow<'static, [u8]>,
    pub(crate) media_type: &'static str,
}

/// Returns a file of the page by its name, such as `index.html`.
pub(crate) fn find(name: &str) -> Option<PageFile> {
    let file = Files::get(&format!("{name}.gz"))?;
    Some(PageFile { compressed: file.data, media_type: media_type(name) })
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    }
}

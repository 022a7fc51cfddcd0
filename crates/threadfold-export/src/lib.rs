//! Stored sessions in other formats, and untrusted text made safe to show.
//!
//! ```text
//! store ─► originals, events, state ─► files, JSON lines, JSON, Markdown
//! └ threadfold-engine ┘└─────────────── this crate ───────────────────┘
//! ```
//!
//! The program and the server write the same bytes, because both call this crate.
//!
//! ```
//! use threadfold_export::ExportFormat;
//!
//! assert_eq!(ExportFormat::from_name("markdown"), Some(ExportFormat::Markdown));
//! assert_eq!(threadfold_export::file_name("../x"), "..%2Fx");
//! ```
//!
//! # What it does not do
//!
//! It opens no store and prints nothing: whoever calls it passes both.

pub mod call;
pub mod content;
mod escape;
pub mod excerpt;
mod file_name;
mod format;
mod markdown;
pub mod numbers;
pub mod path;
pub mod printable;
mod script;
mod session_files;
pub mod width;

pub use file_name::file_name;
pub use format::{ExportFormat, LoneFileError, write_export, write_lone_file, write_original};
pub use markdown::write_markdown;
pub use session_files::{
    SourceWriter, UsedPaths, WrittenFile, below, beside, create_private, has_files, lone_file,
    move_into,
};

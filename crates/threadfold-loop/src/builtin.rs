//! The built-in tools: they read and change the files of one folder, and run commands in it.
//!
//! | tool | does | effect of running it twice |
//! |---|---|---|
//! | `read` | shows a file | [`Effect::Pure`] |
//! | `list` | shows what is in a folder | [`Effect::Pure`] |
//! | `search` | finds lines in files | [`Effect::Pure`] |
//! | `write` | replaces a file as a whole | [`Effect::Idempotent`] |
//! | `edit` | replaces a text in a file | [`Effect::Probe`]: it checks whether that was done |
//! | `shell` | runs a command | [`Effect::Unsafe`] |
//!
//! The file tools cannot leave the folder, whatever the model asks for and whatever links are in
//! the way. `shell` only starts there.
//!
//! [`Effect::Pure`]: crate::Effect::Pure
//! [`Effect::Idempotent`]: crate::Effect::Idempotent
//! [`Effect::Probe`]: crate::Effect::Probe
//! [`Effect::Unsafe`]: crate::Effect::Unsafe

mod blocking;
mod call_mark;
mod clip;
mod edit;
mod folder;
mod lines;
mod list;
#[cfg(unix)]
mod process_group;
mod read;
mod replace_file;
mod search;
#[cfg(unix)]
mod shell;
mod walk;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use threadfold_core::Effect;

use crate::tool::{Probe, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput};

pub use folder::Folder;
#[cfg(unix)]
pub use shell::{CALL_VARIABLE, end_leftovers};

#[cfg(unix)]
pub(crate) use blocking::Stop;
#[cfg(unix)]
pub(crate) use clip::shorten;
#[cfg(unix)]
pub(crate) use process_group::ProcessGroup;
#[cfg(unix)]
pub(crate) use read::is_shown_image;

/// The maximum size of an error message in bytes.
const MESSAGE: usize = 2_000;

/// Returns all built-in tools, for `folder`.
pub fn builtin_tools(folder: &Folder) -> Vec<Arc<dyn Tool>> {
    vec![
        truncated_errors(read::tool(folder)),
        truncated_errors(list::tool(folder)),
        truncated_errors(search::tool(folder)),
        truncated_errors(write::tool(folder)),
        truncated_errors(edit::tool(folder)),
        // Not truncated here: its errors may contain a command's output, which has a limit of its
        // own.
        #[cfg(unix)]
        Arc::new(shell::tool(folder)),
    ]
}

/// Returns the built-in tool with this name, for `folder`.
///
/// ```
/// use threadfold_loop::{Effect, Folder, builtin_tool};
///
/// let folder = Folder::open(".")?;
/// let read = builtin_tool(&folder, "read").expect("there is one");
/// assert_eq!(read.effect(), Effect::Pure);
/// assert!(builtin_tool(&folder, "fly").is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn builtin_tool(folder: &Folder, name: &str) -> Option<Arc<dyn Tool>> {
    builtin_tools(folder).into_iter().find(|it| it.definition().name == name)
}

fn truncated_errors(tool: impl Tool + 'static) -> Arc<dyn Tool> {
    Arc::new(TruncatedErrors(tool))
}

/// A tool with truncated error messages, because they may quote the model's input.
struct TruncatedErrors<T>(T);

#[async_trait]
impl<T: Tool> Tool for TruncatedErrors<T> {
    fn definition(&self) -> ToolDefinition {
        self.0.definition()
    }

    fn effect(&self) -> Effect {
        self.0.effect()
    }

    async fn call(&self, arguments: &str, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.call(arguments, context).await.map_err(cut)
    }

    async fn probe(&self, arguments: &str, context: &ToolContext) -> Result<Probe, ToolError> {
        self.0.probe(arguments, context).await.map_err(cut)
    }

    async fn undo(&self, arguments: &str, context: &ToolContext) -> Result<(), ToolError> {
        self.0.undo(arguments, context).await.map_err(cut)
    }
}

fn cut(error: ToolError) -> ToolError {
    ToolError { message: shorten(&error.message, MESSAGE), ..error }
}

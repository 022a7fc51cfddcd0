//! `write`: replaces a whole file.

use schemars::JsonSchema;
use serde::Deserialize;
use threadfold_core::Effect;

use super::blocking;
use super::folder::{Folder, shown};
use super::replace_file::{Mark, replace};
use crate::tool::{self, Tool, ToolContext, ToolError, ToolOutput};

const DESCRIPTION: &str = "Creates a file and its parent folders, or replaces its content \
    atomically. An existing file keeps its mode. Use `edit` for small changes to large files.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the folder.
    path: String,
    /// The complete content.
    content: String,
}

pub(super) fn tool(folder: &Folder) -> impl Tool + use<> {
    let folder = folder.clone();
    tool::tool("write", DESCRIPTION, move |arguments: Arguments, context: ToolContext| {
        let folder = folder.clone();
        async move {
            let key = context.key.clone();
            blocking::change(&context, move || {
                let Arguments { path, content } = &arguments;
                let _alone = folder.change();
                replace(&folder, path, content.as_bytes(), &key, Mark::No)?;
                Ok::<ToolOutput, ToolError>(
                    format!("wrote {} bytes to `{}`", content.len(), shown(path)).into(),
                )
            })
            .await
        }
    })
    .effect(Effect::Idempotent)
}

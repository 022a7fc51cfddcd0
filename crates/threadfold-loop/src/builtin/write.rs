//! `write`: replaces a whole file.

use schemars::JsonSchema;
use serde::Deserialize;
use threadfold_core::Effect;

use super::folder::{Folder, shown};
use super::replace::{Mark, replace};
use super::task;
use crate::tool::{self, Tool, ToolContext, ToolError, ToolOutput};

const DESCRIPTION: &str = "Writes a file of the folder: makes it, with the folders that lead to \
    it, or replaces all of its content at once. The mode of a file that was there is kept. For a \
    small change of a large file use `edit`.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the folder.
    path: String,
    /// All of its content.
    content: String,
}

pub(super) fn tool(folder: &Folder) -> impl Tool + use<> {
    let folder = folder.clone();
    tool::tool("write", DESCRIPTION, move |arguments: Arguments, context: ToolContext| {
        let folder = folder.clone();
        async move {
            let key = context.key.clone();
            task::change(&context, move || {
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

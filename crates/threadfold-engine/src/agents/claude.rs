//! Claude Code: one file per session, in one folder per project.

mod beside;
mod content;
mod enumerate;
mod files;
mod places;
mod unread;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use threadfold_fold::{Agent, Detection, Shape};

use self::beside::SubagentsBeside;
use self::content::ClaudeContent;
use super::{AgentAccess, Machine, other};
use crate::discover::{Discovery, FolderTree};
use crate::files::Form;
use crate::found_session::FoundSession;
use crate::open_path::{InputError, InputOptions, name_file, single_file};
use crate::unread::UnreadContent;

pub use files::claude_files;

/// Claude Code.
pub(crate) struct Claude;

/// The prefix of a subagent's file name.
const SUBAGENT: &str = "agent-";

impl AgentAccess for Claude {
    fn agent(&self) -> Agent {
        threadfold_convert::claude::AGENT
    }

    fn variables(&self) -> &'static [&'static str] {
        places::VARIABLES
    }

    fn places(&self, machine: &Machine<'_>) -> Vec<PathBuf> {
        places::places(machine)
    }

    fn enumerate(&self, place: &Path, found: &mut Discovery) {
        enumerate::place(place, found);
    }

    fn unread(&self, place: &Path) -> Vec<UnreadContent> {
        unread::unread(place)
    }

    fn claim(&self, tree: &mut FolderTree, found: &mut Discovery) {
        enumerate::claim(tree, found);
        enumerate::orphans(tree, found);
    }

    fn open(
        &self,
        path: &Path,
        input: Detection,
        options: &InputOptions<'_>,
    ) -> Result<Vec<FoundSession>, InputError> {
        open_among(path, input, options, None)
    }

    /// Claude Code names a project's folder after its path, with every character other than ASCII
    /// letters and digits replaced by `-`. The part that stands for the home folder is omitted.
    fn project_from_path(&self, main: &Path, home: &Path) -> Option<String> {
        let folder = main.parent()?.file_name()?.to_string_lossy().into_owned();
        let mangled = home.to_string_lossy().replace(|it: char| !it.is_ascii_alphanumeric(), "-");
        let inside = folder.strip_prefix(&mangled).unwrap_or(&folder).trim_start_matches('-');
        Some(if inside.is_empty() { folder.clone() } else { inside.to_owned() })
    }

    fn keeps_files_below(&self, folder_name: &str) -> bool {
        self.agent().is_session_name(folder_name)
    }
}

/// Opens a file of Claude Code; the subagents' files beside it are among the known ones, if those
/// are given.
fn open_among(
    path: &Path,
    input: Detection,
    options: &InputOptions<'_>,
    beside: Option<Arc<SubagentsBeside>>,
) -> Result<Vec<FoundSession>, InputError> {
    let file = single_file(path, input)?;
    if input.shape() != Shape::Transcript || file.form == Form::Document {
        return other::open_file(file, input, options);
    }
    if options.session.is_some() {
        return Err(InputError::OneSession { path: path.to_owned() });
    }
    let (id, naming) = name_file(path, input, Form::Lines)?;
    let content = match beside {
        Some(beside) => ClaudeContent::among(path, beside),
        None => ClaudeContent::of_main(path),
    };
    Ok(vec![FoundSession {
        id,
        naming,
        agent: input.agent,
        project: project_of(path),
        place: path.to_owned(),
        parent: None,
        content: Arc::new(content),
    }])
}

fn project_of(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    folder.to_string_lossy().into_owned()
}

//! Claude Code: a file for each session, in a folder for each project.

mod content;
mod discover;
mod files;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use threadfold_fold::{Agent, Detection, Shape};

use self::content::ClaudeContent;
use super::{AgentHome, Machine, other};
use crate::discover::{Discovery, FolderTree};
use crate::files::Form;
use crate::found::{FoundSession, Naming};
use crate::input::{InputError, InputOptions, name_file, single_file};

pub use files::claude_files;

/// Claude Code.
pub(crate) struct Claude;

/// How the file of a subagent begins.
const SUBAGENT: &str = "agent-";

impl AgentHome for Claude {
    fn agent(&self) -> Agent {
        threadfold_convert::claude::AGENT
    }

    fn variables(&self) -> &'static [&'static str] {
        &["CLAUDE_CONFIG_DIR"]
    }

    fn places(&self, machine: &Machine<'_>) -> Vec<PathBuf> {
        let configured = machine.folder("CLAUDE_CONFIG_DIR");
        vec![configured.unwrap_or_else(|| machine.home.join(".claude")).join("projects")]
    }

    fn enumerate(&self, place: &Path, found: &mut Discovery) {
        discover::projects(place, found);
    }

    fn enumerate_orphans(&self, place: &Path, found: &mut Discovery) {
        let mut tree = FolderTree::read(place);
        tree.remove_claimed(found);
        discover::orphans(&mut tree, found);
    }

    fn claim(&self, tree: &mut FolderTree, found: &mut Discovery) {
        discover::claim(tree, found);
        discover::orphans(tree, found);
    }

    fn open(
        &self,
        path: &Path,
        input: Detection,
        options: &InputOptions<'_>,
    ) -> Result<Vec<FoundSession>, InputError> {
        let file = single_file(path, input)?;
        if input.shape() != Shape::Transcript || file.form == Form::Document {
            return other::open_file(file, input, options);
        }
        if options.session.is_some() {
            return Err(InputError::OneSession { path: path.to_owned() });
        }
        let (id, naming) = match subagent_name(path) {
            // Its lines name the session that started it, which is not the one that it is.
            Some(name) => (name.into(), Naming::Content),
            None => name_file(path, input, Form::Lines)?,
        };
        Ok(vec![FoundSession {
            id,
            naming,
            agent: input.agent,
            project: project_of(path),
            place: path.to_owned(),
            parent: None,
            content: Arc::new(ClaudeContent::of_main(path)),
        }])
    }

    /// Claude Code names the folder of a project after where it is, other letters than ASCII ones
    /// and digits replaced by `-`. What stands for the home folder is left out.
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

/// Returns the name of a subagent's file.
fn subagent_name(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_string_lossy();
    stem.starts_with(SUBAGENT).then(|| stem.into_owned())
}

fn project_of(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    folder.to_string_lossy().into_owned()
}

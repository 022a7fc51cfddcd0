//! Codex: one file per thread, in one folder per day.

mod compressed;
mod content;
mod enumerate;
mod heads;
mod places;
mod unread;

use std::path::{Path, PathBuf};

use threadfold_fold::{Agent, Detection, Shape};

use super::{AgentAccess, Machine, other};
use crate::discover::{Discovery, FolderTree, folders_below};
use crate::files::Form;
use crate::found_session::FoundSession;
use crate::open_path::{InputError, InputOptions, is_packed_file, single_file};
use crate::unread::UnreadContent;

/// Codex.
pub(crate) struct Codex;

impl AgentAccess for Codex {
    fn agent(&self) -> Agent {
        threadfold_convert::codex::AGENT
    }

    fn variables(&self) -> &'static [&'static str] {
        places::VARIABLES
    }

    fn places(&self, machine: &Machine<'_>) -> Vec<PathBuf> {
        places::places(machine)
    }

    fn restore_folders(&self, machine: &Machine<'_>) -> Vec<PathBuf> {
        places::restore_folders(machine)
    }

    fn enumerate(&self, place: &Path, found: &mut Discovery) {
        enumerate::place(place, found);
    }

    fn watched(&self, place: &Path) -> Vec<PathBuf> {
        // Sessions are in folders by year, month and day.
        let below = places::FOLDERS.iter().flat_map(|it| folders_below(&place.join(it), 3));
        std::iter::once(place.to_owned()).chain(below).collect()
    }

    fn unread(&self, place: &Path) -> Vec<UnreadContent> {
        unread::unread(place)
    }

    fn claim(&self, tree: &mut FolderTree, found: &mut Discovery) {
        enumerate::claim(tree, found);
    }

    fn packs(&self, input: Detection) -> bool {
        input.shape() == Shape::Transcript
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
        match enumerate::session_of_file(path) {
            Some(session) => Ok(vec![session]),
            None if is_packed_file(path)? => Ok(vec![enumerate::session_of_packed(path, input)?]),
            // Its first record is missing, so nothing tells which files belong to it.
            None => other::open_file(file, input, options),
        }
    }
}

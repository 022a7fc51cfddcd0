//! Files without a special layout: each holds one session. Any agent's module may use this.

use std::path::Path;
use std::sync::Arc;

use threadfold_core::SessionId;
use threadfold_fold::{Agent, Detection};

use super::AgentAccess;
use crate::files::{FileSet, InputFile};
use crate::found_session::{FoundSession, IdOrigin};
use crate::open_path::{InputError, InputOptions, name_file, single_file};

/// Unknown agents, and Threadfold's own events.
pub(crate) struct Other;

impl AgentAccess for Other {
    fn agent(&self) -> Agent {
        Agent::unknown()
    }

    fn open(
        &self,
        path: &Path,
        input: Detection,
        options: &InputOptions<'_>,
    ) -> Result<Vec<FoundSession>, InputError> {
        open_file(single_file(path, input)?, input, options)
    }
}

/// Returns the session in one file.
pub(crate) fn open_file(
    file: InputFile,
    input: Detection,
    options: &InputOptions<'_>,
) -> Result<Vec<FoundSession>, InputError> {
    if options.session.is_some() {
        return Err(InputError::OneSession { path: file.path });
    }
    let (id, naming) = name_file(&file.path, input, file.form)?;
    Ok(vec![session_of(file, input, id, naming)])
}

/// Returns the session with this id in one file.
pub(crate) fn session_of(
    file: InputFile,
    input: Detection,
    id: SessionId,
    naming: IdOrigin,
) -> FoundSession {
    FoundSession {
        id,
        naming,
        agent: input.agent,
        project: String::new(),
        place: file.path.clone(),
        parent: None,
        content: Arc::new(FileSet::new(vec![file])),
    }
}

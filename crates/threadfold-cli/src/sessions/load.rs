//! Reading a session: lines to events to state, with what is known of it as a whole.

use std::path::Path;

use threadfold_core::{ConversationState, Outcome, SessionEvent, SessionMetadata};

use crate::error::CommandError;
use crate::input::Input;
use crate::source::{Format, Opened, open};

use super::{FoundSession, Kept};

/// A session that was read.
#[derive(Default)]
pub(crate) struct Loaded {
    /// Its conversations.
    pub(crate) state: ConversationState,
    /// What is known of it as a whole.
    pub(crate) metadata: SessionMetadata,
    /// How many events told it.
    pub(crate) events: u64,
}

/// Reads a session that was found, with its subagents.
pub(crate) fn load_session(session: &FoundSession) -> Result<Loaded, CommandError> {
    match &session.kept {
        Kept::File { may_have_subagents } => {
            let mut opened = open(Some(&session.main), Some(Format::ClaudeTranscript))?;
            if !may_have_subagents {
                // Without a path nobody looks beside it; in a folder of thousands that takes long.
                opened.path = None;
            }
            convert(opened)
        }
        Kept::Shelf { shelf, .. } => {
            let opened = Opened::on_shelf(shelf.clone(), &session.main);
            convert(opened.of_session(Some(&session.id))?)
        }
    }
}

/// Reads a session from a file, or `-` for standard input, whatever it is told as: a transcript,
/// a stream, a database or events. Where it holds several, `session` is the one.
pub(crate) fn load_file(
    file: &Path,
    from: Option<Format>,
    session: Option<&str>,
) -> Result<Loaded, CommandError> {
    let opened = open(Some(file), from)?.of_session(session)?;
    if opened.format.agent().is_some() {
        return convert(opened);
    }
    let mut loaded = Loaded::default();
    let mut input = Input::new(opened.name, opened.reader);
    while let Some(line) = input.next_line()? {
        let text = String::from_utf8_lossy(line).into_owned();
        match SessionEvent::from_json(&text) {
            Ok(event) => loaded.hear(&event),
            Err(_) if text.trim_ascii().is_empty() => {}
            Err(error) => {
                let place = format!("line {} of {} is no event", input.number(), input.name());
                return Err(CommandError::new(
                    anyhow::Error::new(error).context(place),
                    "give what Claude Code or OpenCode streams or keeps, or a file of events",
                ));
            }
        }
    }
    Ok(loaded)
}

fn convert(opened: Opened) -> Result<Loaded, CommandError> {
    let mut loaded = Loaded::default();
    opened.convert(&mut |_, event| {
        loaded.hear(event);
        Ok(())
    })?;
    Ok(loaded)
}

impl Loaded {
    fn hear(&mut self, event: &SessionEvent) {
        self.events += 1;
        let _odd_events_are_told_by_fold: Outcome = self.state.apply(event);
        self.metadata.apply(event);
    }
}

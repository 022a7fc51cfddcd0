//! Reading a session: bytes to events to state, with what is known of it as a whole.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::anyhow;
use serde::Deserialize;
use threadfold_convert::lines::lines;
use threadfold_convert::{
    Agent, Converter, Feed, FeedKind, Record, SessionFile, convert_files, converter,
};
use threadfold_core::{ConversationState, Outcome, SessionEvent, SessionMetadata};

use crate::error::{CommandError, say};

use super::FoundSession;

/// A session that was read.
#[derive(Default)]
pub(crate) struct Loaded {
    /// Its conversations.
    pub(crate) state: ConversationState,
    /// What is known of it as a whole.
    pub(crate) metadata: SessionMetadata,
}

/// What some lines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Stream,
    Transcript,
    Events,
}

/// Reads a session. A subagent's file that cannot be read is said and left out.
pub(crate) fn load(session: &FoundSession) -> Result<Loaded, CommandError> {
    let main = read(&session.main)?;
    let mut loaded = Loaded::default();
    let kind = kind(&main);
    if kind != Kind::Transcript {
        loaded.hear_lines(kind, &session.main.display().to_string(), &main);
        return Ok(loaded);
    }
    let mut contents = vec![main];
    let mut names = Vec::new();
    for (place, (name, path)) in session.files().into_iter().enumerate() {
        if place == 0 {
            names.push(name);
            continue;
        }
        match fs::read(path) {
            Ok(bytes) => {
                contents.push(bytes);
                names.push(name);
            }
            Err(error) => say(format_args!("left out `{}`: {error}", path.display())),
        }
    }
    let files: Vec<_> =
        names.iter().zip(&contents).map(|(path, bytes)| SessionFile { path, bytes }).collect();
    let mut converter = converter(Agent::Claude);
    convert_files(Agent::Claude, converter.as_mut(), &files, |events| loaded.hear(events));
    Ok(loaded)
}

/// Reads a session from standard input, whatever it is told as.
pub(crate) fn load_stdin() -> Result<Loaded, CommandError> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(|error| unreadable("standard input", error))?;
    if lines(&bytes).next().is_none() {
        return Err(CommandError::new(
            anyhow!("standard input is empty"),
            "pipe in a stream of Claude Code, or lines of a transcript",
        ));
    }
    let mut loaded = Loaded::default();
    loaded.hear_lines(kind(&bytes), "stdin", &bytes);
    Ok(loaded)
}

impl Loaded {
    fn hear(&mut self, events: &[SessionEvent]) {
        for event in events {
            let _told_by_fold: Outcome = self.state.apply(event);
            self.metadata.apply(event);
        }
    }

    fn hear_lines(&mut self, kind: Kind, name: &str, bytes: &[u8]) {
        let feed_kind = match kind {
            Kind::Events => return self.hear_events(bytes),
            Kind::Stream => FeedKind::Stream,
            Kind::Transcript => FeedKind::Main,
        };
        let feed = Feed::new(Agent::Claude, feed_kind, name);
        let mut converter: Box<dyn Converter> = converter(Agent::Claude);
        let mut events = Vec::new();
        for line in lines(bytes) {
            converter
                .push(&Record { feed: &feed, line: line.number, bytes: line.bytes }, &mut events);
            self.hear(&events);
            events.clear();
        }
        converter.finish(&feed, &mut events);
        self.hear(&events);
    }

    fn hear_events(&mut self, bytes: &[u8]) {
        for line in lines(bytes) {
            let text = String::from_utf8_lossy(line.bytes);
            match SessionEvent::from_json(&text) {
                Ok(event) => self.hear(&[event]),
                Err(error) => say(format_args!("line {} is not an event: {error}", line.number)),
            }
        }
    }
}

/// Finds out what lines are, by the first that can only be one of them.
fn kind(bytes: &[u8]) -> Kind {
    #[derive(Deserialize)]
    struct Mark {
        #[serde(rename = "type")]
        kind: Option<String>,
        subtype: Option<String>,
        #[serde(rename = "sessionId")]
        file_session: Option<String>,
        session_id: Option<String>,
    }
    let mut guess = Kind::Transcript;
    for line in lines(bytes).take(64) {
        let Ok(mark) = serde_json::from_slice::<Mark>(line.bytes) else { continue };
        match (mark.kind.as_deref().unwrap_or(""), mark.subtype.as_deref()) {
            _ if mark.file_session.is_some() => return Kind::Transcript,
            ("stream_event" | "result", _) | ("system", Some("init")) => return Kind::Stream,
            (kind, _) if kind.contains(':') => return Kind::Events,
            _ if mark.session_id.is_some() => guess = Kind::Stream,
            _ => {}
        }
    }
    guess
}

fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    fs::read(path).map_err(|error| unreadable(&format!("`{}`", path.display()), error))
}

fn unreadable(name: &str, error: io::Error) -> CommandError {
    CommandError::new(
        anyhow::Error::new(error).context(format!("{name} cannot be read")),
        "`threadfold list` shows the sessions on this machine",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_tell_by_themselves_what_they_are() {
        let cases = [
            (r#"{"type":"stream_event","session_id":"s"}"#, Kind::Stream),
            (r#"{"type":"system","subtype":"init","session_id":"s"}"#, Kind::Stream),
            (r#"{"type":"result","subtype":"success"}"#, Kind::Stream),
            (r#"{"type":"assistant","session_id":"s"}"#, Kind::Stream),
            (r#"{"type":"user","sessionId":"s","session_id":"s"}"#, Kind::Transcript),
            ("{\"type\":\"summary\"}\n{\"type\":\"user\",\"sessionId\":\"s\"}", Kind::Transcript),
            (r#"{"type":"block:upsert"}"#, Kind::Events),
            ("not JSON\n{\"type\":\"result\"}", Kind::Stream),
            ("", Kind::Transcript),
        ];
        for (text, expected) in cases {
            assert_eq!(kind(text.as_bytes()), expected, "{text}");
        }
    }
}

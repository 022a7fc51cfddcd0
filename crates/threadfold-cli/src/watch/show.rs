//! How a session that goes on is shown: as text, or as lines of JSON.

use std::io::{self, Stdout, Write};

use serde::Serialize;
use threadfold_core::{Change, ConversationState, SessionMetadata};
use threadfold_engine::{FolderNews, Heard, SessionHandle, SessionSummary};

use crate::printable::{one_line, write_json};
use crate::view::{Live, Shown, count};

/// How it is shown.
#[derive(Clone, Copy)]
pub(crate) enum Output {
    /// One line for the state, and one for each record's changes.
    Json,
    /// For people.
    Text { width: usize, is_coloured: bool, is_terminal: bool, shown: Shown },
}

/// Shows a session on standard output.
pub(super) enum Show {
    Json(Stdout),
    Text(Box<Live<Stdout>>),
}

/// A state, as a line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StateLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    session_id: &'a str,
    cursor: &'a str,
    state: &'a ConversationState,
}

/// What one record changed, as a line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StepLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    session_id: &'a str,
    cursor: &'a str,
    seq: u64,
    changes: &'a [Change],
}

/// What a session of a folder gained, or what is wrong with it or with a folder, as a line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewsLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    path: &'a str,
    records: Option<u64>,
    error: Option<String>,
    #[serde(flatten)]
    summary: Option<&'a SessionSummary>,
}

impl Show {
    pub(super) fn new(output: Output) -> Self {
        match output {
            Output::Json => Self::Json(io::stdout()),
            Output::Text { width, is_coloured, is_terminal, shown } => {
                let live = Live::new(io::stdout(), width, is_coloured, shown, is_terminal);
                Self::Text(Box::new(live))
            }
        }
    }

    /// Shows a session until nobody writes it any more.
    pub(super) async fn follow(mut self, handle: SessionHandle) -> io::Result<()> {
        let (seq, state) = handle.conversation();
        let mut listener = handle.listen(&handle.cursor_at(seq));
        let session = handle.session().to_string();
        let cursor = |seq: u64| handle.cursor_at(seq).to_string();
        self.state(&session, &cursor(seq), &state, &handle.metadata())?;
        loop {
            match listener.next().await {
                Heard::Ended => return self.end(),
                Heard::Gap { seq, conversation } => {
                    self.state(&session, &cursor(seq), &conversation, &handle.metadata())?;
                }
                Heard::Steps(steps) => {
                    let (_, state) = handle.conversation();
                    let steps = steps.iter().map(|step| (step.seq, step.changes.as_slice()));
                    self.steps(&session, &cursor, steps, &state, &handle.metadata())?;
                }
            }
        }
    }

    pub(super) fn state(
        &mut self,
        session: &str,
        cursor: &str,
        state: &ConversationState,
        metadata: &SessionMetadata,
    ) -> io::Result<()> {
        match self {
            Self::Json(out) => {
                let line = StateLine { kind: "state", session_id: session, cursor, state };
                write_line(out, &line)
            }
            Self::Text(live) => live.catch_up(state, metadata),
        }
    }

    pub(super) fn steps<'s>(
        &mut self,
        session: &str,
        cursor: &dyn Fn(u64) -> String,
        steps: impl Iterator<Item = (u64, &'s [Change])>,
        state: &ConversationState,
        metadata: &SessionMetadata,
    ) -> io::Result<()> {
        match self {
            Self::Json(out) => {
                for (seq, changes) in steps {
                    let cursor = cursor(seq);
                    let line = StepLine {
                        kind: "changes",
                        session_id: session,
                        cursor: &cursor,
                        seq,
                        changes,
                    };
                    write_line(out, &line)?;
                }
                Ok(())
            }
            Self::Text(live) => {
                live.follow(steps.flat_map(|(_, changes)| changes), state, metadata)
            }
        }
    }

    /// Tells what a session of a folder gained, or what is wrong.
    pub(super) fn news(
        &mut self,
        news: &FolderNews,
        summary: Option<&SessionSummary>,
    ) -> io::Result<()> {
        match self {
            Self::Json(out) => {
                let line = NewsLine {
                    kind: if news.session.is_some() { "session" } else { "folder" },
                    session_id: news.session.as_ref().map(|session| session.as_str()),
                    path: &news.path.to_string_lossy(),
                    records: news.taken.as_ref().ok().map(|taken| taken.records),
                    error: news.taken.as_ref().err().map(ToString::to_string),
                    summary,
                };
                write_line(out, &line)
            }
            Self::Text(live) => {
                let title = summary.and_then(|it| it.title.as_ref().or(it.first_prompt.as_ref()));
                let title = title.map(|title| format!("  {}", one_line(title))).unwrap_or_default();
                let gained = match &news.taken {
                    Ok(taken) => {
                        let records = usize::try_from(taken.records).unwrap_or(usize::MAX);
                        format!("+{}", count(records, "record", "records"))
                    }
                    Err(error) => one_line(&error.to_string()),
                };
                match &news.session {
                    Some(session) => live.note(&format!("{session}  {gained}{title}")),
                    None => live.note(&gained),
                }
            }
        }
    }

    fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Json(out) => out.flush(),
            Self::Text(live) => live.end(),
        }
    }
}

fn write_line<T: Serialize>(out: &mut Stdout, line: &T) -> io::Result<()> {
    let mut out = out.lock();
    write_json(&mut out, line)?;
    writeln!(out)?;
    out.flush()
}

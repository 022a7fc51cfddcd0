//! How a session that goes on is shown: as text, or as lines of JSON.

use std::io::{self, Stdout, Write};

use serde::Serialize;
use threadfold_engine::{Arrival, FolderUpdate, FrameListener};
use threadfold_fold::SessionSummary;

use crate::printable::{one_line, write_json, write_json_text};
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

    /// Shows a session until nothing more follows.
    pub(super) async fn follow(mut self, mut listener: FrameListener) -> io::Result<()> {
        loop {
            match &mut self {
                Self::Json(out) => {
                    let frames = listener.next_frames().await;
                    let is_last = frames.last().is_some_and(|it| it.starts_with(END));
                    for frame in &frames {
                        write_frame(out, frame)?;
                    }
                    if is_last {
                        return out.flush();
                    }
                }
                Self::Text(live) => match listener.next().await {
                    Arrival::View(view) => live.catch_up(&view.conversation, &view.metadata)?,
                    Arrival::Steps(steps, view) => {
                        let changes = steps.iter().flat_map(|it| it.step.changes.iter());
                        live.follow(changes, &view.conversation, &view.metadata)?;
                    }
                    Arrival::End(_) => return live.end(),
                },
            }
        }
    }

    /// Shows what a session of a folder gained, or what is wrong.
    pub(super) fn update(
        &mut self,
        update: &FolderUpdate,
        summary: Option<&SessionSummary>,
    ) -> io::Result<()> {
        match self {
            Self::Json(out) => {
                let line = NewsLine {
                    kind: if update.session.is_some() { "session" } else { "folder" },
                    session_id: update.session.as_ref().map(|session| session.as_str()),
                    path: &update.path.to_string_lossy(),
                    records: update.result.as_ref().ok().map(|intake| intake.records),
                    error: update.result.as_ref().err().map(ToString::to_string),
                    summary,
                };
                write_line(out, &line)
            }
            Self::Text(live) => {
                let title = summary.and_then(|it| it.title.as_ref().or(it.first_prompt.as_ref()));
                let title = title.map(|title| format!("  {}", one_line(title))).unwrap_or_default();
                let gained = match &update.result {
                    Ok(intake) => {
                        let records = usize::try_from(intake.records).unwrap_or(usize::MAX);
                        format!("+{}", count(records, "record", "records"))
                    }
                    Err(error) => one_line(&error.to_string()),
                };
                match &update.session {
                    Some(session) => live.note(&format!("{session}  {gained}{title}")),
                    None => live.note(&gained),
                }
            }
        }
    }
}

/// How the line of the last frame begins.
const END: &str = "{\"type\":\"end\"";

/// Writes a frame, with what could move a terminal's cursor escaped.
fn write_frame(out: &mut Stdout, frame: &str) -> io::Result<()> {
    let mut out = out.lock();
    write_json_text(&mut out, frame)?;
    writeln!(out)?;
    out.flush()
}

fn write_line<T: Serialize>(out: &mut Stdout, line: &T) -> io::Result<()> {
    let mut out = out.lock();
    write_json(&mut out, line)?;
    writeln!(out)?;
    out.flush()
}

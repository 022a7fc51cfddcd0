//! Shows a live session: as text, or as lines of JSON.

use std::io::{self, Stdout, Write};

use threadfold_core::SessionId;
use threadfold_engine::{Arrival, FolderUpdate, FrameListener, Host, ListenOptions};
use threadfold_fold::{Cursor, SessionSummary};
use tokio::sync::oneshot;

use crate::printable::{one_line, write_json_text};
use crate::view::{LiveView, ViewOptions, count};

/// The output format.
#[derive(Clone, Copy)]
pub(crate) enum Output {
    /// One line for the state, and one for each record's changes.
    Json,
    /// Readable text.
    Text { width: usize, is_coloured: bool, is_terminal: bool, shown: ViewOptions },
}

/// Shows a session on standard output.
pub(super) enum Show {
    Json(Stdout),
    Text(Box<LiveView<Stdout>>),
}

/// Whether the end of a session is shown: not if this process is going to continue it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Shown,
    Hidden,
}

/// How to listen to a session once this process has taken over from its writer.
pub(super) struct Takeover {
    pub(super) host: Host,
    pub(super) session: SessionId,
    pub(super) listening: ListenOptions,
    /// Resolves when it has.
    pub(super) signal: oneshot::Receiver<()>,
}

impl Takeover {
    async fn listen(&self, after: &Cursor) -> io::Result<FrameListener> {
        let listening = ListenOptions { after: Some(after.clone()), ..self.listening.clone() };
        let listener = self.host.listen(&self.session, listening).await;
        Ok(listener.map_err(io::Error::other)?.continued())
    }
}

impl Show {
    pub(super) fn new(output: Output) -> Self {
        match output {
            Output::Json => Self::Json(io::stdout()),
            Output::Text { width, is_coloured, is_terminal, shown } => {
                let live = LiveView::new(io::stdout(), width, is_coloured, shown, is_terminal);
                Self::Text(Box::new(live))
            }
        }
    }

    /// Shows a session until it ends. If this process takes over from the writer, shows what it
    /// writes from then on.
    pub(super) async fn follow(
        mut self,
        mut listener: FrameListener,
        mut takeover: Option<Takeover>,
    ) -> io::Result<()> {
        while let Some(waiting) = &mut takeover {
            let is_over = tokio::select! {
                is_over = self.show_next(&mut listener, Ending::Hidden) => is_over?,
                taken = &mut waiting.signal => {
                    let Ok(()) = taken else { return Ok(()) };
                    listener = waiting.listen(listener.cursor()).await?;
                    takeover = None;
                    continue;
                }
            };
            if is_over {
                // The writer is gone, so this process is about to take over.
                let Ok(()) = (&mut waiting.signal).await else { return Ok(()) };
                listener = waiting.listen(listener.cursor()).await?;
                takeover = None;
            }
        }
        while !self.show_next(&mut listener, Ending::Shown).await? {}
        Ok(())
    }

    /// Shows what arrives next, and returns whether it was the end.
    async fn show_next(
        &mut self,
        listener: &mut FrameListener,
        ending: Ending,
    ) -> io::Result<bool> {
        match self {
            Self::Json(out) => {
                let frames = listener.next_frames().await;
                let is_last = frames.last().is_some_and(|it| it.starts_with(END));
                if is_last && ending == Ending::Hidden {
                    return Ok(true);
                }
                for frame in &frames {
                    write_frame(out, frame)?;
                }
                Ok(is_last)
            }
            Self::Text(live) => {
                match listener.next().await {
                    Arrival::View(view) => live.catch_up(&view.conversation, &view.metadata)?,
                    Arrival::Steps(steps, view) => {
                        let changes = steps.iter().flat_map(|it| it.step.changes.iter());
                        live.follow(changes, &view.conversation, &view.metadata)?;
                    }
                    Arrival::End(_) if ending == Ending::Hidden => return Ok(true),
                    Arrival::End(_) => return live.end().map(|()| true),
                }
                Ok(false)
            }
        }
    }
}

/// Shows new records of a session in a folder, or an error, as one line of text.
pub(super) fn show_update(
    live: &mut LiveView<Stdout>,
    update: &FolderUpdate,
    summary: Option<&SessionSummary>,
) -> io::Result<()> {
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

/// The prefix of the last frame's line.
pub(super) const END: &str = "{\"type\":\"end\"";

/// Writes a frame, with terminal control characters escaped.
pub(super) fn write_frame(out: &mut Stdout, frame: &str) -> io::Result<()> {
    let mut out = out.lock();
    write_json_text(&mut out, frame)?;
    writeln!(out)?;
    out.flush()
}

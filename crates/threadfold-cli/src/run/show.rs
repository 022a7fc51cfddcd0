//! Shows a run live: the model's text on stdout, everything else on stderr.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use threadfold_loop::{Delta, Progress, RunOutcome};

use crate::error::{CommandError, print_note};
use crate::printable::{one_line, printable, write_json};

/// How much of arguments and outputs is shown on a line.
const SHORT: usize = 100;

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Its text, as it arrives.
    Live,
    /// One line of JSON at the end.
    Json,
}

impl Show {
    /// Returns the callback that shows the progress of a run.
    pub(super) fn into_watcher(self) -> impl Fn(&Progress) + Send + Sync + 'static {
        let view = Mutex::new(ProgressView::new(self));
        move |progress| {
            // A panic while drawing does not invalidate the view, so the lock's poison is ignored.
            let mut view = view.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            view.show(progress);
        }
    }
}

struct ProgressView {
    show: Show,
    bar: ProgressBar,
    /// The current line of stdout has text and is not terminated.
    is_in_line: bool,
    turn: u64,
}

impl ProgressView {
    fn new(show: Show) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self { show, bar, is_in_line: false, turn: 0 }
    }

    fn show(&mut self, progress: &Progress) {
        match progress {
            Progress::Asking { turn } => {
                self.turn = *turn;
                self.wait_for("the model");
            }
            Progress::Delta(Delta::Text { text, .. }) => self.write_text(text),
            Progress::Delta(_) => {}
            Progress::Answered { .. } => self.end_line(),
            Progress::Retrying { why, after } => {
                self.print(&format!("{why}; retrying in {after:.1?}"));
            }
            Progress::ToolStarted { name, arguments, attempt, .. } => {
                let again =
                    if *attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
                self.print(&format!("→ {name} {}{again}", short(arguments)));
                self.wait_for(name);
            }
            Progress::ToolFinished { name, output, is_error, .. } => {
                let mark = if *is_error { "✗" } else { "←" };
                self.print(&format!("{mark} {name} {}", short(output)));
            }
            Progress::Omitted { call, bytes } => {
                let call = call.as_ref().map_or("a call", |it| it.as_str());
                self.print(&format!(
                    "omitted {bytes} bytes of {call}: the request would be too large"
                ));
            }
            Progress::Warning(what) => self.print(what),
            Progress::Repaired(repair) => self.print(&format!("repaired: {repair}")),
            _ => {}
        }
    }

    fn wait_for(&mut self, what: &str) {
        if self.show == Show::Live && !self.is_in_line {
            if self.bar.is_finished() {
                self.bar.reset();
            }
            self.bar.set_message(format!("turn {}: waiting for {}", self.turn, one_line(what)));
            self.bar.tick();
        }
    }

    /// Writes text to stdout as it arrives.
    fn write_text(&mut self, text: &str) {
        if self.show != Show::Live || text.is_empty() {
            return;
        }
        if !self.is_in_line {
            self.bar.finish_and_clear();
        }
        self.is_in_line = true;
        let lines: Vec<_> = match io::stdout().is_terminal() {
            true => text.split('\n').map(printable).collect(),
            false => vec![text.into()],
        };
        let mut out = io::stdout().lock();
        // A closed pipe must not stop the run.
        out.write_all(lines.join("\n").as_bytes()).and_then(|()| out.flush()).ok();
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_in_line) {
            writeln!(io::stdout()).ok();
        }
    }

    fn print(&mut self, line: &str) {
        self.end_line();
        self.bar.suspend(|| print_note(line));
    }
}

/// Returns a text shortened to one line.
pub(super) fn short(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Shows the outcome of a run.
pub(crate) fn show_finished(finished: &RunOutcome, show: Show) -> Result<(), CommandError> {
    for warning in &finished.warnings {
        print_note(warning);
    }
    if finished.text().trim().is_empty() {
        print_note("the model ended without any text");
    }
    if finished.is_cut() {
        let reason = finished.stop_reason.as_deref().unwrap_or_default();
        print_note(format_args!("the answer is incomplete: {reason}"));
    }
    if show == Show::Json {
        let line = json!({
            "stopReason": finished.stop_reason,
            "session": finished.session.as_str(),
            "turns": finished.turns,
            "text": finished.text(),
        });
        let mut out = io::stdout().lock();
        write_json(&mut out, &line)?;
        writeln!(out)?;
    }
    Ok(())
}

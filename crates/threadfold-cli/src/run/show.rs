//! A run as it goes on: the model's words on stdout, all else on stderr.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use threadfold_loop::{Delta, Finished, Progress};

use crate::error::{CommandError, say};
use crate::printable::{one_line, printable, write_json};

/// As much of arguments and outputs as stands on a line.
const SHORT: usize = 100;

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Its words, as they come.
    Live,
    /// One line of JSON at its end.
    Json,
}

impl Show {
    /// Returns who is told of what a run does.
    pub(super) fn into_watcher(self) -> impl Fn(&Progress) + Send + Sync + 'static {
        let shown = Mutex::new(Shown::new(self));
        move |progress| {
            // Whoever panicked while showing something did no harm to the run.
            let mut shown = shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            shown.hear(progress);
        }
    }
}

struct Shown {
    show: Show,
    bar: ProgressBar,
    /// Words stand on the line that was not ended yet.
    is_in_line: bool,
    turn: u64,
}

impl Shown {
    fn new(show: Show) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self { show, bar, is_in_line: false, turn: 0 }
    }

    fn hear(&mut self, progress: &Progress) {
        match progress {
            Progress::Asking { turn } => {
                self.turn = *turn;
                self.wait_for("the model");
            }
            Progress::Delta(Delta::Text { text, .. }) => self.speak(text),
            Progress::Delta(_) => {}
            Progress::Answered { .. } => self.end_line(),
            Progress::AskingAgain { why, after } => {
                self.tell(&format!("{why}; asking again in {after:.1?}"));
            }
            Progress::ToolStarted { name, arguments, attempt, .. } => {
                let again =
                    if *attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
                self.tell(&format!("→ {name} {}{again}", short(arguments)));
                self.wait_for(name);
            }
            Progress::ToolFinished { name, output, is_error, .. } => {
                let mark = if *is_error { "✗" } else { "←" };
                self.tell(&format!("{mark} {name} {}", short(output)));
            }
            Progress::LeftOut { call, bytes } => {
                let call = call.as_ref().map_or("a call", |it| it.as_str());
                self.tell(&format!("no room in the request for {bytes} bytes of {call}"));
            }
            Progress::Trouble(what) => self.tell(what),
            Progress::Repaired(repair) => self.tell(&format!("repaired: {repair}")),
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

    /// Writes words to stdout as they come.
    fn speak(&mut self, text: &str) {
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
        // A run does not end because nobody reads on.
        out.write_all(lines.join("\n").as_bytes()).and_then(|()| out.flush()).ok();
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_in_line) {
            writeln!(io::stdout()).ok();
        }
    }

    fn tell(&mut self, line: &str) {
        self.end_line();
        self.bar.suspend(|| say(line));
    }
}

/// Returns text as it stands on a line.
pub(super) fn short(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Shows a run that came to its end.
pub(crate) fn show_finished(finished: &Finished, show: Show) -> Result<(), CommandError> {
    for trouble in &finished.troubles {
        say(trouble);
    }
    if finished.text().trim().is_empty() {
        say("the model ended without a word");
    }
    if finished.is_cut() {
        let reason = finished.stop_reason.as_deref().unwrap_or_default();
        say(format_args!("the answer did not come to its end: {reason}"));
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

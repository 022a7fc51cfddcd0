//! `threadfold view`: a session's conversation in the terminal.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;

use crate::error::CommandError;
use crate::printable::write_json;
use crate::sessions::{Wanted, load_file, load_session, resolve};
use crate::source::Format;
use crate::terminal::{self, ColorChoice, MIN_WIDTH};
use crate::view::{Page, Pager, Shown, draw};

/// Show a session's conversation
///
/// Tools are folded to a line with their outcome, and subagents stand below the call that made
/// them. What a transcript holds cannot move the cursor, set the title or open a link: such
/// characters are shown as escapes.
#[derive(Args)]
pub(crate) struct ViewArgs {
    /// Session to show: its id or the beginning of one, a file that an agent wrote, a folder with
    /// one session, or `-` for a transcript or a stream on standard input
    session: String,
    /// Say what the file is
    #[arg(long, value_name = "FORMAT")]
    from: Option<Format>,
    /// Take this session of OpenCode's, where the file holds several
    #[arg(long = "session", value_name = "ID")]
    of_session: Option<String>,
    /// Show what tools were given and gave, and the system's words, whole
    #[arg(long)]
    full: bool,
    /// Show what the model thought
    #[arg(long)]
    thinking: bool,
    /// Leave out what subagents said
    #[arg(long)]
    no_subagents: bool,
    /// Print the state as one line of JSON
    #[arg(long)]
    json: bool,
    /// Lay out for N columns instead of the terminal's
    #[arg(long, value_name = "N")]
    width: Option<usize>,
    /// Never start a pager
    #[arg(long)]
    no_pager: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

pub(crate) fn run(args: &ViewArgs) -> Result<(), CommandError> {
    let is_file = args.from.is_some() || args.of_session.is_some();
    let wanted = match is_file {
        true => Wanted::File(PathBuf::from(&args.session)),
        false => resolve(&args.session)?,
    };
    let loaded = match wanted {
        Wanted::Session(session) => load_session(&session)?,
        Wanted::File(file) => load_file(&file, args.from, args.of_session.as_deref())?,
    };
    if loaded.events == 0 {
        return Err(CommandError::new(
            anyhow!("`{}` holds nothing of a session", args.session),
            "give a file that an agent wrote; `threadfold list` shows the sessions",
        ));
    }
    if args.json {
        let mut out = BufWriter::new(io::stdout().lock());
        write_json(&mut out, &loaded.state)?;
        writeln!(out)?;
        return Ok(out.flush()?);
    }
    let width = args.width.map_or_else(terminal::width, |width| width.max(MIN_WIDTH));
    let shown = Shown {
        is_full: args.full,
        has_thinking: args.thinking,
        has_subagents: !args.no_subagents,
    };
    let mut pager = if args.no_pager { Pager::never() } else { Pager::when_long() };
    let mut page = Page::new(&mut pager, width, args.color.is_on());
    let drawn = draw(&mut page, &loaded.state, &loaded.metadata, shown);
    // The pager is waited for in any case: who closed it early has seen enough.
    let finished = pager.finish();
    drawn?;
    Ok(finished?)
}

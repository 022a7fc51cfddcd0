//! `threadfold list`: the sessions on this machine, newest first.

use std::cmp::Reverse;
use std::io::{self, BufWriter, Write};

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use threadfold_core::{BlockBody, ConversationState, SessionMetadata, TokenUsage};

use crate::error::{CommandError, say};
use crate::printable::{one_line, write_json};
use crate::progress::Progress;
use crate::sessions::{FoundSession, Kept, Loaded, Sessions, load_session, places};
use crate::terminal::{self, ColorChoice};
use crate::view::{
    Align, Column, Page, Span, ago, content_text, cut, cut_front, draw_table, number, without_tags,
};

/// List the sessions of Claude Code and OpenCode on this machine, newest first
///
/// Those of Claude Code are looked for in `$CLAUDE_CONFIG_DIR`, or in `.claude` in the home folder;
/// those of OpenCode in `opencode` in `$XDG_DATA_HOME`, or in `.local/share` in the home folder.
#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print one JSON object a line, with everything that is known
    #[arg(long)]
    json: bool,
    /// Show only the N sessions that were written to last
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

pub(crate) fn run(args: &ListArgs) -> Result<(), CommandError> {
    let mut sessions = Sessions::of_all_agents();
    for (folder, error) in &sessions.unreadable {
        say(format_args!("left out `{}`: {error}", folder.display()));
    }
    if let Some(limit) = args.limit {
        sessions.found.sort_by_cached_key(|it| Reverse(it.changed()));
        sessions.found.truncate(limit as usize);
    }
    let mut rows = summaries(&sessions.found);
    rows.sort_by_cached_key(|row| Reverse(row.ended));
    if rows.is_empty() {
        let places = places(&sessions.places);
        say(format_args!(
            "there are no sessions in {places}; \
             `CLAUDE_CONFIG_DIR` and `XDG_DATA_HOME` tell where else to look"
        ));
        return Err(CommandError::No);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        for row in &rows {
            write_json(&mut out, row)?;
            writeln!(out)?;
        }
    } else {
        let mut page = Page::new(&mut out, terminal::width(), ColorChoice::Auto.is_on());
        table(&mut page, &rows)?;
    }
    Ok(out.flush()?)
}

/// Reads the sessions, one at a time. Those that cannot be read are said and left out.
fn summaries(found: &[FoundSession]) -> Vec<Summary> {
    let mut progress = Progress::new(found.len());
    let mut rows = Vec::with_capacity(found.len());
    for session in found {
        match load_session(session) {
            Ok(loaded) => rows.push(Summary::of(session, &loaded)),
            Err(error) => {
                progress.erase();
                let path = session.main.display();
                let of = match session.kept {
                    Kept::Shelf { .. } => format!("session `{}` of ", session.id),
                    _ => String::new(),
                };
                say(format_args!("left out {of}`{path}`: {}", error.cause()));
            }
        }
        progress.step();
    }
    progress.erase();
    rows
}

/// What is told of a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    id: String,
    agent: &'static str,
    path: String,
    project: String,
    title: Option<String>,
    first_prompt: Option<String>,
    started_at: Option<String>,
    ended_at: Option<String>,
    blocks: usize,
    subagents: usize,
    model: Option<String>,
    usage: TokenUsage,
    cost_usd: Option<f64>,
    /// The first command, where nothing was asked in words.
    #[serde(skip)]
    command: Option<String>,
    #[serde(skip)]
    ended: Option<Timestamp>,
}

impl Summary {
    fn of(session: &FoundSession, Loaded { state, metadata, .. }: &Loaded) -> Self {
        let subagents = state.subagents();
        let own = |text: &str| text.to_owned();
        let told = metadata.ended_at().and_then(|it| it.parse().ok());
        let written = || Timestamp::try_from(session.changed()?).ok();
        Self {
            id: session.id.clone(),
            agent: session.agent().name(),
            path: session.main.display().to_string(),
            project: project(session, metadata),
            title: metadata.title().map(own),
            first_prompt: first_prompt(state),
            command: first_command(state),
            started_at: metadata.started_at().map(own),
            ended_at: metadata.ended_at().map(own),
            blocks: state.blocks().len()
                + subagents.iter().map(|it| it.blocks().len()).sum::<usize>(),
            subagents: subagents.len(),
            model: metadata.model().map(own),
            usage: metadata.usage(),
            cost_usd: metadata.cost_usd(),
            ended: told.or_else(written),
        }
    }

    fn name(&self) -> String {
        let told = |text: &&str| !text.trim().is_empty();
        let prompt = || self.first_prompt.as_deref().map(spoken).filter(told);
        let command = || self.command.as_deref().filter(told);
        let title = self.title.as_deref().filter(told);
        let name = title.or_else(prompt).or_else(command);
        name.map_or_else(|| "(nothing was asked)".to_owned(), one_line)
    }
}

/// Returns the folder that was worked in; if nothing tells, the one that Claude Code named after
/// it, without the part that stands for the home folder.
fn project(session: &FoundSession, metadata: &SessionMetadata) -> String {
    if let Some(cwd) = metadata.cwd() {
        return cwd.to_owned();
    }
    let home = std::env::home_dir().unwrap_or_default();
    let mangled = home.to_string_lossy().replace(|it: char| !it.is_ascii_alphanumeric(), "-");
    let inside = session.project.strip_prefix(&mangled).unwrap_or(&session.project);
    let inside = inside.trim_start_matches('-');
    if inside.is_empty() { session.project.clone() } else { inside.to_owned() }
}

fn first_prompt(state: &ConversationState) -> Option<String> {
    let prompt = |active_only: bool| {
        state.blocks().iter().find_map(|block| match &block.body {
            BlockBody::UserMessage(said) if !(active_only && block.inactive) => {
                Some(content_text(&said.content))
            }
            _ => None,
        })
    };
    prompt(true).or_else(|| prompt(false))
}

fn first_command(state: &ConversationState) -> Option<String> {
    state.blocks().iter().find_map(|block| match &block.body {
        BlockBody::System(word) if &*word.subtype == "command" => {
            let text = word.message.as_ref()?.to_str().into_owned();
            text.starts_with("<command-").then(|| without_tags(&text))
        }
        _ => None,
    })
}

/// Returns what a person said, without what an editor put before it: `<tag>…</tag>`.
fn spoken(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(after) = rest.strip_prefix('<')
        && let Some((name, inside)) = after.split_once('>')
        && name.bytes().all(|it| it.is_ascii_lowercase() || matches!(it, b'-' | b'_'))
        && let Some((_, after)) = inside.split_once(&format!("</{name}>"))
    {
        rest = after.trim_start();
    }
    if rest.is_empty() { text } else { rest }
}

/// A column of the table, with what stands in it.
struct Cells {
    title: &'static str,
    align: Align,
    texts: Vec<String>,
}

impl Cells {
    fn of(title: &'static str, align: Align, texts: impl Iterator<Item = String>) -> Self {
        Self { title, align, texts: texts.collect() }
    }

    fn width(&self) -> usize {
        let widest = self.texts.iter().map(|text| Span::plain(text).width()).max();
        widest.unwrap_or(0).max(self.title.len())
    }

    fn is_empty(&self) -> bool {
        self.texts.iter().all(String::is_empty)
    }
}

fn table<W: Write>(page: &mut Page<W>, rows: &[Summary]) -> io::Result<()> {
    let (now, zone) = (Timestamp::now(), TimeZone::system());
    let short = short_length(rows);
    let project_width = if page.width() < 100 { 10 } else { 28 };
    let when = |row: &Summary| row.ended.map(|then| ago(then, now, &zone)).unwrap_or_default();
    let project = |row: &Summary| {
        let last = row.project.rsplit(['/', '\\']).next().unwrap_or(&row.project);
        cut_front(&one_line(last), project_width)
    };
    let agents = |row: &Summary| match row.subagents {
        0 => String::new(),
        count => number(count as u64),
    };
    let cost = |row: &Summary| row.cost_usd.map(|it| format!("${it:.2}")).unwrap_or_default();
    let is_mixed = rows.iter().any(|row| row.agent != rows[0].agent);
    let agent = |row: &Summary| if is_mixed { row.agent.to_owned() } else { String::new() };
    let id = |row: &Summary| row.id.chars().take(short).collect();
    let mut columns = vec![
        Cells::of("id", Align::Left, rows.iter().map(id)),
        Cells::of("agent", Align::Left, rows.iter().map(agent)),
        Cells::of("when", Align::Left, rows.iter().map(when)),
        Cells::of("project", Align::Left, rows.iter().map(project)),
        Cells::of(TITLE, Align::Left, rows.iter().map(Summary::name)),
        Cells::of("blocks", Align::Right, rows.iter().map(|row| number(row.blocks as u64))),
        Cells::of("agents", Align::Right, rows.iter().map(agents)),
        Cells::of("cost", Align::Right, rows.iter().map(cost)),
    ];
    columns.retain(|column| !column.is_empty());
    fit(&mut columns, page.width());
    let cells =
        |row: usize| columns.iter().map(move |it| vec![Span::plain(&it.texts[row])]).collect();
    let rows: Vec<Vec<Vec<Span>>> = (0..rows.len()).map(cells).collect();
    let heads = columns.iter().map(|it| Column { title: Span::plain(it.title), align: it.align });
    draw_table(page, &heads.collect::<Vec<_>>(), &rows)
}

/// The column that takes what the others leave.
const TITLE: &str = "title";

/// Leaves out columns until there is room for titles, and cuts these to it.
fn fit(columns: &mut Vec<Cells>, width: usize) {
    for dispensable in ["", "project", "agents", "agent", "blocks", "cost", "when"] {
        columns.retain(|column| column.title != dispensable);
        let others: usize =
            columns.iter().filter(|it| it.title != TITLE).map(|it| it.width() + 2).sum();
        let room = width.saturating_sub(others);
        if room >= 16 || dispensable == "when" {
            let titles = columns.iter_mut().filter(|it| it.title == TITLE);
            titles.for_each(|it| it.texts.iter_mut().for_each(|text| *text = cut(text, room)));
            return;
        }
    }
}

/// Returns how many letters of their ids tell all sessions apart: eight, if they do.
fn short_length(rows: &[Summary]) -> usize {
    let mut ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    let shared = |pair: &[&str]| {
        pair[0].chars().zip(pair[1].chars()).take_while(|(one, other)| one == other).count()
    };
    ids.windows(2).map(|pair| shared(pair) + 1).max().unwrap_or(0).max(8)
}

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
use crate::sessions::{FoundSession, Loaded, Sessions, load_session};
use crate::terminal::{self, ColorChoice};
use crate::view::{
    Align, Column, Page, Span, ago, content_text, cut, cut_front, draw_table, number, without_tags,
};

/// List the Claude Code sessions on this machine, newest first
///
/// They are looked for in `$CLAUDE_CONFIG_DIR`, or in `.claude` in the home folder.
#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print one JSON object a line, with everything that is known
    #[arg(long)]
    json: bool,
    /// Show only the N sessions that were written to last
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub(crate) fn run(args: &ListArgs) -> Result<(), CommandError> {
    let mut sessions = Sessions::of_claude();
    for (folder, error) in &sessions.unreadable {
        say(format_args!("left out `{}`: {error}", folder.display()));
    }
    if let Some(limit) = args.limit {
        sessions.found.sort_by_cached_key(|it| Reverse(it.changed()));
        sessions.found.truncate(limit);
    }
    let mut rows = summaries(&sessions.found);
    rows.sort_by_cached_key(|row| Reverse(row.ended));
    if rows.is_empty() {
        let place = sessions.place.display();
        say(format_args!(
            "there are no sessions in `{place}`; `CLAUDE_CONFIG_DIR` tells where else to look"
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
                say(format_args!("left out `{path}`: {}", error.cause()));
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
    fn of(session: &FoundSession, Loaded { state, metadata }: &Loaded) -> Self {
        let subagents = state.subagents();
        let own = |text: &str| text.to_owned();
        let told = metadata.ended_at().and_then(|it| it.parse().ok());
        let written = || Timestamp::try_from(session.changed()?).ok();
        Self {
            id: session.id.clone(),
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

fn table<W: Write>(page: &mut Page<W>, rows: &[Summary]) -> io::Result<()> {
    let now = Timestamp::now();
    let zone = TimeZone::system();
    let short = short_length(rows);
    let wide = page.width();
    let has_subagents = rows.iter().any(|row| row.subagents > 0);
    let has_costs = rows.iter().any(|row| row.cost_usd.is_some());
    let project_width = if wide < 100 { 10 } else { 28 };
    let mut columns = vec![("id", Align::Left), ("when", Align::Left), ("project", Align::Left)];
    columns.push(("title", Align::Left));
    columns.push(("blocks", Align::Right));
    if has_subagents {
        columns.push(("agents", Align::Right));
    }
    if has_costs {
        columns.push(("cost", Align::Right));
    }
    let mut cells: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let last = row.project.rsplit(['/', '\\']).next().unwrap_or(&row.project);
        let mut line = vec![
            row.id.chars().take(short).collect(),
            row.ended.map(|then| ago(then, now, &zone)).unwrap_or_default(),
            cut_front(&one_line(last), project_width),
            row.name(),
            number(row.blocks as u64),
        ];
        if has_subagents {
            line.push(if row.subagents > 0 { number(row.subagents as u64) } else { String::new() });
        }
        if has_costs {
            line.push(row.cost_usd.map(|cost| format!("${cost:.2}")).unwrap_or_default());
        }
        cells.push(line);
    }
    cut_titles(&columns, &mut cells, wide);
    let columns: Vec<Column> = columns
        .into_iter()
        .map(|(title, align)| Column { title: Span::plain(title), align })
        .collect();
    let rows: Vec<Vec<Vec<Span>>> = cells
        .into_iter()
        .map(|line| line.iter().map(|cell| vec![Span::plain(cell)]).collect())
        .collect();
    draw_table(page, &columns, &rows)
}

/// Cuts the titles to what the other columns leave.
fn cut_titles(columns: &[(&str, Align)], cells: &mut [Vec<String>], width: usize) {
    const TITLE: usize = 3;
    let widest = |column: usize| {
        let titles = columns[column].0.len();
        cells.iter().map(|line| Span::plain(&line[column]).width()).max().unwrap_or(0).max(titles)
    };
    let others: usize = (0..columns.len()).filter(|it| *it != TITLE).map(widest).sum();
    let room = width.saturating_sub(others + 2 * (columns.len() - 1)).max(8);
    cells.iter_mut().for_each(|line| line[TITLE] = cut(&line[TITLE], room));
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

//! `threadfold list`: the sessions on this machine, newest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use threadfold_core::TokenUsage;
use threadfold_engine::SessionSummary;
use threadfold_store::SessionEntry;

use crate::error::{CommandError, say};
use crate::printable::{one_line, write_json};
use crate::progress::Progress;
use crate::sessions::{FoundSession, Freshness, Kept, Sessions, freshness, load_session, places};
use crate::store::{OpenStore, StoreArgs, noted_summary, summary_of};
use crate::terminal::{self, ColorChoice};
use crate::view::{
    Align, Column, Page, Span, ago, cut, cut_front, draw_table, number, without_tags,
};

/// List sessions, newest first: those of Claude Code and OpenCode on this machine, and the store's
///
/// Those of Claude Code are looked for in `$CLAUDE_CONFIG_DIR`, or in `.claude` in the home folder;
/// those of OpenCode in `opencode` in `$XDG_DATA_HOME`, or in `.local/share` in the home folder.
/// What is in a folder and in the store is one row; a `+` says that the folder has more, and
/// `threadfold import` takes it in; a `-` that it has less, and `threadfold restore` brings it back.
#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print one JSON object a line, with everything that is known
    #[arg(long)]
    json: bool,
    /// Show only the N sessions that were written to last
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &ListArgs) -> Result<(), CommandError> {
    let sessions = Sessions::of_all_agents();
    sessions.say_unreadable();
    let store = args.store.open_if_there()?;
    let kept = store.as_ref().map_or(Ok(Vec::new()), OpenStore::sessions)?;
    let searched = places(&sessions.places);
    let mut listed = unite(sessions.found, kept);
    if let Some(limit) = args.limit {
        listed.sort_by_cached_key(|it| Reverse(it.changed()));
        listed.truncate(limit as usize);
    }
    let mut rows = read_all(&listed, store.as_ref());
    rows.sort_by_cached_key(|row| Reverse(row.ended));
    if rows.is_empty() {
        say(format_args!(
            "there are no sessions in {searched}; \
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

/// A session that is listed: in an agent's folder, in the store, or in both.
enum Listed {
    Found(FoundSession),
    Kept(SessionEntry),
    Both(FoundSession, SessionEntry),
}

/// Puts together what is the same session.
fn unite(found: Vec<FoundSession>, kept: Vec<SessionEntry>) -> Vec<Listed> {
    let mut kept: BTreeMap<String, SessionEntry> =
        kept.into_iter().map(|it| (it.session.to_string(), it)).collect();
    let mut listed: Vec<Listed> = Vec::with_capacity(found.len() + kept.len());
    for session in found {
        listed.push(match kept.remove(&session.id) {
            Some(entry) => Listed::Both(session, entry),
            None => Listed::Found(session),
        });
    }
    listed.extend(kept.into_values().map(Listed::Kept));
    listed
}

impl Listed {
    fn changed(&self) -> Option<SystemTime> {
        match self {
            Self::Found(found) | Self::Both(found, _) => found.changed(),
            Self::Kept(entry) => {
                let since = Duration::from_millis(u64::try_from(entry.updated.0).ok()?);
                SystemTime::UNIX_EPOCH.checked_add(since)
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Found(found) | Self::Both(found, _) => {
                let path = found.main.display();
                match found.kept {
                    Kept::Shelf { .. } => format!("session `{}` of `{path}`", found.id),
                    Kept::File { .. } => format!("`{path}`"),
                }
            }
            Self::Kept(entry) => format!("session `{}` of the store", entry.session),
        }
    }

    fn read(&self, store: Option<&OpenStore>) -> Result<Row, CommandError> {
        match (self, store) {
            (Self::Found(found), _) => Ok(Row::of_found(found, read(found)?, Where::Agent)),
            (Self::Both(found, entry), _) => {
                let freshness = freshness(found, entry);
                let told = match noted_summary(entry) {
                    Some(noted) if matches!(freshness, Freshness::Same | Freshness::Less) => noted,
                    _ => read(found)?,
                };
                let is_newer = freshness == Freshness::Newer;
                let has_less = freshness == Freshness::Less;
                Ok(Row { is_newer, has_less, ..Row::of_found(found, told, Where::Both) })
            }
            (Self::Kept(entry), Some(store)) => Ok(Row::of_kept(entry, summary_of(store, entry)?)),
            (Self::Kept(entry), None) => Ok(Row::of_kept(entry, SessionSummary::default())),
        }
    }
}

fn read(found: &FoundSession) -> Result<SessionSummary, CommandError> {
    load_session(found).map(|it| SessionSummary::of(&it.state, &it.metadata))
}

/// Reads the sessions, one at a time. Those that cannot be read are said and left out.
fn read_all(listed: &[Listed], store: Option<&OpenStore>) -> Vec<Row> {
    let mut progress = Progress::new(listed.len());
    let mut rows = Vec::with_capacity(listed.len());
    for session in listed {
        match session.read(store) {
            Ok(row) => rows.push(row),
            Err(error) => {
                progress.erase();
                say(format_args!("left out {}: {}", session.name(), error.cause()));
            }
        }
        progress.step();
    }
    progress.erase();
    rows
}

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Where {
    Agent,
    Store,
    Both,
}

/// What is told of a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    agent: Option<String>,
    #[serde(rename = "where")]
    place: Where,
    /// The folder has more than the store.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_newer: bool,
    /// The folder has less than the store.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_less: bool,
    /// How many records the store has of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    path: Option<String>,
    project: String,
    title: Option<String>,
    first_prompt: Option<String>,
    started_at: Option<String>,
    ended_at: Option<String>,
    /// Nothing of a session that is too large to be folded while it is imported.
    blocks: Option<usize>,
    subagents: Option<usize>,
    model: Option<String>,
    usage: TokenUsage,
    cost_usd: Option<f64>,
    /// The first command, where nothing was asked in words.
    #[serde(skip)]
    command: Option<String>,
    #[serde(skip)]
    ended: Option<Timestamp>,
}

impl Row {
    fn of_found(found: &FoundSession, told: SessionSummary, place: Where) -> Self {
        let written = || Timestamp::try_from(found.changed()?).ok();
        let row = Self::of(found.id.clone(), told, place);
        Self {
            agent: Some(found.agent().name().to_owned()),
            path: Some(found.main.display().to_string()),
            project: if row.project.is_empty() {
                without_home(&found.project)
            } else {
                row.project
            },
            ended: row.ended.or_else(written),
            ..row
        }
    }

    fn of_kept(entry: &SessionEntry, told: SessionSummary) -> Self {
        let written = || Timestamp::from_millisecond(entry.updated.0).ok();
        let row = Self::of(entry.session.to_string(), told, Where::Store);
        // Claude Code names the folder of a project after where it is.
        let folder = row.path.as_deref().and_then(|path| Path::new(path).parent()?.file_name());
        let folder = folder.map(|it| without_home(&it.to_string_lossy())).unwrap_or_default();
        let is_named = row.project.is_empty() && row.agent.as_deref() == Some("claude");
        Self {
            records: Some(entry.head.seq),
            project: if is_named { folder } else { row.project },
            ended: row.ended.or_else(written),
            ..row
        }
    }

    fn of(id: String, told: SessionSummary, place: Where) -> Self {
        Self {
            id,
            agent: told.agent,
            place,
            is_newer: false,
            has_less: false,
            records: None,
            path: told.path,
            project: told.cwd.unwrap_or_default(),
            title: told.title,
            first_prompt: told.first_prompt,
            command: told.first_command.map(|it| without_tags(&it)),
            ended: told.ended_at.as_deref().and_then(|it| it.parse().ok()),
            started_at: told.started_at,
            ended_at: told.ended_at,
            blocks: told.blocks,
            subagents: told.subagents,
            model: told.model,
            usage: told.usage,
            cost_usd: told.cost_usd,
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

/// Returns the name that Claude Code gave a project's folder, without the part that stands for the
/// home folder.
fn without_home(folder: &str) -> String {
    let home = std::env::home_dir().unwrap_or_default();
    let mangled = home.to_string_lossy().replace(|it: char| !it.is_ascii_alphanumeric(), "-");
    let inside = folder.strip_prefix(&mangled).unwrap_or(folder);
    let inside = inside.trim_start_matches('-');
    if inside.is_empty() { folder.to_owned() } else { inside.to_owned() }
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

fn table<W: Write>(page: &mut Page<W>, rows: &[Row]) -> io::Result<()> {
    let (now, zone) = (Timestamp::now(), TimeZone::system());
    let short = short_length(rows);
    let project_width = if page.width() < 100 { 10 } else { 28 };
    let when = |row: &Row| row.ended.map(|then| ago(then, now, &zone)).unwrap_or_default();
    let project = |row: &Row| {
        let last = row.project.rsplit(['/', '\\']).next().unwrap_or(&row.project);
        cut_front(&one_line(last), project_width)
    };
    let agents = |row: &Row| match row.subagents {
        None | Some(0) => String::new(),
        Some(count) => number(count as u64),
    };
    let cost = |row: &Row| row.cost_usd.map(|it| format!("${it:.2}")).unwrap_or_default();
    let is_mixed = rows.iter().any(|row| row.agent != rows[0].agent);
    let agent = |row: &Row| row.agent.clone().filter(|_| is_mixed).unwrap_or_default();
    let is_any_kept = rows.iter().any(|row| row.place != Where::Agent);
    let place = |row: &Row| match row.place {
        _ if !is_any_kept => "",
        Where::Agent => "agent",
        Where::Store => "store",
        Where::Both if row.is_newer => "both +",
        Where::Both if row.has_less => "both -",
        Where::Both => "both",
    };
    let blocks = |row: &Row| row.blocks.map(|it| number(it as u64)).unwrap_or_default();
    let id = |row: &Row| row.id.chars().take(short).collect();
    let mut columns = vec![
        Cells::of("id", Align::Left, rows.iter().map(id)),
        Cells::of("agent", Align::Left, rows.iter().map(agent)),
        Cells::of("where", Align::Left, rows.iter().map(|row| place(row).to_owned())),
        Cells::of("when", Align::Left, rows.iter().map(when)),
        Cells::of("project", Align::Left, rows.iter().map(project)),
        Cells::of(TITLE, Align::Left, rows.iter().map(Row::name)),
        Cells::of("blocks", Align::Right, rows.iter().map(blocks)),
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
    for dispensable in ["", "project", "agents", "agent", "blocks", "cost", "where", "when"] {
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
fn short_length(rows: &[Row]) -> usize {
    let mut ids: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    let shared = |pair: &[&str]| {
        pair[0].chars().zip(pair[1].chars()).take_while(|(one, other)| one == other).count()
    };
    ids.windows(2).map(|pair| shared(pair) + 1).max().unwrap_or(0).max(8)
}

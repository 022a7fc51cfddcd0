//! `threadfold list`: lists the sessions on this machine, newest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use threadfold_engine::{
    FoundSession, Host, ImportIndex, ListedSession, RowLocation, RowReader, SessionQuery,
    SessionRow, import_index_path,
};
use threadfold_store::{MemoryStore, Store};

use crate::error::{CommandError, print_note};
use crate::printable::{one_line, write_json};
use crate::progress::Progress;
use crate::runtime::Waiter;
use crate::store::{OpenStore, StoreArgs, elsewhere};
use crate::surroundings::{discover, listed_places, listed_variables};
use crate::terminal::{self, ColorChoice};
use crate::unread::{print_unread, report_unread, write_unread};
use crate::view::{
    Align, Column, Page, Span, ago, command_text, cut, cut_front, draw_table_with_lines, number,
};

/// List the sessions of all agents on this machine and in the store, newest first
///
/// A session that is both on disk and in the store is one row. `+`: the disk has more, which
/// `threadfold import` adds to the store. `-`: the disk has less, which `threadfold restore` fixes.
/// `–`: not known until the session is imported, because only the first and last lines of a long
/// file are read; with `--json`, the field `unknown` names what is not known.
/// Sessions are searched in each agent's default folder, or in the folder that the agent's
/// environment variable sets. Content that this version cannot read is reported; with
/// `--json`, as an object with the field `unread`.
#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print one JSON object per line, with all details
    #[arg(long)]
    json: bool,
    /// Show only the N most recently modified sessions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &ListArgs) -> Result<(), CommandError> {
    // It takes as long to read as the sessions to find.
    let index = args.store.location().ok().and_then(|it| it.file().map(import_index_path));
    let index = index.map(|path| thread::spawn(|| ImportIndex::open(path)));
    let found = discover();
    report_unread(&found.unread);
    let store = args.store.open_if_there()?;
    let waiter = Waiter::single()?;
    let shared: Arc<dyn Store> = match &store {
        Some(store) => store.shared(),
        None => Arc::new(MemoryStore::default()),
    };
    let mut listed =
        waiter.wait(Host::new(shared).list(&SessionQuery::default(), &found))?.sessions;
    if let Some(limit) = args.limit {
        listed.sort_by_cached_key(|it| Reverse(changed(it)));
        listed.truncate(limit as usize);
    }
    // Without the index, sizes and times decide.
    let index = index.filter(|_| store.is_some()).and_then(|it| it.join().ok());
    let home = std::env::home_dir().unwrap_or_default();
    let store = store.as_ref().map(OpenStore::shared);
    let rows = RowReader { store, index, budget: elsewhere(), home };
    let mut rows = Reader { waiter: &waiter, rows }.read_all(&listed);
    rows.sort_by_cached_key(|row| Reverse(row.ended));
    if rows.is_empty() {
        if args.json {
            print_unread(&found.unread)?;
        }
        print_note(format_args!(
            "no sessions found in {}; to search elsewhere, set {}",
            listed_places(&found.places),
            listed_variables()
        ));
        return Err(CommandError::No);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        for row in &rows {
            write_json(&mut out, row)?;
            writeln!(out)?;
        }
        write_unread(&mut out, &found.unread)?;
    } else {
        let mut page = Page::new(&mut out, terminal::width(), ColorChoice::Auto.is_on());
        let rows: Vec<Row> = rows.into_iter().map(Row::of).collect();
        table(&mut page, &rows)?;
    }
    Ok(out.flush()?)
}

fn changed(listed: &ListedSession) -> Option<SystemTime> {
    match (&listed.found, &listed.stored) {
        (Some(found), _) => found.changed(),
        (None, Some(entry)) => {
            let since = Duration::from_millis(u64::try_from(entry.updated.0).ok()?);
            SystemTime::UNIX_EPOCH.checked_add(since)
        }
        (None, None) => None,
    }
}

/// How many threads read sessions at most.
const MOST_THREADS: usize = 8;

/// Reads rows, several at once.
struct Reader<'a> {
    waiter: &'a Waiter,
    rows: RowReader,
}

impl Reader<'_> {
    /// Reads the sessions, several at once. Unreadable sessions are reported and skipped.
    fn read_all(&self, listed: &[ListedSession]) -> Vec<SessionRow> {
        let progress = Mutex::new(Progress::new(listed.len()));
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
        let next = AtomicUsize::new(0);
        let read = || {
            let mut rows = Vec::new();
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(session) = listed.get(place) else { return rows };
                rows.push((place, self.waiter.wait(self.rows.read(session))));
                progress.lock().unwrap_or_else(PoisonError::into_inner).step();
            }
        };
        let mut read: Vec<_> = thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(read)).collect();
            let mut all = read();
            for other in others {
                match other.join() {
                    Ok(rows) => all.extend(rows),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            all
        });
        progress.into_inner().unwrap_or_else(PoisonError::into_inner).erase();
        read.sort_by_key(|(place, _)| *place);
        let mut rows = Vec::with_capacity(read.len());
        for (session, (_, row)) in listed.iter().zip(read) {
            match row {
                Ok(row) => rows.push(row),
                Err(error) => {
                    let name = session.found.as_ref().map(FoundSession::description);
                    let name = name.unwrap_or_else(|| format!("session `{}`", session.id));
                    let error = CommandError::from(error);
                    print_note(format_args!("skipped {name}: {}", error.cause()));
                }
            }
        }
        rows
    }
}

/// A row as it is drawn.
struct Row {
    session: SessionRow,
    /// The first command, if there is no prompt.
    command: Option<String>,
}

impl Row {
    fn of(session: SessionRow) -> Self {
        let command = session.command.as_deref().map(command_text);
        Self { session, command }
    }

    fn name(&self) -> String {
        let is_shown = |text: &&str| !text.trim().is_empty();
        let prompt = || self.session.first_prompt.as_deref().map(spoken).filter(is_shown);
        let command = || self.command.as_deref().filter(is_shown);
        let title = self.session.title.as_deref().filter(is_shown);
        let name = title.or_else(prompt).or_else(command);
        let is_unknown = |field| self.session.is_unknown(field);
        let is_unknown = is_unknown("title") || is_unknown("firstPrompt");
        let none = if is_unknown { UNKNOWN } else { "(no prompt)" };
        name.map_or_else(|| none.to_owned(), one_line)
    }

    /// Returns a number as it is shown, or that it is unknown.
    fn shown(&self, field: &str, value: Option<String>) -> String {
        match value {
            None if self.session.is_unknown(field) => UNKNOWN.to_owned(),
            value => value.unwrap_or_default(),
        }
    }
}

/// Stands for what is not known until a session is imported.
const UNKNOWN: &str = "–";

/// Returns the user's text without the `<tag>…</tag>` that an editor prepends.
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

/// A column of the table, with its cells.
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
    let ids = ShortIds::of(rows);
    let project_width = if page.width() < 100 { 10 } else { 28 };
    let when = |row: &Row| row.session.ended.map(|then| ago(then, now, &zone)).unwrap_or_default();
    let project = |row: &Row| {
        let last = row.session.project.rsplit(['/', '\\']).next().unwrap_or(&row.session.project);
        cut_front(&one_line(last), project_width)
    };
    let subagents = |row: &Row| {
        let count = row.session.subagents.filter(|it| *it > 0).map(|it| number(it as u64));
        row.shown("subagents", count)
    };
    let cost = |row: &Row| row.shown("costUsd", row.session.cost_usd.map(|it| format!("${it:.2}")));
    let is_mixed = rows.iter().any(|row| row.session.agent != rows[0].session.agent);
    let agent = |row: &Row| row.session.agent.clone().filter(|_| is_mixed).unwrap_or_default();
    let is_any_kept = rows.iter().any(|row| row.session.place != RowLocation::Disk);
    let place = |row: &Row| match row.session.place {
        _ if !is_any_kept => "",
        RowLocation::Disk => "disk",
        RowLocation::Store => "store",
        RowLocation::Both if row.session.is_newer => "both +",
        RowLocation::Both if row.session.has_less => "both -",
        RowLocation::Both => "both",
    };
    let blocks = |row: &Row| row.shown("blocks", row.session.blocks.map(|it| number(it as u64)));
    let id = |row: &Row| if ids.is_long(row) { String::new() } else { ids.cut(row) };
    let mut columns = vec![
        Cells::of("id", Align::Left, rows.iter().map(id)),
        Cells::of("agent", Align::Left, rows.iter().map(agent)),
        Cells::of("where", Align::Left, rows.iter().map(|row| place(row).to_owned())),
        Cells::of("when", Align::Left, rows.iter().map(when)),
        Cells::of("project", Align::Left, rows.iter().map(project)),
        Cells::of(TITLE, Align::Left, rows.iter().map(Row::name)),
        Cells::of("blocks", Align::Right, rows.iter().map(blocks)),
        Cells::of("subagents", Align::Right, rows.iter().map(subagents)),
        Cells::of("cost", Align::Right, rows.iter().map(cost)),
    ];
    columns.retain(|column| !column.is_empty());
    fit(&mut columns, page.width());
    let cells =
        |row: usize| columns.iter().map(move |it| vec![Span::plain(&it.texts[row])]).collect();
    let long = |(place, row)| ids.is_long(row).then(|| (place, Span::plain(&ids.cut(row))));
    let above = rows.iter().enumerate().filter_map(long).collect();
    let rows: Vec<Vec<Vec<Span>>> = (0..rows.len()).map(cells).collect();
    let heads = columns.iter().map(|it| Column { title: Span::plain(it.title), align: it.align });
    draw_table_with_lines(page, &heads.collect::<Vec<_>>(), &rows, &above)
}

/// The column that takes the remaining width.
const TITLE: &str = "title";
/// How much of the titles is shown before other columns are.
const LEAST_TITLE: usize = 16;

/// Removes columns until titles have enough width, and truncates titles.
fn fit(columns: &mut Vec<Cells>, width: usize) {
    let widest = columns.iter().filter(|it| it.title == TITLE).map(Cells::width).max();
    let enough = widest.unwrap_or(0).min(LEAST_TITLE);
    for dispensable in ["", "project", "subagents", "agent", "blocks", "cost", "where", "when"] {
        columns.retain(|column| column.title != dispensable);
        let others: usize =
            columns.iter().filter(|it| it.title != TITLE).map(|it| it.width() + 2).sum();
        let room = width.saturating_sub(others);
        if room >= enough || dispensable == "when" {
            let titles = columns.iter_mut().filter(|it| it.title == TITLE);
            titles.for_each(|it| it.texts.iter_mut().for_each(|text| *text = cut(text, room)));
            return;
        }
    }
}

/// The widest id in its column. A longer one is drawn above its row, so that it widens no other.
const ID_WIDTH: usize = 16;
/// The least length of a shortened id.
const LEAST_ID: usize = 8;

/// The prefixes that identify sessions.
struct ShortIds {
    /// The length of each prefix, if it is longer than that of most.
    long: BTreeMap<String, usize>,
    /// The length of all others.
    length: usize,
}

impl ShortIds {
    fn of(rows: &[Row]) -> Self {
        let mut ids: Vec<&str> = rows.iter().map(|row| row.session.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        let shared = |one: &str, other: &str| {
            one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
        };
        let mut short = Self { long: BTreeMap::new(), length: LEAST_ID };
        for (place, id) in ids.iter().enumerate() {
            let before = place.checked_sub(1).and_then(|before| ids.get(before));
            let around = [before, ids.get(place + 1)];
            let least = around.into_iter().flatten().map(|other| shared(id, other) + 1).max();
            match least.unwrap_or(0) {
                length if length > ID_WIDTH => {
                    short.long.insert((*id).to_owned(), length);
                }
                length => short.length = short.length.max(length),
            }
        }
        short
    }

    fn is_long(&self, row: &Row) -> bool {
        self.long.contains_key(&row.session.id)
    }

    fn cut(&self, row: &Row) -> String {
        let length = self.long.get(&row.session.id).copied().unwrap_or(self.length);
        row.session.id.chars().take(length).collect()
    }
}

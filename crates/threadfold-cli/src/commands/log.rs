//! `threadfold log`: the records of a session, as they were received.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use anyhow::anyhow;
use clap::Args;
use jiff::tz::TimeZone;
use serde::Serialize;
use threadfold_core::{Payload, SessionEvent};
use threadfold_engine::{advance_fold, load};
use threadfold_fold::{Fold, RecordKind, Slices, SourceSpec, StoredRecord};
use threadfold_store::SessionEntry;

use crate::error::CommandError;
use crate::printable::{one_line, write_json};
use crate::store::{OpenStore, StoreArgs};
use crate::view::{cut, cut_front, size};

/// How many bytes of a record are read for its preview.
const LOOKED_AT: usize = 4_000;
/// How many characters of a record are shown.
const BEGINNING: usize = 60;

/// Show the records of a stored session, one per line
///
/// Each line has the record's number, time of receipt, source, kind, size, and first characters.
/// `view --at` shows the session as it was at a record.
#[derive(Args)]
pub(crate) struct LogArgs {
    /// Session to show: its id or a prefix of it
    session: String,
    /// Show the events of each record, too
    #[arg(long)]
    events: bool,
    /// First record to show
    #[arg(long, value_name = "SEQ", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    from: u64,
    /// Last record to show
    #[arg(long, value_name = "SEQ")]
    to: Option<u64>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// A record as `--json` prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    seq: u64,
    received: String,
    source: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<u32>,
    kind: &'static str,
    position: u64,
    bytes: usize,
    beginning: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<&'a [SessionEvent]>,
}

pub(crate) fn run(args: &LogArgs) -> Result<(), CommandError> {
    let store = args.store.open_to_read()?;
    let entry = store.find(&args.session)?;
    let head = entry.head.seq;
    if args.from > head {
        return Err(CommandError::new(
            anyhow!(
                "session `{}` ends at record {head}, and `--from` asks for {}",
                entry.session,
                args.from
            ),
            "without `--from` all records are shown",
        ));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let mut fold = begin(&store, &entry, args.from - 1)?;
    let mut sources: BTreeMap<u32, SourceSpec> =
        fold.sources().map(|it| (it.number, it.spec.clone())).collect();
    let shared = store.shared();
    let until = args.to.unwrap_or(head).min(head);
    let read = store.wait(advance_fold(&*shared, &mut fold, until, |record, step| {
        if let (RecordKind::Source, Ok(spec)) = (record.kind, serde_json::from_slice(&record.bytes))
        {
            sources.insert(record.source, spec);
        }
        let events = args.events.then_some(&step.events[..]);
        print(&mut out, args, record, sources.get(&record.source), events)
    }));
    read?;
    Ok(out.flush()?)
}

/// Returns the fold of all records before the first shown one.
fn begin(store: &OpenStore, entry: &SessionEntry, before: u64) -> Result<Fold, CommandError> {
    let shared = store.shared();
    let loaded = store.wait(load(&shared, &entry.session, before, Slices::default()))?;
    Ok(loaded.fold)
}

fn print(
    out: &mut impl Write,
    args: &LogArgs,
    record: &StoredRecord,
    source: Option<&SourceSpec>,
    events: Option<&[SessionEvent]>,
) -> Result<(), CommandError> {
    let received = jiff::Timestamp::from_millisecond(record.received.0).unwrap_or_default();
    let looked_at = &record.bytes[..record.bytes.len().min(LOOKED_AT)];
    let beginning = one_line(&String::from_utf8_lossy(looked_at));
    if args.json {
        let line = Line {
            seq: record.seq,
            received: received.to_string(),
            source: record.source,
            name: source.map(|it| it.name.as_str()),
            part: source.map(|it| it.part),
            kind: record.kind.name(),
            position: record.position,
            bytes: record.bytes.len(),
            beginning: beginning.chars().take(200).collect(),
            events,
        };
        write_json(out, &line)?;
        return Ok(writeln!(out)?);
    }
    let time = received.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let name = source.map_or_else(|| "–".to_owned(), |it| cut_front(&one_line(&it.name), 20));
    let (seq, kind, bytes) = (record.seq, record.kind.name(), size(record.bytes.len()));
    let beginning = cut(&beginning, BEGINNING);
    writeln!(out, "{seq:>6}  {time}  {name:<20}  {kind:<8}  {bytes:>7}  {beginning}")?;
    for event in events.unwrap_or_default() {
        let conversation = one_line(event.context.conversation_id.as_str());
        let kind = one_line(event.payload.kind());
        let about = one_line(&about(&event.payload));
        writeln!(out, "{}", format!("        {conversation}  {kind}  {about}").trim_end())?;
    }
    Ok(())
}

/// Returns the subject of an event, by id.
fn about(payload: &Payload) -> String {
    match payload {
        Payload::BlockUpsert(it) => format!("{} {}", it.block.id, it.block.body.kind()),
        Payload::BlockDelta(it) => it.block_id.to_string(),
        Payload::BlockRemove(it) => it.block_id.to_string(),
        Payload::SubagentSpawned(it) => it.tool_use_id.to_string(),
        Payload::SubagentCompleted(it) => it.tool_use_id.to_string(),
        Payload::MetadataUpdate(it) => {
            it.metadata.iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}

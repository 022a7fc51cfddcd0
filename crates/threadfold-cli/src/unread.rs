//! Reports what agents' places hold that this version does not read.

use std::io::{self, Write};

use jiff::Timestamp;
use serde::Serialize;
use threadfold_engine::{Unit, UnreadContent};

use crate::error::{CommandError, print_note};
use crate::printable::write_json;
use crate::view::count;

/// Something that is not read, as `--json` prints it.
#[derive(Serialize)]
struct UnreadLine<'a> {
    unread: Unread<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Unread<'a> {
    agent: &'static str,
    path: String,
    what: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    imported: bool,
    meaning: &'static str,
}

/// Prints a note for everything that is not read.
pub(crate) fn report_unread(unread: &[UnreadContent]) {
    for it in unread {
        let number = usize::try_from(it.count).unwrap_or(usize::MAX);
        let counted = match it.unit {
            Unit::Row => count(number, "row", "rows"),
            Unit::File => count(number, "file", "files"),
        };
        let since = since(it).map(|time| format!(" since {time}")).unwrap_or_default();
        let place = it.place.display();
        let how = if it.is_imported { "not understood" } else { "not read" };
        print_note(format_args!(
            "{}: {how}: {} in `{place}`, {counted}{since}; {}",
            it.agent.title(),
            it.what,
            it.meaning
        ));
    }
}

/// Prints a JSON object for everything that is not read.
pub(crate) fn write_unread(
    out: &mut impl Write,
    unread: &[UnreadContent],
) -> Result<(), CommandError> {
    for it in unread {
        let of = |unit| (it.unit == unit).then_some(it.count);
        let unread = Unread {
            agent: it.agent.name(),
            path: it.place.display().to_string(),
            what: &it.what,
            rows: of(Unit::Row),
            files: of(Unit::File),
            since: since(it),
            imported: it.is_imported,
            meaning: it.meaning,
        };
        write_json(out, &UnreadLine { unread })?;
        writeln!(out)?;
    }
    Ok(())
}

/// Prints the same to stdout.
pub(crate) fn print_unread(unread: &[UnreadContent]) -> Result<(), CommandError> {
    write_unread(&mut io::stdout().lock(), unread)
}

/// Returns the day since when there is something, in UTC.
fn since(it: &UnreadContent) -> Option<String> {
    let time = Timestamp::try_from(it.since?).ok()?;
    Some(time.strftime("%Y-%m-%d").to_string())
}

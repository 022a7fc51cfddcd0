//! How a client asks for a session: from which cursor on, and in which view.

use threadfold_fold::Cursor;

use crate::problem::Problem;

/// Parses a cursor.
pub(crate) fn parse_after(after: Option<&str>) -> Result<Option<Cursor>, Problem> {
    let parse = |text: &str| {
        text.parse().map_err(|_| {
            let hint = "send the `cursor` of the last frame as it was, or none";
            Problem::bad_request(format!("`{text}` is not a cursor"), hint)
        })
    };
    after.filter(|it| !it.is_empty()).map(parse).transpose()
}

/// Parses a view, and returns whether it is that of events.
pub(crate) fn parse_view(view: Option<&str>) -> Result<bool, Problem> {
    match view {
        None | Some("changes") => Ok(false),
        Some("events") => Ok(true),
        Some(other) => Err(Problem::bad_request(
            format!("`{other}` is not a view"),
            "`view` is `events` for a client with a reducer, or `changes` for one without",
        )),
    }
}

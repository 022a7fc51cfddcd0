//! Which files make a session, and in which order they are read.
//!
//! Up to 1.1 a session is a folder of small files: `storage/session`, `storage/message`,
//! `storage/part`. Exports and dumps of the database are files of their own.

/// Returns the paths that hold something of a session, in the order to read them: what tells of
/// sessions, then of messages, then of parts.
///
/// ```
/// use threadfold_convert::opencode::layout::in_order;
///
/// let paths = ["storage/part/m/p.json", "storage/session_diff/s.json", "storage/message/s/m.json"];
/// assert_eq!(in_order(&paths), ["storage/message/s/m.json", "storage/part/m/p.json"]);
/// ```
pub fn in_order<'a>(paths: &[&'a str]) -> Vec<&'a str> {
    let mut sorted: Vec<_> = paths.iter().filter_map(|path| Some((kind(path)?, *path))).collect();
    sorted.sort();
    sorted.into_iter().map(|(_, path)| path).collect()
}

/// Returns what a path holds, in the order of reading; nothing if it is not of a session.
fn kind(path: &str) -> Option<u8> {
    let mut folders = path.split(['/', '\\']).rev().skip(1);
    let below = |name: &str| folders.clone().take(2).any(|folder| folder == name);
    match () {
        () if below("session") => Some(1),
        () if below("message") => Some(2),
        () if below("part") => Some(3),
        () if folders.any(|folder| folder == "storage") => None,
        () => Some(0),
    }
}

/// Returns the name of a file within the folder `storage`; nothing if it is not in one.
pub(crate) fn name_in_storage(path: &str) -> Option<String> {
    let names: Vec<&str> = path.split(['/', '\\']).collect();
    let is_kind = |name: &&str| ["session", "message", "part"].contains(name);
    let start = names.len().checked_sub(3)?;
    let kind = names[start..].iter().position(is_kind).map(|place| start + place)?;
    Some(names[kind..].join("/"))
}

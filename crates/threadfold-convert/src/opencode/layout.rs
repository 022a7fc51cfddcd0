//! Finds the files of a session, and the order in which they are read.
//!
//! Up to 1.1 a session is many small files in `storage/session`, `storage/message` and
//! `storage/part`. An export or a dump of the database is one file.

/// Returns the paths that hold parts of sessions, in reading order: sessions, messages, parts.
///
/// A part needs its message's role, and a message its session's parent. Other files of the storage
/// folder are left out.
pub(super) fn in_order<'a>(paths: &[&'a str]) -> Vec<&'a str> {
    let mut sorted: Vec<_> = paths.iter().filter_map(|path| Some((rank(path)?, *path))).collect();
    sorted.sort();
    sorted.into_iter().map(|(_, path)| path).collect()
}

/// Returns the rank of a path in reading order; nothing if it is no part of a session.
fn rank(path: &str) -> Option<u8> {
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
///
/// Block ids of unknown records contain it, so it must not depend on where the folder is.
pub(super) fn name_in_storage(path: &str) -> Option<String> {
    let names: Vec<&str> = path.split(['/', '\\']).collect();
    let is_kind = |name: &&str| ["session", "message", "part"].contains(name);
    let start = names.len().checked_sub(3)?;
    let kind = names[start..].iter().position(is_kind).map(|place| start + place)?;
    Some(names[kind..].join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_before_parts_and_other_files_not_at_all() {
        let paths =
            ["storage/part/m/p.json", "storage/session_diff/s.json", "storage/message/s/m.json"];
        assert_eq!(in_order(&paths), ["storage/message/s/m.json", "storage/part/m/p.json"]);
    }
}

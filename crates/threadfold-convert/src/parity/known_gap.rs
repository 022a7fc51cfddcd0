//! Known gaps: fields that an agent has on one side only, with the versions in which that was
//! recorded.
//!
//! Each agent's folder has them as a table, `known_gaps.txt`, so that one row is one line.

use std::collections::BTreeMap;

use super::Side;

/// Fields of one kind of record that an agent has on one side only, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownGap {
    /// The reason's name, which several rows share.
    pub name: &'static str,
    /// The kind of record, as the agent names it; `*` for every kind that this side has.
    pub record: &'static str,
    /// The fields, as [`normalize`] writes them; a field covers what is inside it.
    pub fields: Vec<String>,
    /// The side that has them.
    pub side: Side,
    /// The other side lacks the whole record, and not only these fields of it.
    pub whole: bool,
    /// The versions in which this was recorded.
    pub versions: Versions,
    /// A recording that shows it.
    pub recording: &'static str,
    /// Why they are on one side only.
    pub reason: &'static str,
}

/// The versions of an agent in which something was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The first recorded version that shows it.
    pub first: &'static str,
    /// The last recorded version that shows it.
    ///
    /// Without a later one that contradicts it, it also holds for versions that are newer than any
    /// recording.
    pub last: &'static str,
    /// The last recorded version before `first`, if that contradicts it.
    pub after: Option<&'static str>,
    /// The first recorded version after `last`, if that contradicts it.
    pub until: Option<&'static str>,
}

impl Versions {
    /// Returns versions from the first to the last one that was recorded.
    pub const fn seen(first: &'static str, last: &'static str) -> Self {
        Self { first, last, after: None, until: None }
    }

    /// Returns these versions before `until`, which contradicts them.
    pub const fn before(self, until: &'static str) -> Self {
        Self { until: Some(until), ..self }
    }

    /// Returns these versions after `after`, which contradicts them.
    pub const fn after(self, after: &'static str) -> Self {
        Self { after: Some(after), ..self }
    }

    /// Returns whether a version is among these; an unknown version is.
    pub fn include(&self, version: Option<&str>) -> bool {
        let Some(version) = version.map(numbers) else { return true };
        self.until.is_none_or(|until| version < numbers(until))
            && self.after.is_none_or(|after| version > numbers(after))
    }

    /// Parses `first..last, not after until`; a single version is `first`.
    fn parse(text: &'static str) -> Option<Self> {
        let (seen, contradicting) = text.split_once(", not ").unwrap_or((text, ""));
        let (first, last) = seen.split_once("..").unwrap_or((seen, seen));
        let is_version = |it: &str| it.split('.').all(|part| part.parse::<u64>().is_ok());
        let mut versions = Self::seen(first, last);
        for version in contradicting.split_whitespace() {
            if numbers(version) < numbers(first) {
                versions = versions.after(version);
            } else if numbers(version) > numbers(last) {
                versions = versions.before(version);
            } else {
                return None;
            }
        }
        let bounds = [Some(first), Some(last), versions.after, versions.until];
        bounds.into_iter().flatten().all(is_version).then_some(versions)
    }
}

fn numbers(version: &str) -> Vec<u64> {
    let release = version.split(['-', '+']).next().unwrap_or(version);
    release.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}

impl KnownGap {
    /// Returns whether this names the field of this kind of record.
    pub fn covers(&self, record: &str, field: &str, side: Side) -> bool {
        let names_record = self.record == record || self.record == "*";
        names_record && self.side == side && self.names_field(&normalize(field))
    }

    fn names_field(&self, field: &str) -> bool {
        self.fields.iter().any(|it| is_within(it, field))
    }
}

/// Returns whether a field that a row names is this one, or contains it. A `*` stands for a name that
/// differs from record to record, such as that of a model.
pub fn is_within(named: &str, field: &str) -> bool {
    let mut steps = field.split('.');
    named.split('.').all(|name| steps.next().is_some_and(|step| name == "*" || name == step))
}

/// Parses a table of known gaps.
///
/// # Panics
///
/// Panics if the table is malformed: it is part of the program, and a test reads it.
pub(crate) fn parse(table: &'static str) -> Vec<KnownGap> {
    let mut gaps = Vec::new();
    let mut sets: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut section = None;
    let mut reason = "";
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(header) = line.strip_prefix('[') {
            section = parse_header(header);
            assert!(section.is_some(), "a section is `[name] records|fields of the side`: {line}");
        } else if let Some(why) = line.strip_prefix("why: ") {
            reason = why;
        } else if let Some((set, fields)) = line.split_once(" = ").filter(|_| line.starts_with('@'))
        {
            sets.insert(set, fields.split_whitespace().map(normalize).collect());
        } else {
            let row: Vec<&'static str> = line.split('|').map(str::trim).collect();
            let (&[record, versions, recording, fields], Some((name, whole, side))) =
                (&row[..], section)
            else {
                panic!("a row is `record | versions | recording | fields`: {line}");
            };
            let versions = Versions::parse(versions);
            let versions = versions.unwrap_or_else(|| panic!("no versions: {line}"));
            let fields = fields.split_whitespace().flat_map(|it| match sets.get(it) {
                Some(set) => set.clone(),
                None => vec![normalize(it)],
            });
            let fields = fields.collect();
            gaps.push(KnownGap { name, record, fields, side, whole, versions, recording, reason });
        }
    }
    gaps
}

fn parse_header(header: &'static str) -> Option<(&'static str, bool, Side)> {
    let (name, rest) = header.split_once("] ")?;
    let (what, side) = rest.split_once(" of the ")?;
    let whole = match what {
        "records" => true,
        "fields" => false,
        _ => return None,
    };
    match side {
        "stream" => Some((name, whole, Side::Stream)),
        "transcript" => Some((name, whole, Side::Transcript)),
        _ => None,
    }
}

/// Returns the name of a field in the one form that known gaps and facts use: camel case, and without
/// the numbers of elements.
///
/// Streams and files of an agent may write the same name in two cases.
pub fn normalize(field: &str) -> String {
    let mut name = String::with_capacity(field.len());
    let (mut is_number, mut is_start) = (false, false);
    for letter in field.chars() {
        match letter {
            '[' => is_number = true,
            ']' => is_number = false,
            _ if is_number => {}
            '_' if !name.is_empty() && !name.ends_with('.') => is_start = true,
            _ if is_start => {
                name.extend(letter.to_uppercase());
                is_start = false;
            }
            _ => name.push(letter),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_stream_and_file_become_one() {
        assert_eq!(normalize("tool_use_result.content[12].text"), "toolUseResult.content.text");
        assert_eq!(normalize("toolUseResult.content[0].text"), "toolUseResult.content.text");
    }

    #[test]
    fn a_row_may_leave_a_name_open() {
        let is_window = |field: &str| is_within("modelUsage.*.contextWindow", field);
        assert!(is_window("modelUsage.claude-a.contextWindow"));
        assert!(!is_window("modelUsage.claude-a.costUSD") && !is_window("modelUsage.claude-a"));
        assert!(is_within("usage", "usage.inputTokens") && !is_within("usage", "usageOfOthers"));
    }

    #[test]
    fn a_gap_holds_until_the_first_version_that_contradicts_it() {
        let old = Versions::parse("1.0.128..2.1.239, not 2.1.325").unwrap();
        let includes = |version| old.include(Some(version));
        assert!(includes("1.0.128") && includes("2.1.50") && includes("2.1.324"));
        assert!(!includes("2.1.325") && !includes("2.2.0"));
        let new = Versions::parse("2.1.325, not 2.1.239").unwrap();
        assert!(new.include(Some("3.0.0")) && !new.include(Some("2.1.239")));
        assert_eq!(Versions::parse("2.1.100..2.1.325, not 2.1.197"), None);
    }

    #[test]
    fn a_row_of_the_table_is_one_line() {
        let gaps = parse(
            "# comment\n@line = uuid time_stamp\n\n[hook] records of the stream\nwhy: it is not stored\n\
             system/hook | 2.1.30 | hooks | @line hook_id\n",
        );
        let fields = ["uuid", "timeStamp", "hookId"].map(str::to_owned).to_vec();
        let versions = Versions::seen("2.1.30", "2.1.30");
        let (name, record, recording) = ("hook", "system/hook", "hooks");
        let (side, whole, reason) = (Side::Stream, true, "it is not stored");
        let gap = KnownGap { name, record, fields, side, whole, versions, recording, reason };
        assert_eq!(gaps, [gap]);
    }
}

//! Formats numbers and times for people.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

const DAY: i64 = 24 * 60 * 60;

/// Returns a count with its singular or plural noun.
pub fn count(amount: usize, one: &str, many: &str) -> String {
    let name = if amount == 1 { one } else { many };
    format!("{} {name}", number(amount as u64))
}

/// Returns a number with thousands separators.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns an amount of US dollars; small ones with their first significant digits.
pub fn cost(dollars: f64) -> String {
    if dollars > 0.0 && dollars < 0.0001 {
        "<$0.0001".to_owned()
    } else if dollars < 1.0 {
        format!("${dollars:.4}")
    } else {
        format!("${dollars:.2}")
    }
}

/// Returns a duration.
pub fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..10_000 => format!("{:.1} s", milliseconds as f64 / 1000.0),
        10_000..60_000 => format!("{seconds} s"),
        60_000..3_600_000 => format!("{minutes} min {} s", seconds % 60),
        _ if hours < 48 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} days {} h", hours / 24, hours % 24),
    }
}

/// Returns a size in bytes.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} KB", (bytes + 500) / 1_000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Returns how long ago something was; its date, if that is more than a week.
pub fn ago(then: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    match now.as_second() - then.as_second() {
        0..60 => "just now".to_owned(),
        passed @ 60..3_600 => format!("{} min ago", passed / 60),
        passed @ 3_600..DAY => format!("{} h ago", passed / 3_600),
        passed if (DAY..7 * DAY).contains(&passed) => match passed / DAY {
            1 => "1 day ago".to_owned(),
            days => format!("{days} days ago"),
        },
        _ => then.to_zoned(zone.clone()).strftime("%Y-%m-%d").to_string(),
    }
}

/// Parses a time from a source, in this machine's time zone.
pub fn local_time(spelt: &str) -> Option<Zoned> {
    let time: Timestamp = spelt.parse().ok()?;
    Some(time.to_zoned(TimeZone::system()))
}

/// Returns the milliseconds between two times from a source.
pub fn between(start: &str, end: &str) -> Option<u64> {
    let (start, end): (Timestamp, Timestamp) = (start.parse().ok()?, end.parse().ok()?);
    u64::try_from(end.as_millisecond() - start.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_thousands_separators() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn durations_have_at_most_two_units() {
        let said =
            [0, 999, 2_140, 59_999, 61_000, 3_600_000, 90_000_000, 260_000_000].map(duration);
        let wanted = [
            "0 ms",
            "999 ms",
            "2.1 s",
            "59 s",
            "1 min 1 s",
            "1 h 0 min",
            "25 h 0 min",
            "3 days 0 h",
        ];
        assert_eq!(said, wanted);
    }

    #[test]
    fn small_amounts_show_digits_that_count() {
        assert_eq!(
            [0.0, 0.00001, 0.0123, 12.3456].map(cost),
            ["$0.0000", "<$0.0001", "$0.0123", "$12.35"]
        );
    }

    #[test]
    fn sizes_are_rounded() {
        assert_eq!([0, 999, 12_345, 3_210_000].map(size), ["0 B", "999 B", "12 KB", "3.2 MB"]);
    }

    #[test]
    fn recent_times_are_relative_and_older_ones_are_dates() {
        let now: Timestamp = "2026-03-10T12:00:00Z".parse().unwrap();
        let said = |then: &str| ago(then.parse().unwrap(), now, &TimeZone::UTC);
        let told = [
            "2026-03-10T11:59:30Z",
            "2026-03-10T11:15:00Z",
            "2026-03-10T09:00:00Z",
            "2026-03-09T11:00:00Z",
            "2026-03-06T11:00:00Z",
            "2026-03-01T11:00:00Z",
            "2026-03-11T11:00:00Z",
        ]
        .map(said);
        let wanted = [
            "just now",
            "45 min ago",
            "3 h ago",
            "1 day ago",
            "4 days ago",
            "2026-03-01",
            "2026-03-11",
        ];
        assert_eq!(told, wanted);
    }

    #[test]
    fn invalid_times_are_ignored() {
        assert_eq!(between("2026-03-10T12:00:00Z", "2026-03-10T12:00:01.5Z"), Some(1_500));
        assert_eq!(between("2026-03-10T12:00:01Z", "2026-03-10T12:00:00Z"), None);
        assert_eq!(between("yesterday", "today"), None);
    }
}

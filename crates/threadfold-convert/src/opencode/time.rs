//! Converts OpenCode's milliseconds to the ISO 8601 times of events.

use std::sync::Arc;

/// Returns milliseconds since 1970 as ISO 8601, in UTC.
pub(super) fn iso(milliseconds: f64) -> Option<Arc<str>> {
    const DAY: i64 = 86_400_000;
    // Later than the year 9999 the format has no room, and no clock is right.
    if !(0.0..253_402_300_800_000.0).contains(&milliseconds) {
        return None;
    }
    let milliseconds = milliseconds as i64;
    let (days, rest) = (milliseconds.div_euclid(DAY), milliseconds.rem_euclid(DAY));
    // Days are counted from 1 March of year 0, so that a leap day is the last day of its year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1_000 % 60, rest % 1_000);
    Some(
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_right_at_the_edges() {
        let text = |ms: f64| iso(ms).map(|it| it.to_string());
        assert_eq!(text(0.0).as_deref(), Some("1970-01-01T00:00:00.000Z"));
        assert_eq!(text(951_782_400_000.0).as_deref(), Some("2000-02-29T00:00:00.000Z"));
        assert_eq!(text(1_794_771_710_594.0).as_deref(), Some("2026-11-15T19:41:50.594Z"));
        assert_eq!(text(4_107_542_399_999.0).as_deref(), Some("2100-02-28T23:59:59.999Z"));
        assert_eq!((text(-1.0), text(f64::NAN), text(1e300)), (None, None, None));
    }
}

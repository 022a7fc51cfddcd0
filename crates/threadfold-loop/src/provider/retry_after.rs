//! The delay that a provider requests in its headers.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// Reads `retry-after-ms`, then `retry-after` as seconds or as a date.
///
/// A date is compared with the provider's own clock if it is given, because ours may be wrong.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|it| it.to_str().ok()).map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok();
    if let Some(milliseconds) = text("retry-after-ms").and_then(number) {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    let value = text(RETRY_AFTER.as_str())?;
    if let Some(seconds) = number(value) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = date(value)?;
    let now = text(DATE.as_str()).and_then(date).unwrap_or(now);
    Some(Duration::try_from(until.duration_since(now)).unwrap_or_default())
}

fn date(text: &str) -> Option<Timestamp> {
    rfc2822::parse(text).ok().map(|it| it.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        let pairs = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        retry_after(&pairs.collect(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn seconds_milliseconds_and_dates_are_read() {
        assert_eq!(read(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(read(&[("retry-after", "0.5")]), Some(Duration::from_millis(500)));
        let both = [("retry-after", "7"), ("retry-after-ms", "250")];
        assert_eq!(read(&both), Some(Duration::from_millis(250)));
        let later = ("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT");
        let date = ("date", "Wed, 21 Oct 2015 07:28:00 GMT");
        assert_eq!(read(&[later, date]), Some(Duration::from_secs(30)));
        assert_eq!(read(&[date, ("retry-after", date.1)]), Some(Duration::ZERO));
        let soon = ("retry-after", "Thu, 01 Jan 1970 00:00:09 GMT");
        assert_eq!(read(&[soon]), Some(Duration::from_secs(9)));
        assert_eq!(read(&[soon, date]), Some(Duration::ZERO));
    }

    #[test]
    fn invalid_headers_are_ignored() {
        for odd in ["", "soon", "-1", "NaN", "1e300"] {
            assert_eq!(read(&[("retry-after", odd)]), None, "{odd}");
        }
        assert_eq!(read(&[]), None);
    }
}

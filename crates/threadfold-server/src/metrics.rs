//! Counters of the server, in the text format of Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that others read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    /// Raises it to a value.
    pub(crate) fn raise(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the server counts.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) requests: Counter,
    pub(crate) refused: Counter,
    pub(crate) failures: Counter,
    pub(crate) connections: Counter,
    pub(crate) websockets: Counter,
    pub(crate) event_streams: Counter,
    pub(crate) subscriptions: Counter,
    /// Frames that were serialized, once each.
    pub(crate) frames: Counter,
    /// Frames that were written, to each subscriber.
    pub(crate) deliveries: Counter,
    pub(crate) delivered_bytes: Counter,
    pub(crate) gaps: Counter,
    /// The most bytes that one connection held while its client did not read.
    pub(crate) most_pending: Counter,
    pub(crate) records: Counter,
}

/// A number that is asked for when it is shown.
pub(crate) struct Gauge {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) value: u64,
}

impl Metrics {
    /// Returns all numbers as text.
    pub(crate) fn text(&self, gauges: &[Gauge]) -> String {
        let counters = [
            ("requests_total", "Requests that were received.", &self.requests),
            ("requests_refused_total", "Requests without permission.", &self.refused),
            ("requests_failed_total", "Requests that the server could not answer.", &self.failures),
            ("frames_total", "Frames that were serialized, once each.", &self.frames),
            ("deliveries_total", "Frames that were written to subscribers.", &self.deliveries),
            (
                "delivered_bytes_total",
                "Bytes that were written to subscribers.",
                &self.delivered_bytes,
            ),
            ("gaps_total", "Clients that were told of a gap.", &self.gaps),
            ("records_received_total", "Records that clients pushed.", &self.records),
        ];
        let own = [
            ("connections", "Open connections.", &self.connections),
            ("websockets", "Open WebSockets.", &self.websockets),
            ("event_streams", "Open streams of server-sent events.", &self.event_streams),
            ("subscriptions", "Sessions that clients listen to.", &self.subscriptions),
            ("pending_bytes_max", "Most bytes held for one slow client.", &self.most_pending),
        ];
        let mut text = String::new();
        for (name, help, counter) in counters {
            line(&mut text, name, help, "counter", counter.value());
        }
        for (name, help, counter) in own {
            line(&mut text, name, help, "gauge", counter.value());
        }
        for Gauge { name, help, value } in gauges {
            line(&mut text, name, help, "gauge", *value);
        }
        text
    }
}

fn line(text: &mut String, name: &str, help: &str, kind: &str, value: u64) {
    let name = format!("threadfold_{name}");
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}")
        .expect("a string cannot fail");
}

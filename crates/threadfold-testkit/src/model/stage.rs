//! What all connections of one model share: the scripts, and the little that must be counted.

use std::{
    collections::{HashMap, HashSet},
    net::{Shutdown, TcpStream},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::script::Script;

/// A request that a model received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRequest {
    /// The path, without its query.
    pub path: String,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// What was played, if the request had a directive.
    pub played: Option<Played>,
}

impl ModelRequest {
    /// Returns the body as JSON; `null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// Which step was played for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// The script's name.
    pub script: String,
    /// The step, from zero.
    pub step: usize,
    /// Which attempt at this step it was, from one.
    pub attempt: u32,
}

/// The shared state of a running model.
pub(crate) struct Stage {
    pub(crate) scripts: HashMap<String, Script>,
    /// Whether a request that offers no tools counts as one without a directive.
    pub(crate) tools_required: bool,
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Default)]
struct Counts {
    messages: u64,
    tools: u64,
    attempts: HashMap<(String, usize), u32>,
    requests: Vec<ModelRequest>,
    released: HashSet<String>,
    connections: HashMap<u64, TcpStream>,
    accepted: u64,
    stopped: bool,
}

impl Stage {
    pub(crate) fn new(scripts: HashMap<String, Script>, tools_required: bool) -> Self {
        Self { scripts, tools_required, counts: Mutex::default(), changed: Condvar::new() }
    }

    /// Counts an attempt at a step, and returns which one it is.
    pub(crate) fn attempt(&self, script: &str, step: usize) -> u32 {
        let mut counts = self.counts();
        let attempt = counts.attempts.entry((script.to_owned(), step)).or_default();
        *attempt += 1;
        *attempt
    }

    /// Returns a message id that this model has not used.
    pub(crate) fn message_id(&self, prefix: &str) -> String {
        let mut counts = self.counts();
        counts.messages += 1;
        format!("{prefix}{:06}", counts.messages)
    }

    /// Returns a tool-call id that this model has not used.
    pub(crate) fn tool_id(&self, prefix: &str) -> String {
        let mut counts = self.counts();
        counts.tools += 1;
        format!("{prefix}{:06}", counts.tools)
    }

    pub(crate) fn record(&self, request: ModelRequest) {
        self.counts().requests.push(request);
        self.changed.notify_all();
    }

    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.counts().requests.clone()
    }

    /// Waits until `happened` says yes to the requests so far, and returns whether it did.
    pub(crate) fn wait_for(
        &self,
        limit: Duration,
        happened: impl Fn(&[ModelRequest]) -> bool,
    ) -> bool {
        let counts = self.counts();
        let (_counts, wait) = self
            .changed
            .wait_timeout_while(counts, limit, |it| !happened(&it.requests))
            .unwrap_or_else(PoisonError::into_inner);
        !wait.timed_out()
    }

    pub(crate) fn release(&self, gate: &str) {
        self.counts().released.insert(gate.to_owned());
        self.changed.notify_all();
    }

    /// Waits until `gate` is released; returns false if the model is stopped before.
    pub(crate) fn hold(&self, gate: &str) -> bool {
        let counts = self
            .changed
            .wait_while(self.counts(), |it| !it.stopped && !it.released.contains(gate))
            .unwrap_or_else(PoisonError::into_inner);
        !counts.stopped
    }

    /// Waits so long; returns false if the model is stopped before.
    pub(crate) fn pause(&self, length: Duration) -> bool {
        let until = Instant::now() + length;
        let mut counts = self.counts();
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            if counts.stopped || rest.is_zero() {
                return !counts.stopped;
            }
            counts =
                self.changed.wait_timeout(counts, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes an open connection, so that a stop can end it; `None` if the model is stopped.
    pub(crate) fn open(&self, stream: &TcpStream) -> Option<u64> {
        let stream = stream.try_clone().ok()?;
        let mut counts = self.counts();
        if counts.stopped {
            return None;
        }
        counts.accepted += 1;
        let number = counts.accepted;
        counts.connections.insert(number, stream);
        Some(number)
    }

    pub(crate) fn close(&self, connection: u64) {
        self.counts().connections.remove(&connection);
    }

    /// Ends all connections and waits, and lets no new ones begin.
    pub(crate) fn stop(&self) {
        let mut counts = self.counts();
        counts.stopped = true;
        for (_, stream) in counts.connections.drain() {
            // A client that is gone already is as good as stopped.
            stream.shutdown(Shutdown::Both).ok();
        }
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.counts().stopped
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Every change is a single step, so a panic elsewhere cannot leave half of one.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

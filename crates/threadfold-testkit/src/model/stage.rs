//! The shared state of a model's connections: the scripts, and a few counters.

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
    /// The step that was played, if the request had a directive.
    pub played: Option<PlayedStep>,
}

impl ModelRequest {
    /// Returns the body as JSON; `null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// The step played for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayedStep {
    /// The script's name.
    pub script: String,
    /// The step, from zero.
    pub step: usize,
    /// The number of the attempt at this step, from one.
    pub attempt: u32,
}

/// The shared state of a running model.
pub(crate) struct Stage {
    pub(crate) scripts: HashMap<String, Script>,
    /// Whether a request without tools counts as one without a directive.
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

    /// Counts an attempt at a step, and returns its number.
    pub(crate) fn attempt(&self, script: &str, step: usize) -> u32 {
        let mut counts = self.counts();
        let attempt = counts.attempts.entry((script.to_owned(), step)).or_default();
        *attempt += 1;
        *attempt
    }

    /// Returns an unused message id.
    pub(crate) fn message_id(&self, prefix: &str) -> String {
        let mut counts = self.counts();
        counts.messages += 1;
        format!("{prefix}{:06}", counts.messages)
    }

    /// Returns an unused tool-call id.
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

    /// Waits until `happened` returns true for the requests so far, and returns whether it did.
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

    /// Waits until `gate` is released; returns false if the model is stopped first.
    pub(crate) fn hold(&self, gate: &str) -> bool {
        let counts = self
            .changed
            .wait_while(self.counts(), |it| !it.stopped && !it.released.contains(gate))
            .unwrap_or_else(PoisonError::into_inner);
        !counts.stopped
    }

    /// Waits this long; returns false if the model is stopped first.
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

    /// Registers an open connection, so that a stop can close it; `None` if the model is stopped.
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

    /// Closes all connections, ends all waits, and accepts no new connections.
    pub(crate) fn stop(&self) {
        let mut counts = self.counts();
        counts.stopped = true;
        for (_, stream) in counts.connections.drain() {
            // A client that is already gone needs no stop.
            stream.shutdown(Shutdown::Both).ok();
        }
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.counts().stopped
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Every change is atomic, so a panic elsewhere cannot leave an inconsistent state.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The world outside of the killed process: records the effects of tools.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use threadfold_core::Effect;

use crate::BoxError;
use crate::story::TOOLS;

/// The recorded effects of tools, and a server that the tools report to.
#[derive(Clone)]
pub struct World {
    address: SocketAddr,
    effects: Arc<(Mutex<Effects>, Condvar)>,
}

#[derive(Default)]
struct Effects {
    /// How often each call was started, by its key.
    started: BTreeMap<String, u64>,
    /// The tool of each call.
    tools: BTreeMap<String, String>,
    /// The calls that took effect.
    applied: BTreeSet<String>,
    /// How often an effect was applied twice.
    doubled: u64,
    undone: u64,
    /// The tool to hold.
    held: Option<String>,
    is_holding: bool,
}

/// Returns true if applying the effect twice without an undo is harmful.
fn harms_twice(tool: &str) -> bool {
    let effect = TOOLS.iter().find(|(name, _)| *name == tool).map(|(_, effect)| *effect);
    effect.is_none_or(|effect| effect > Effect::Idempotent)
}

impl World {
    /// Starts a world without any effects.
    pub fn begin() -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let world = Self { address, effects: Arc::default() };
        let served = world.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let world = served.clone();
                thread::spawn(move || world.serve(stream));
            }
        });
        Ok(world)
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn effects_mut(&self) -> MutexGuard<'_, Effects> {
        self.effects.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one tool until it disconnects, which it does when its process is killed.
    fn serve(&self, stream: TcpStream) {
        let Ok(reading) = stream.try_clone() else { return };
        let mut stream = stream;
        for line in BufReader::new(reading).lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            let [verb, tool, key] = words[..] else { return };
            let answer = self.record(verb, tool, key);
            if writeln!(stream, "{answer}").is_err() {
                return;
            }
        }
    }

    fn record(&self, verb: &str, tool: &str, key: &str) -> &'static str {
        let mut effects = self.effects_mut();
        match verb {
            "begin" => {
                *effects.started.entry(key.to_owned()).or_default() += 1;
                effects.tools.insert(key.to_owned(), tool.to_owned());
                if effects.held.as_deref() == Some(tool) {
                    effects.is_holding = true;
                    self.effects.1.notify_all();
                    while effects.is_holding {
                        let waited = self.effects.1.wait(effects);
                        effects = waited.unwrap_or_else(PoisonError::into_inner);
                    }
                }
                "ok"
            }
            "apply" => {
                let is_new = effects.applied.insert(key.to_owned());
                effects.doubled += u64::from(!is_new && harms_twice(tool));
                "ok"
            }
            "undo" => {
                effects.applied.remove(key);
                effects.undone += 1;
                "ok"
            }
            "applied" if effects.applied.contains(key) => "yes",
            "applied" => "no",
            _ => "what",
        }
    }

    /// Returns how often each call was started.
    pub fn started(&self) -> BTreeMap<String, u64> {
        self.effects_mut().started.clone()
    }

    /// Returns how often each call of a tool was started.
    pub fn started_by(&self, tool: &str) -> Vec<u64> {
        let effects = self.effects_mut();
        let of_tool = effects.tools.iter().filter(|(_, name)| *name == tool);
        of_tool.filter_map(|(key, _)| effects.started.get(key).copied()).collect()
    }

    /// Returns the number of effects, and how many were applied twice.
    pub fn effects(&self) -> (usize, u64) {
        let effects = self.effects_mut();
        (effects.applied.len(), effects.doubled)
    }

    /// Holds the next call of a tool in the middle.
    pub fn hold(&self, tool: &str) {
        self.effects_mut().held = Some(tool.to_owned());
    }

    /// Waits until a tool is held.
    pub fn wait_until_held(&self) {
        let mut effects = self.effects_mut();
        while !effects.is_holding {
            effects = self.effects.1.wait(effects).unwrap_or_else(PoisonError::into_inner);
        }
        effects.held = None;
    }

    /// Releases the held tool.
    pub fn release(&self) {
        self.effects_mut().is_holding = false;
        self.effects.1.notify_all();
    }
}

//! The world outside of the process that is killed: it counts what tools do to it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use threadfold_core::Effect;

use crate::BoxError;
use crate::story::TOOLS;

/// What tools did, and a server that they tell it to.
#[derive(Clone)]
pub struct World {
    address: SocketAddr,
    known: Arc<(Mutex<Known>, Condvar)>,
}

#[derive(Default)]
struct Known {
    /// How often each call was begun, by its key.
    begun: BTreeMap<String, u64>,
    /// The tool of each call.
    tools: BTreeMap<String, String>,
    /// Which calls had their effect.
    applied: BTreeSet<String>,
    /// How often an effect happened on top of itself.
    doubled: u64,
    undone: u64,
    /// A tool that is kept waiting.
    held: Option<String>,
    is_holding: bool,
}

/// Says whether doing it again without taking it back does something again.
fn harms_twice(tool: &str) -> bool {
    let effect = TOOLS.iter().find(|(name, _)| *name == tool).map(|(_, effect)| *effect);
    effect.is_none_or(|effect| effect > Effect::Idempotent)
}

impl World {
    /// Begins a world in which nothing was done.
    pub fn begin() -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let world = Self { address, known: Arc::default() };
        let served = world.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let world = served.clone();
                thread::spawn(move || world.serve(stream));
            }
        });
        Ok(world)
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears one tool. One whose process was killed says nothing more, and that is all.
    fn serve(&self, stream: TcpStream) {
        let Ok(reading) = stream.try_clone() else { return };
        let mut stream = stream;
        for line in BufReader::new(reading).lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            let [verb, tool, key] = words[..] else { return };
            let answer = self.hear(verb, tool, key);
            if writeln!(stream, "{answer}").is_err() {
                return;
            }
        }
    }

    fn hear(&self, verb: &str, tool: &str, key: &str) -> &'static str {
        let mut known = self.known();
        match verb {
            "begin" => {
                *known.begun.entry(key.to_owned()).or_default() += 1;
                known.tools.insert(key.to_owned(), tool.to_owned());
                if known.held.as_deref() == Some(tool) {
                    known.is_holding = true;
                    self.known.1.notify_all();
                    while known.is_holding {
                        let waited = self.known.1.wait(known);
                        known = waited.unwrap_or_else(PoisonError::into_inner);
                    }
                }
                "ok"
            }
            "apply" => {
                let is_new = known.applied.insert(key.to_owned());
                known.doubled += u64::from(!is_new && harms_twice(tool));
                "ok"
            }
            "undo" => {
                known.applied.remove(key);
                known.undone += 1;
                "ok"
            }
            "applied" if known.applied.contains(key) => "yes",
            "applied" => "no",
            _ => "what",
        }
    }

    /// Returns how often each call was begun.
    pub fn begun(&self) -> BTreeMap<String, u64> {
        self.known().begun.clone()
    }

    /// Returns how often the calls of a tool were begun: of each call, by its key.
    pub fn begun_by(&self, tool: &str) -> Vec<u64> {
        let known = self.known();
        let of_tool = known.tools.iter().filter(|(_, name)| *name == tool);
        of_tool.filter_map(|(key, _)| known.begun.get(key).copied()).collect()
    }

    /// Returns how many effects there are, and how many happened on top of themselves.
    pub fn effects(&self) -> (usize, u64) {
        let known = self.known();
        (known.applied.len(), known.doubled)
    }

    /// Keeps the next call of a tool waiting in the middle.
    pub fn hold(&self, tool: &str) {
        self.known().held = Some(tool.to_owned());
    }

    /// Waits until a tool waits.
    pub fn wait_until_held(&self) {
        let mut known = self.known();
        while !known.is_holding {
            known = self.known.1.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
        known.held = None;
    }

    /// Lets the tool that waits go on.
    pub fn let_go(&self) {
        self.known().is_holding = false;
        self.known.1.notify_all();
    }
}

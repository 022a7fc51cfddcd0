//! A module in an interpreter: texts in, texts out.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use wasmi::{Engine, Instance, Linker, Memory, Module, Store, Val};

/// A module that runs.
pub(crate) struct Wasm {
    store: Store<()>,
    instance: Instance,
    memory: Memory,
}

/// Compiling takes longer than most tests, so a process does it once for each module.
static FULL: OnceLock<(Engine, Module)> = OnceLock::new();
static VERIFY: OnceLock<(Engine, Module)> = OnceLock::new();
static CORE: OnceLock<(Engine, Module)> = OnceLock::new();

fn compile(name: &str) -> (Engine, Module) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("built").join(name);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let engine = Engine::default();
    let module = Module::new(&engine, &bytes[..]).unwrap();
    (engine, module)
}

impl Wasm {
    /// Starts the module that compares.
    pub(crate) fn verify() -> Self {
        Self::start(VERIFY.get_or_init(|| compile("threadfold-verify.wasm")))
    }

    /// Starts the module with converters.
    pub(crate) fn full() -> Self {
        Self::start(FULL.get_or_init(|| compile("threadfold.wasm")))
    }

    /// Starts the module without converters.
    pub(crate) fn core() -> Self {
        Self::start(CORE.get_or_init(|| compile("threadfold-core.wasm")))
    }

    fn start((engine, module): &(Engine, Module)) -> Self {
        assert_eq!(module.imports().count(), 0, "a host needs to provide nothing");
        let mut store = Store::new(engine, ());
        let instance = Linker::new(engine).instantiate_and_start(&mut store, module).unwrap();
        let memory = instance.get_memory(&store, "memory").unwrap();
        Self { store, instance, memory }
    }

    /// Returns whether the module has a function.
    pub(crate) fn has(&self, function: &str) -> bool {
        self.instance.get_func(&self.store, function).is_some()
    }

    /// Calls a function, and returns its result.
    pub(crate) fn call(&mut self, function: &str, arguments: &[usize]) -> i32 {
        let arguments: Vec<Val> =
            arguments.iter().map(|it| Val::I32(u32::try_from(*it).unwrap() as i32)).collect();
        let found = self.instance.get_func(&self.store, function).unwrap();
        let mut results = vec![Val::I32(0); found.ty(&self.store).results().len()];
        found.call(&mut self.store, &arguments, &mut results).unwrap();
        results.first().and_then(Val::i32).unwrap_or_default()
    }

    /// Calls a function that must succeed.
    pub(crate) fn expect(&mut self, function: &str, arguments: &[usize]) -> usize {
        let result = self.call(function, arguments);
        assert!(result >= 0, "{function}: {}", self.output());
        result as usize
    }

    /// Writes parts of the input one after another, and returns their length.
    pub(crate) fn write(&mut self, parts: &[&[u8]]) -> usize {
        let bytes = parts.concat();
        let start = self.call("input", &[bytes.len()]) as u32 as usize;
        self.memory.write(&mut self.store, start, &bytes).unwrap();
        bytes.len()
    }

    /// Returns the output.
    pub(crate) fn output(&mut self) -> String {
        let start = self.call("output", &[]) as u32 as usize;
        let mut bytes = vec![0; self.call("output_length", &[]) as u32 as usize];
        self.memory.read(&self.store, start, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Applies events, one per line, and returns the flags.
    pub(crate) fn apply(&mut self, state: usize, events: &str) -> i32 {
        let length = self.write(&[events.as_bytes()]);
        self.call("state_apply", &[state, length])
    }

    /// Returns what a function writes about a state.
    pub(crate) fn read(&mut self, function: &str, state: usize) -> String {
        self.expect(function, &[state]);
        self.output()
    }

    /// Returns the hash and the JSON of a state.
    pub(crate) fn hash_and_json(&mut self, state: usize) -> (String, String) {
        (self.read("state_hash", state), self.read("state_json", state))
    }
}

/// Returns a length as the module reads it.
pub(crate) fn length(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap().to_le_bytes()
}

//! The cost of a turn of the loop, early and late in a run: CPU time of the process, with a SQLite
//! store, a scripted model and one tool call a turn.
//!
//! Compared with a plain loop in Python that keeps a list of messages and serializes it for each
//! request. `--turns N` sets the length of the run (3,000).

use std::env;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use threadfold_core::Json;
use threadfold_loop::{
    AgentLoop, Answer, Deltas, Dialect, Effect, Limits, Provider, ProviderError, RenderedPrompt,
    ScriptedProvider, ToolContext, tool,
};
use threadfold_sqlite::SqliteStore;

type AnyError = Box<dyn std::error::Error>;

const PLAIN: &str = include_str!("plain.py");
/// How many turns a figure is the mean of: those up to the given one.
const AROUND: usize = 50;
/// The number of characters of a tool's output, and of an answer.
const OUTPUT: usize = 2_000;
const ANSWER: usize = 400;

/// A turn: the CPU time of the process until its end, and the bytes of its request.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    until: Duration,
    bytes: usize,
}

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), AnyError> {
    let given = env::args().skip_while(|it| it != "--turns").nth(1);
    let turns: usize = given.as_deref().unwrap_or("3000").parse()?;
    let places: Vec<_> =
        [100, 1_000, 3_000, 10_000].into_iter().filter(|it| *it <= turns).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ours = runtime.block_on(run(turns))?;
    let theirs = plain(turns)?;

    println!("CPU time of one turn, the mean of {AROUND}\n");
    println!("| turn | bytes sent | CPU | plain Python: bytes | CPU | ours / Python |");
    println!("|---|---|---|---|---|---|");
    for &place in &places {
        let (our, their) = (cost(&ours, place), cost(&theirs, place));
        let ratio = our.as_secs_f64() / their.as_secs_f64();
        let (sent, plain) = (ours[place - 1].bytes, theirs[place - 1].bytes);
        let (our, their) = (millis(our), millis(their));
        println!("| {place} | {sent} | {our} | {plain} | {their} | {ratio:.2} |");
    }
    if let (Some(&early), Some(&late)) = (places.first(), places.last()) {
        let growth = |of: &[Turn]| cost(of, late).as_secs_f64() / cost(of, early).as_secs_f64();
        let bytes = (ours[late - 1].bytes - ours[early - 1].bytes) as f64;
        let more = cost(&ours, late).saturating_sub(cost(&ours, early)).as_secs_f64() * 1e9;
        let sent = ours[late - 1].bytes as f64 / ours[early - 1].bytes as f64;
        let all = |of: &[Turn]| of.last().map_or(0.0, |it| it.until.as_secs_f64());
        println!("\nratios of this run");
        println!("  bytes sent, turn {late} / turn {early}            {sent:.1}");
        println!("  CPU, turn {late} / turn {early}                   {:.1}", growth(&ours));
        println!("  the same of plain Python                 {:.1}", growth(&theirs));
        println!("  nanoseconds for each byte sent more      {:.2}", more / bytes);
        println!(
            "  CPU of the whole run / of plain Python   {:.2} ({:.1} s / {:.1} s)",
            all(&ours) / all(&theirs),
            all(&ours),
            all(&theirs)
        );
    }
    Ok(())
}

/// Returns the mean cost of the turns up to one.
fn cost(turns: &[Turn], last: usize) -> Duration {
    let first = last.saturating_sub(AROUND).max(1);
    (turns[last - 1].until - turns[first - 1].until) / (last - first).max(1) as u32
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// The CPU time that this process has used, in all of its threads.
fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

/// A scripted model that notes the size of each request.
struct NotingProvider {
    script: ScriptedProvider,
    sizes: Arc<Mutex<Vec<usize>>>,
}

#[async_trait]
impl Provider for NotingProvider {
    fn name(&self) -> &str {
        self.script.name()
    }

    fn dialect(&self) -> Dialect {
        self.script.dialect()
    }

    fn parameters(&self) -> Json {
        self.script.parameters()
    }

    async fn ask(&self, request: Bytes, deltas: &Deltas) -> Result<Answer, ProviderError> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner).push(request.len());
        self.script.ask(request, deltas).await
    }
}

#[derive(Deserialize, JsonSchema)]
struct Read {
    #[expect(dead_code, reason = "the tool reads nothing")]
    path: String,
}

/// Runs the loop, and returns its turns.
async fn run(turns: usize) -> Result<Vec<Turn>, AnyError> {
    let steps: Vec<_> = (0..turns)
        .map(|number| {
            let call = json!({ "name": "read", "arguments": { "path": "src/main.rs" } });
            json!({ "text": words(number, ANSWER), "calls": [call] })
        })
        .collect();
    let script = serde_json::from_value(json!({ "name": "bench", "steps": steps }))?;
    let outputs: Vec<_> = (0..turns).map(|number| words(turns + number, OUTPUT)).collect();

    let ends: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let (noted, outputs) = (ends.clone(), Arc::new(outputs));
    let read = tool("read", "Reads a file", move |_: Read, _: ToolContext| {
        let (noted, outputs) = (noted.clone(), outputs.clone());
        async move {
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            let output = outputs[noted.len()].clone();
            noted.push(cpu());
            Ok(output.into())
        }
    });
    let folder = tempfile::tempdir()?;
    let store = Arc::new(SqliteStore::open(folder.path().join("store.db"))?);
    let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
    let model =
        Arc::new(NotingProvider { script: ScriptedProvider::new(script), sizes: sizes.clone() });
    let limits = Limits { turns: None, ..Limits::default() };
    let agent_loop =
        AgentLoop::new(store, model, "script").tool(read.effect(Effect::Pure)).limits(limits);
    let began = cpu();
    let prompt = RenderedPrompt::text("Go on until all of it is done.");
    agent_loop.run(&"bench".into(), &prompt).await?;
    let ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
    let sizes = sizes.lock().unwrap_or_else(PoisonError::into_inner);
    let turn = |(end, bytes): (&Duration, &usize)| Turn { until: *end - began, bytes: *bytes };
    Ok(ends.iter().zip(sizes.iter()).map(turn).collect())
}

/// Runs the plain loop, and returns its turns.
fn plain(turns: usize) -> Result<Vec<Turn>, AnyError> {
    let ran = Command::new("python3").args(["-c", PLAIN, &turns.to_string()]).output()?;
    if !ran.status.success() {
        return Err(String::from_utf8_lossy(&ran.stderr).into_owned().into());
    }
    let read = |line: &str| -> Option<Turn> {
        let (until, bytes) = line.split_once(' ')?;
        Some(Turn { until: Duration::from_nanos(until.parse().ok()?), bytes: bytes.parse().ok()? })
    };
    let lines = std::str::from_utf8(&ran.stdout)?.lines();
    lines.map(read).collect::<Option<_>>().ok_or_else(|| "python3 printed no figures".into())
}

/// Returns text that no other turn has.
fn words(seed: usize, length: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed as u64);
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let letters = random.usize(2..9);
        text.extend(std::iter::repeat_with(|| random.lowercase()).take(letters));
        text.push(' ');
    }
    text
}

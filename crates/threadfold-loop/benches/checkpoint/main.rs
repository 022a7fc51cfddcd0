//! The cost of a checkpoint: bytes and time of one turn, early and late in a conversation.
//!
//! Compared with a snapshot of the whole state per turn, and with LangGraph's `SqliteSaver` if
//! `pip` can install it. `--quick` skips the longest conversation and LangGraph.

mod langgraph;

use std::env;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_core::{ConversationMessage, Json, Role, ToolCall};
use threadfold_engine::{Options, holder};
use threadfold_loop::{Answer, Effect, NewTurn, Recorder, ToolOutput};
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Limit, Store};

type AnyError = Box<dyn std::error::Error>;

/// How many turns are measured around each selected turn; the median is reported.
const AROUND: u64 = 9;
/// The number of characters of a tool's output, and of an answer.
const OUTPUT: usize = 2_000;
const ANSWER: usize = 400;

/// The cost of one turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) time: Duration,
    pub(crate) bytes: u64,
}

/// The costs at one turn of a conversation.
struct Place {
    turn: u64,
    own: u64,
    ours: Cost,
    snapshot: Cost,
}

fn main() -> ExitCode {
    let is_quick = env::args().any(|it| it == "--quick");
    match measure(is_quick) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(is_quick: bool) -> Result<(), AnyError> {
    let turns: &[u64] = if is_quick { &[10, 100, 1_000] } else { &[10, 100, 1_000, 10_000] };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let places = runtime.block_on(measure_ours(turns))?;
    let theirs = match is_quick {
        true => None,
        false => langgraph::measure(turns),
    };
    println!(
        "| turn | its own bytes | written / own | time | snapshot of all: bytes / own | time | LangGraph: bytes / own | time |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (index, place) in places.iter().enumerate() {
        let ratio = |bytes: u64| format!("{:.2}", bytes as f64 / place.own as f64);
        let theirs = theirs.as_ref().and_then(|it| it.get(index));
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            place.turn,
            place.own,
            ratio(place.ours.bytes),
            millis(place.ours.time),
            ratio(place.snapshot.bytes),
            millis(place.snapshot.time),
            theirs.map_or("not available".to_owned(), |it| ratio(it.bytes)),
            theirs.map_or(String::new(), |it| millis(it.time)),
        );
    }
    if let (Some(early), Some(late)) = (places.get(1), places.last()) {
        let ratio = late.ours.time.as_secs_f64() / early.ours.time.as_secs_f64();
        println!("\ntime of turn {} / of turn {}: {ratio:.2}", late.turn, early.turn);
    }
    Ok(())
}

fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

async fn measure_ours(turns: &[u64]) -> Result<Vec<Place>, AnyError> {
    let folder = tempfile::tempdir()?;
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("store.db"))?);
    let session = "bench".into();
    let options = Options::new(holder("a benchmark"));
    let mut recorder = Recorder::open(store.clone(), &session, options).await?;
    let mut places = Vec::new();
    let mut number = 0;
    for &turn in turns {
        let (first, last) = (turn.saturating_sub(AROUND / 2), turn + AROUND / 2);
        let mut costs = Vec::new();
        while number < last {
            number += 1;
            let before = recorder.cursor().seq;
            let began = Instant::now();
            record_turn(&mut recorder, number).await?;
            let time = began.elapsed();
            if number >= first {
                let records = store.read(&session, before, Limit::default()).await?;
                let bytes = records.iter().map(|it| it.bytes.len() as u64).sum();
                costs.push(Cost { time, bytes });
            }
            if number % 1_000 == 0 {
                eprintln!("{number} turns recorded");
            }
        }
        let own = recorder.state().last().map(|turn| Json::of(&**turn).as_str().len());
        places.push(Place {
            turn,
            own: own.unwrap_or_default() as u64,
            ours: middle(costs),
            snapshot: snapshot(&recorder, folder.path())?,
        });
    }
    recorder.close().await?;
    Ok(places)
}

/// Returns the cost with the median time.
pub(crate) fn middle(mut costs: Vec<Cost>) -> Cost {
    costs.sort_by_key(|it| it.time);
    costs[costs.len() / 2]
}

/// Records a turn as the loop does: request, answer, one tool call, completion.
async fn record_turn(recorder: &mut Recorder, number: u64) -> Result<(), AnyError> {
    let prompt = ConversationMessage::text(Role::User, "Go on until all of it is done.");
    let messages = if number == 1 { vec![prompt] } else { Vec::new() };
    recorder.begin(NewTurn::new("bench", "model", messages)).await?;
    let call = format!("call_{number}");
    let answer = ConversationMessage {
        tool_calls: vec![ToolCall::new(call.as_str(), "read", r#"{"path":"src/main.rs"}"#)],
        ..ConversationMessage::text(Role::Assistant, &words(number, ANSWER))
    };
    recorder.answer(Answer::from(answer)).await?;
    recorder.start(&call.as_str().into(), Effect::Pure).await?;
    let output = ToolOutput::text(words(number + 1, OUTPUT));
    recorder.finish(&call.as_str().into(), output).await?;
    recorder.complete().await?;
    recorder.checkpoint(&format!("turn-{number}")).await?;
    Ok(())
}

/// Returns text that no other turn has.
fn words(seed: u64, length: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let letters = random.usize(2..9);
        text.extend(std::iter::repeat_with(|| random.lowercase()).take(letters));
        text.push(' ');
    }
    text
}

/// Writes the whole state durably, as a checkpoint without a log would.
fn snapshot(recorder: &Recorder, folder: &Path) -> Result<Cost, AnyError> {
    let mut costs = Vec::new();
    for _ in 0..3 {
        let began = Instant::now();
        let state = recorder.state().to_json();
        let mut file = File::create(folder.join("snapshot.json"))?;
        file.write_all(state.as_str().as_bytes())?;
        file.sync_data()?;
        costs.push(Cost { time: began.elapsed(), bytes: state.as_str().len() as u64 });
    }
    Ok(middle(costs))
}

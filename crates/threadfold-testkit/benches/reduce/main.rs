//! Cost of one more event, compared with a reducer that copies its list, with persistent
//! collections alone, and with collections that are changed in place.
//!
//! `no reader`: the previous state is dropped. `held`: a reader holds the state of every
//! step until the next. `kept`: all states of all steps are kept, as for time travel. Times are
//! of the thread's CPU, the median of several rounds.

mod baselines;

use std::hint::black_box;

use cpu_time::ThreadTime;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use threadfold_core::{
    AssistantTextBlock, Block, BlockDelta, BlockId, BlockStatus, ConversationState, Payload,
    Placement, SessionEvent, SourceKind, TextField, fold,
};
use threadfold_testkit::naive::{self, NaiveBlock, NaiveState};

use crate::baselines::{Baseline, Mutable, Persistent};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

const SIZES: [usize; 4] = [10, 1_000, 10_000, 100_000];
const STEPS: usize = 20_000;
const ROUNDS: usize = 7;

fn main() {
    println!("nanoseconds an event; bytes an event when all steps are kept\n");
    println!(
        "{:<24} {:>7} {:>10} {:>7} {:>12} {:>8} {:>11} {:>12} {:>8}",
        "step",
        "blocks",
        "no reader",
        "held",
        "bytes, kept",
        "mutable",
        "imbl, alone",
        "imbl, held",
        "naive, held"
    );
    let mut claims = Claims::default();
    for size in SIZES {
        let row = measure(size, &deltas(|_| size - 1)).naive(naive_deltas(size));
        claims.last.push(row);
        row.print("delta, last block", size);
    }
    for size in SIZES {
        let events = deltas(|step| scatter(step) % size);
        measure(size, &events).print("delta, any block", size);
    }
    for size in SIZES {
        let events: Vec<_> = (size..size + STEPS).map(upsert_behind).collect();
        let row = measure(size, &events).naive(naive_upserts(size));
        claims.new.push(row);
        row.print("upsert, new block", size);
    }
    for size in SIZES {
        let events: Vec<_> = (0..STEPS).map(|step| upsert(scatter(step) % size)).collect();
        measure(size, &events).print("upsert, any block", size);
    }
    for size in SIZES {
        let row = measure(size, &mix(size));
        claims.mix.push(row);
        row.print("turns of a live session", size);
    }
    for conversations in [1, 8] {
        let row = measure_conversations(conversations);
        claims.conversations.push(row);
        row.print(&format!("delta, {conversations} conversations"), 1_000);
    }
    claims.text = measure_growth();
    claims.print();
}

/// The figures of one row.
#[derive(Clone, Copy, Default)]
struct Row {
    alone: f64,
    held: f64,
    kept: f64,
    /// Nanoseconds of collections that are changed in place.
    mutable: Option<f64>,
    /// Nanoseconds of persistent collections alone: without a reader, and held.
    persistent: Option<(f64, f64)>,
    naive: Option<f64>,
}

impl Row {
    fn naive(self, nanoseconds: f64) -> Self {
        Self { naive: Some(nanoseconds), ..self }
    }

    fn print(self, name: &str, size: usize) {
        let figure = |it: Option<f64>| it.map_or("".to_owned(), |it| format!("{it:.0}"));
        println!(
            "{name:<24} {size:>7} {:>10.0} {:>7.0} {:>12.0} {:>8} {:>11} {:>12} {:>8}",
            self.alone,
            self.held,
            self.kept,
            figure(self.mutable),
            figure(self.persistent.map(|it| it.0)),
            figure(self.persistent.map(|it| it.1)),
            figure(self.naive),
        );
    }

    /// Returns how long a step takes while it is held, against persistent collections alone.
    fn against_persistent(self) -> f64 {
        self.persistent.map_or(f64::NAN, |(_, held)| self.held / held)
    }
}

/// What the documentation claims, as ratios of this run.
#[derive(Default)]
struct Claims {
    last: Vec<Row>,
    new: Vec<Row>,
    mix: Vec<Row>,
    conversations: Vec<Row>,
    text: (f64, f64),
}

impl Claims {
    fn print(&self) {
        let (first, last) = self.text;
        println!("\none block that grows to 1 MB in 100,000 deltas, every step held:");
        println!("  first thousand {first:.0} ns a delta, last thousand {last:.0} ns a delta");
        println!("\nratios of this run");
        let grown = |rows: &[Row], of: fn(&Row) -> f64| of(&rows[3]) / of(&rows[0]);
        let eight = self.conversations[1].held / self.conversations[0].held;
        let naive = self.last[2].naive.unwrap_or(f64::NAN) / self.last[2].held;
        let rows = [
            ("delta at 100,000 blocks / at 10", grown(&self.last, |it| it.held), "at most 3"),
            ("naive / delta, at 10,000 blocks", naive, "at least 500"),
            ("8 conversations at once / one", eight, "at most 1.5"),
            ("last thousand of 1 MB / first", last / first, "at most 1.5"),
            ("bytes of a delta, all kept", self.last[3].kept, "at most 250"),
            ("new block at 100,000 / at 10", grown(&self.new, |it| it.held), "at most 1.5"),
            ("its bytes at 100,000 / at 10", grown(&self.new, |it| it.kept), "at most 2"),
            ("new block / `imbl`, at 100,000", self.new[3].against_persistent(), "at most 1"),
            ("live session at 100,000 / at 10", grown(&self.mix, |it| it.held), "at most 1.5"),
        ];
        for (name, ratio, bar) in rows {
            println!("  {name:<34} {ratio:>8.2}   wanted: {bar}");
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns nanoseconds an event over several rounds.
fn time(rounds: usize, events: usize, mut round: impl FnMut()) -> f64 {
    round();
    let times = (0..rounds).map(|_| {
        let start = ThreadTime::now();
        round();
        start.elapsed().as_nanos() as f64 / events as f64
    });
    median(times.collect())
}

fn step(state: &mut ConversationState, event: &SessionEvent) {
    if let Some(odd) = black_box(state.apply(event)).anomaly() {
        panic!("the benchmark's events are in order, and yet: {odd}");
    }
}

fn measure(size: usize, events: &[SessionEvent]) -> Row {
    let story: Vec<_> = (0..size).map(upsert).collect();
    let row = measure_from(&fold(&story), events);
    let mutable = time_baseline::<Mutable>(&story, events, Held::No);
    let alone = time_baseline::<Persistent>(&story, events, Held::No);
    let held = time_baseline::<Persistent>(&story, events, Held::Yes);
    Row { mutable: Some(mutable), persistent: Some((alone, held)), ..row }
}

/// Whether a reader holds the state of every step until the next.
#[derive(Clone, Copy, PartialEq)]
enum Held {
    No,
    Yes,
}

fn time_baseline<B: Baseline>(story: &[SessionEvent], events: &[SessionEvent], held: Held) -> f64 {
    let start = B::of(story);
    let times = (0..ROUNDS).map(|_| {
        // Copying is no part of a step: collections that are changed in place are never copied.
        let mut state = start.clone();
        let mut reader = B::default();
        let begin = ThreadTime::now();
        for event in events {
            state.apply(event);
            if held == Held::Yes {
                reader = state.clone();
            }
        }
        let spent = begin.elapsed().as_nanos() as f64 / events.len() as f64;
        black_box((state, reader));
        spent
    });
    median(times.collect())
}

fn measure_from(start: &ConversationState, events: &[SessionEvent]) -> Row {
    let alone = time(ROUNDS, events.len(), || {
        let mut state = start.clone();
        for event in events {
            step(&mut state, event);
        }
    });
    let held = time(ROUNDS, events.len(), || {
        let mut state = start.clone();
        let mut reader = state.clone();
        for event in events {
            step(&mut state, event);
            reader = state.clone();
        }
        black_box(reader);
    });
    let mut steps = Vec::with_capacity(events.len());
    let mut state = start.clone();
    let region = Region::new(ALLOCATOR);
    for event in events {
        step(&mut state, event);
        steps.push(state.clone());
    }
    let change = region.change();
    let retained = change.bytes_allocated as f64 - change.bytes_deallocated as f64
        + change.bytes_reallocated as f64;
    let kept = retained / events.len() as f64 + size_of::<ConversationState>() as f64;
    drop(steps);
    Row { alone, held, kept, ..Row::default() }
}

fn name(index: usize) -> BlockId {
    format!("msg_01ABCDEFGHJKMNPQ{index:06}/0").into()
}

fn upsert(index: usize) -> SessionEvent {
    let body = AssistantTextBlock { content: "Some words of an answer.".into(), model: None };
    SessionEvent::upsert(Block::new(name(index), body))
}

/// Returns a new block as agents' streams emit it: after the previous one.
fn upsert_behind(index: usize) -> SessionEvent {
    let mut event = upsert(index);
    if let Payload::BlockUpsert(said) = &mut event.payload {
        said.after = Placement::After(name(index - 1));
    }
    event.from_source(SourceKind::Stream)
}

fn delta(index: usize) -> SessionEvent {
    SessionEvent::new(Payload::BlockDelta(BlockDelta {
        block_id: name(index),
        delta: " ten bytes".into(),
        field: TextField::Content,
        offset: None,
    }))
}

fn deltas(target: impl Fn(usize) -> usize) -> Vec<SessionEvent> {
    (0..STEPS).map(|step| delta(target(step))).collect()
}

/// Returns turns as a live session emits them: each block begins as a preview, grows by deltas, and
/// is then reported whole; a result comes at once.
fn mix(size: usize) -> Vec<SessionEvent> {
    const DELTAS: usize = 30;
    let mut events = Vec::new();
    let mut index = size;
    while events.len() < STEPS {
        for streamed in [true, true, false] {
            events.push(upsert_behind(index));
            if streamed {
                if let Payload::BlockUpsert(said) = &mut events.last_mut().expect("pushed").payload
                {
                    said.preview = true;
                    said.block.status = BlockStatus::Pending;
                }
                events.extend((0..DELTAS).map(|_| delta(index).from_source(SourceKind::Stream)));
                events.push(upsert_behind(index));
            }
            index += 1;
        }
    }
    events
}

/// Returns a number that looks random and is the same in every run.
fn scatter(step: usize) -> usize {
    (step as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31) as usize
}

fn naive_state(size: usize) -> NaiveState {
    let block = |index| NaiveBlock { id: name(index), content: "Some words.".into() };
    std::sync::Arc::new((0..size).map(|index| std::sync::Arc::new(block(index))).collect())
}

/// The naive reducer gets fewer steps the longer its list is.
fn naive_steps(size: usize) -> usize {
    (2_000_000 / size).clamp(20, 2_000)
}

fn naive_deltas(size: usize) -> f64 {
    let (start, target) = (naive_state(size), name(size - 1));
    let steps = naive_steps(size);
    time(3, steps, || {
        let mut state = start.clone();
        for _ in 0..steps {
            state = black_box(naive::append(&state, &target, " ten bytes"));
        }
    })
}

fn naive_upserts(size: usize) -> f64 {
    let start = naive_state(size);
    let steps = naive_steps(size).min(size.max(20));
    time(3, steps, || {
        let mut state = start.clone();
        for step in 0..steps {
            let block = NaiveBlock { id: name(size + step), content: "Some words.".into() };
            state = black_box(naive::upsert(&state, block));
        }
    })
}

/// Conversations that stream at once, each a delta in turn, in a state of 1,000 blocks.
fn measure_conversations(count: usize) -> Row {
    let within = |event: SessionEvent, index: usize| event.within(format!("toolu_01XYZ{index}"));
    let mut story: Vec<_> = (0..1_000).map(upsert).collect();
    story.extend((0..count).map(|index| within(upsert(index), index)));
    let events: Vec<_> = (0..STEPS).map(|step| within(delta(step % count), step % count)).collect();
    measure_from(&fold(&story), &events)
}

fn measure_growth() -> (f64, f64) {
    const DELTAS: usize = 100_000;
    let start = fold(&[upsert(0)]);
    let more = delta(0);
    let mut ends = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut state = start.clone();
        let mut reader = state.clone();
        let mut run = |steps: usize| {
            let begin = ThreadTime::now();
            for _ in 0..steps {
                step(&mut state, &more);
                reader = state.clone();
            }
            black_box(&reader);
            begin.elapsed().as_nanos() as f64 / steps as f64
        };
        ends.0.push(run(1_000));
        run(DELTAS - 2_000);
        ends.1.push(run(1_000));
    }
    (median(ends.0), median(ends.1))
}

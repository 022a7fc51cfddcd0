//! How the work of a turn grows: not at all. The work is counted, not timed: turns and messages that
//! are looked at, and bytes that are copied, checked, rendered or hashed.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use threadfold_core::{Json, MessagePart, work};
use threadfold_loop::{
    AgentLoop, Answer, Deltas, Dialect, Effect, Limits, LoopError, Provider, ProviderError,
    RenderedPrompt, Resume,
};

use crate::support::{CountingTool, answer_calls, store};

const TURNS: usize = 400;

/// A model that calls a tool in every answer, and notes the work until each request.
struct Caller {
    dialect: Dialect,
    noted: Arc<Mutex<Vec<u64>>>,
    /// Every answer has an item that must be repaired.
    is_broken: bool,
}

fn work_until_now() -> u64 {
    work::bytes() + work::visits()
}

#[async_trait]
impl Provider for Caller {
    fn name(&self) -> &str {
        "caller"
    }

    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn parameters(&self) -> Json {
        Json::parse("{}").unwrap()
    }

    async fn ask(&self, _: Bytes, _: &Deltas) -> Result<Answer, ProviderError> {
        let mut noted = self.noted.lock().unwrap();
        noted.push(work_until_now());
        let call = format!("call_{:05}", noted.len());
        let mut message = answer_calls(&[(&call, "look", r#"{"at":"everything"}"#)]);
        message.content.push(MessagePart::text("I look at what there is."));
        if self.is_broken {
            let item = Json::parse(r#"{"type":"web_tool_result","tool_use_id":"none"}"#).unwrap();
            message.content.push(MessagePart::native("anthropic", item));
        }
        Ok(Answer::from(message))
    }
}

/// Runs turns in several processes, `turns` in each, and returns the work of each turn, and that of
/// opening the session up to the first request in each process.
async fn run(
    dialect: Dialect,
    is_broken: bool,
    turns: usize,
    times: usize,
) -> (Vec<u64>, Vec<u64>) {
    let (store, mut all, mut openings) = (store(), Vec::new(), Vec::new());
    for time in 1..=times {
        let noted: Arc<Mutex<Vec<u64>>> = Arc::default();
        let caller = Caller { dialect, noted: noted.clone(), is_broken };
        let tool = CountingTool::new("look", Effect::Pure);
        let limits = Limits { turns: Some((turns * time) as u64), ..Limits::default() };
        let agent_loop = AgentLoop::new(store.clone(), Arc::new(caller), "m")
            .system("You work.")
            .tools([tool as Arc<dyn threadfold_loop::Tool>])
            .limits(limits);
        let began = work_until_now();
        let stopped = match time {
            1 => agent_loop.run(&"s".into(), &RenderedPrompt::text("Go")).await,
            _ => agent_loop.resume(&"s".into(), Resume::default()).await,
        };
        assert!(matches!(stopped, Err(LoopError::Limit(_))), "{stopped:?}");
        let noted = noted.lock().unwrap();
        assert_eq!(noted.len(), turns);
        openings.push(noted[0] - began);
        all.extend(noted.windows(2).map(|it| it[1] - it[0]));
    }
    (all, openings)
}

/// Returns the work of the turns before one.
fn around(all: &[u64], turn: usize) -> u64 {
    all[turn - 20..turn].iter().sum()
}

#[tokio::test]
async fn a_turn_costs_the_same_early_and_late() {
    for dialect in [Dialect::Anthropic, Dialect::Chat, Dialect::Responses] {
        let (all, _) = run(dialect, false, TURNS, 1).await;
        let (early, late) = (around(&all, 40), around(&all, TURNS - 1));
        assert!(early > 0, "nothing was counted");
        assert!(late * 10 <= early * 11, "{dialect:?}: {early} early, {late} late");
    }
}

#[tokio::test]
async fn a_turn_that_is_repaired_looks_only_at_the_number_of_turns() {
    let (all, _) = run(Dialect::Anthropic, true, TURNS, 1).await;
    let (early, late) = (around(&all, 40), around(&all, TURNS - 1));
    let turns = 20 * TURNS as u64;
    assert!(late <= early + 2 * turns, "{early} early, {late} late");
}

#[tokio::test]
async fn a_resume_is_linear_once() {
    let (all, openings) = run(Dialect::Anthropic, false, TURNS / 4, 4).await;
    let (early, late) = (around(&all, 40), around(&all, all.len() - 1));
    assert!(late * 10 <= early * 11, "{early} early, {late} late");
    // The second process opens 100 turns, the fourth 300.
    let (short, long) = (openings[1], openings[3]);
    assert!(long <= short * 4, "{short} for 100 turns, {long} for 300");
}

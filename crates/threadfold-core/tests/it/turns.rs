//! Turns of a loop: what is kept, what is odd, and what is done on resume.

use std::sync::Arc;

use insta::assert_snapshot;
use proptest::prelude::*;
use threadfold_core::{
    CallAction, CallState, CheckpointSaved, ConversationMessage, ConversationState, DecisionOption,
    Effect, Json, NextStep, Outcome, Payload, ResultSource, Role, SessionEvent, Setup, SetupPart,
    ToolCall, ToolFinished, TurnState, call_key, resume_plan,
};
use threadfold_testkit::loops::{LoopWriter, plausible_loop};

mod keeping;
mod laws;
mod oddities;
mod resuming;
mod sharing;
mod showing;

fn fold(events: &[SessionEvent]) -> TurnState {
    let mut state = TurnState::default();
    state.extend(events);
    state
}

/// Returns a loop of one turn with the calls `c1` and `c2`, of which the first has its result.
fn half_done() -> LoopWriter {
    let mut writer = LoopWriter::default();
    writer.ask("look").call(&[("c1", "Read"), ("c2", "Pay")]);
    writer.run("c1", Effect::Pure).finish("c1", "found");
    writer
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Applied => "applied".to_owned(),
        Outcome::Noted(anomaly) => format!("noted: {anomaly}"),
        Outcome::Unchanged => "unchanged".to_owned(),
        Outcome::Ignored(anomaly) => format!("ignored: {anomaly}"),
    }
}

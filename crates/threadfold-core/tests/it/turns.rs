//! Turns of a loop: the ledger, anomalies and the resume plan.

use std::sync::Arc;

use insta::assert_snapshot;
use proptest::prelude::*;
use threadfold_core::{
    CallAction, CallState, CheckpointSaved, ConversationMessage, ConversationState, DecisionOption,
    Effect, Json, NextStep, Outcome, Payload, ResultSource, Role, SessionEvent, Setup, SetupPart,
    ToolCall, ToolFinished, TurnState, call_key, resume_plan,
};
use threadfold_testkit::loops::{LoopWriter, plausible_loop};

mod anomalies;
mod blocks;
mod laws;
mod ledger;
mod restore;
mod resume_plan;

fn fold(events: &[SessionEvent]) -> TurnState {
    let mut state = TurnState::default();
    state.extend(events);
    state
}

/// Returns a loop of one turn with calls `c1` and `c2`, where only `c1` has its result.
fn half_done() -> LoopWriter {
    let mut writer = LoopWriter::default();
    writer.ask("look").call(&[("c1", "Read"), ("c2", "Pay")]);
    writer.run("c1", Effect::Pure).finish("c1", "found");
    writer
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Applied => "applied".to_owned(),
        Outcome::Noted(anomaly) => format!("noted: {anomaly}"),
        Outcome::Unchanged => "unchanged".to_owned(),
        Outcome::Ignored(anomaly) => format!("ignored: {anomaly}"),
    }
}

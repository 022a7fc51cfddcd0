//! Turns a streamed answer into what the server does, with the step's pace, holds and faults.
//!
//! A protocol only says what its events are and where in the answer they stand; everything
//! that goes wrong on the way is the same for all of them, and is here.

use std::time::Duration;

use super::{
    fault::{Fault, Place},
    script::Step,
};

/// One event of a streamed answer, as bytes of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    /// The place that is reached once the bytes are sent.
    pub(crate) reaches: Option<Place>,
}

/// What the server does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Sends bytes of the body.
    Send(Vec<u8>),
    /// Waits so long.
    Wait(Duration),
    /// Waits until the test releases the gate.
    Hold(String),
    /// Ends the connection at once; without it, the body ends in good order.
    Cut,
}

/// Returns the actions that play `pieces`; `error` is the event that says a status.
pub(crate) fn perform(
    pieces: Vec<Piece>,
    step: &Step,
    fault: Option<&Fault>,
    error: impl Fn(u16) -> Vec<u8>,
) -> Vec<Action> {
    let mut actions = Vec::new();

    for Piece { bytes, reaches } in pieces {
        let is_delta = matches!(reaches, Some(Place::Within { deltas: 1.., .. }));
        if is_delta && !step.pause().is_zero() {
            actions.push(Action::Wait(step.pause()));
        }
        actions.push(Action::Send(bytes));

        let Some(here) = reaches else { continue };
        let held = step.holds().iter().filter(|(place, _)| *place == here);
        actions.extend(held.map(|(_, gate)| Action::Hold(gate.clone())));

        match fault {
            Some(Fault::ErrorEvent { at, status }) if *at == here => {
                actions.push(Action::Send(error(*status)));
                return actions;
            }
            Some(Fault::Cut { at, silence }) if *at == here => {
                actions.push(Action::Wait(*silence));
                actions.push(Action::Cut);
                return actions;
            }
            _ => {}
        }
    }

    actions
}

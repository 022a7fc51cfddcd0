//! Converts a streamed answer into the server's actions, with the step's delays, gates and faults.
//!
//! A protocol defines only its events and their positions in the answer; faults are the same for
//! all protocols, and are handled here.

use std::time::Duration;

use super::{
    fault::{Fault, Place},
    script::Step,
};

/// One event of a streamed answer, as bytes of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    /// The position that is reached once the bytes are sent.
    pub(crate) reaches: Option<Place>,
}

/// What the server does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Sends bytes of the body.
    Send(Vec<u8>),
    /// Waits this long.
    Wait(Duration),
    /// Waits until the test releases the gate.
    Hold(String),
    /// Closes the connection at once; without it, the body ends regularly.
    Cut,
}

/// Returns the actions that play `pieces`; `error` returns the event for a status.
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

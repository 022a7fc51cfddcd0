//! Everything on this side: the buffers, and what the host has handles of.

use std::cell::RefCell;

use serde::Serialize;
use threadfold_core::ConversationState;

use crate::handles::Handles;
use crate::output::EventAnomaly;

/// A buffer that was larger than this is given back after the call.
const LARGEST_KEPT: usize = 1 << 20;

/// Room for what is made from a large input, in multiples of its length.
const ROOM: usize = 6;

#[derive(Default)]
pub(crate) struct Engine {
    pub(crate) input: Vec<u8>,
    pub(crate) output: Vec<u8>,
    pub(crate) states: Handles<ConversationState>,
    #[cfg(feature = "convert")]
    pub(crate) folds: Handles<crate::folds::SessionFold>,
    /// What was odd about the events that were applied last.
    pub(crate) anomalies: Vec<EventAnomaly>,
}

thread_local! {
    static ENGINE: RefCell<Engine> = RefCell::default();
}

/// Calls `work` with the engine and the first `length` bytes of the input. An error becomes −1 and
/// its message the output.
pub(crate) fn call(
    length: usize,
    work: impl FnOnce(&mut Engine, &[u8]) -> Result<i32, String>,
) -> i32 {
    ENGINE.with_borrow_mut(|engine| {
        let mut input = std::mem::take(&mut engine.input);
        let length = length.min(input.len());
        let code = work(engine, &input[..length]).unwrap_or_else(|message| {
            engine.output.clear();
            engine.output.extend_from_slice(message.as_bytes());
            -1
        });
        if input.len() > LARGEST_KEPT {
            input = Vec::new();
        }
        engine.input = input;
        code
    })
}

impl Engine {
    /// Makes room for `length` bytes of input, and returns where they go.
    pub(crate) fn prepare_input(&mut self, length: usize) -> *mut u8 {
        if self.input.len() < length {
            self.input.resize(length, 0);
        }
        if length > LARGEST_KEPT {
            make_room(length.saturating_mul(ROOM));
        }
        self.input.as_mut_ptr()
    }

    pub(crate) fn state(&mut self, handle: u32) -> Result<&mut ConversationState, String> {
        self.states.get_mut(handle).ok_or_else(|| format!("there is no state {handle}"))
    }

    /// Replaces the output by a text.
    pub(crate) fn write(&mut self, text: &str) -> i32 {
        self.begin_output();
        self.output.extend_from_slice(text.as_bytes());
        0
    }

    /// Replaces the output by a value as JSON.
    pub(crate) fn write_json(&mut self, value: &impl Serialize) -> i32 {
        self.begin_output();
        serde_json::to_writer(&mut self.output, value)
            .expect("our values have no keys that are not text");
        0
    }

    fn begin_output(&mut self) {
        if self.output.capacity() > LARGEST_KEPT {
            self.output = Vec::new();
        }
        self.output.clear();
    }
}

/// Lets the memory grow at once by as much as is needed soon. The allocator asks for 64 KB at a time,
/// and a host whose memory grows looks for garbage each time: that takes longer than the work.
fn make_room(bytes: usize) {
    let mut room: Vec<u8> = Vec::new();
    // Without so much memory, the work may still succeed with less.
    if room.try_reserve_exact(bytes).is_ok() {
        std::hint::black_box(&mut room);
    }
}

/// Calls `work` with the engine, for functions without input.
pub(crate) fn with<T>(work: impl FnOnce(&mut Engine) -> T) -> T {
    ENGINE.with_borrow_mut(work)
}

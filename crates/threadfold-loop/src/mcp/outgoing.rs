//! A call on its way out: whether it was sent decides whether it may have happened.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use serde_json::value::RawValue;
use threadfold_core::Json;

const WAITING: u8 = 0;
const SENT: u8 = 1;
const GIVEN_UP: u8 = 2;

/// A call on its way out. It travels with the request, and is not sent itself.
#[derive(Clone)]
pub(super) struct Outgoing {
    /// The arguments, as the model spelt them.
    pub(super) arguments: Json,
    state: Arc<AtomicU8>,
}

impl Outgoing {
    pub(super) fn new(arguments: Json) -> Self {
        Self { arguments, state: Arc::new(AtomicU8::new(WAITING)) }
    }

    /// Asks whether it may be sent now. If so, it may have happened from here on.
    pub(super) fn begin(&self) -> bool {
        self.swap(WAITING, SENT)
    }

    /// Takes that back: not one byte of it went out.
    pub(super) fn was_refused(&self) {
        self.swap(SENT, WAITING);
    }

    /// Gives it up, and says whether it was sent. If it was not, it never will be.
    pub(super) fn give_up(&self) -> bool {
        !self.swap(WAITING, GIVEN_UP) && self.state.load(Ordering::SeqCst) == SENT
    }

    fn swap(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// Returns a message as the line that is sent, and the call that it makes.
pub(super) fn encode(
    message: &ClientJsonRpcMessage,
) -> Result<(Vec<u8>, Option<Outgoing>), serde_json::Error> {
    let mut line = serde_json::to_string(message)?;
    let outgoing = match message {
        JsonRpcMessage::Request(it) => match &it.request {
            ClientRequest::CallToolRequest(call) => call.extensions.get::<Outgoing>().cloned(),
            _ => None,
        },
        _ => None,
    };
    if let Some(outgoing) = &outgoing {
        line = with_arguments(&line, &outgoing.arguments)?;
    }
    line.push('\n');
    Ok((line.into_bytes(), outgoing))
}

/// Puts the arguments into a call, as they were spelt: a number that fits no float and the order
/// of keys survive.
fn with_arguments(line: &str, arguments: &Json) -> Result<String, serde_json::Error> {
    let mut message: BTreeMap<&str, Box<RawValue>> = serde_json::from_str(line)?;
    if let Some(params) = message.get_mut("params") {
        let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_str(params.get())?;
        // Outside of strings a line end is white space, and inside of them it is escaped.
        let arguments = arguments.as_str().replace(['\n', '\r'], " ");
        let arguments = RawValue::from_string(arguments)?;
        fields.insert("arguments", &arguments);
        *params = serde_json::value::to_raw_value(&fields)?;
    }
    serde_json::to_string(&message)
}

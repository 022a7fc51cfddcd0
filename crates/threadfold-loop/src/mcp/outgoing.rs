//! An outgoing call. Whether it was sent decides whether it may have taken effect.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use serde_json::value::RawValue;
use threadfold_core::Json;

const WAITING: u8 = 0;
const SENT: u8 = 1;
const GIVEN_UP: u8 = 2;

/// An outgoing call. It is attached to the request, but not sent itself.
#[derive(Clone)]
pub(super) struct SendState {
    /// The arguments, exactly as the model wrote them.
    pub(super) arguments: Json,
    state: Arc<AtomicU8>,
}

impl SendState {
    pub(super) fn new(arguments: Json) -> Self {
        Self { arguments, state: Arc::new(AtomicU8::new(WAITING)) }
    }

    /// Returns true if the call may be sent now. From then on it may have taken effect.
    pub(super) fn begin(&self) -> bool {
        self.swap(WAITING, SENT)
    }

    /// Reverts [`begin`](Self::begin): nothing of the call was written.
    pub(super) fn was_refused(&self) {
        self.swap(SENT, WAITING);
    }

    /// Gives up the call, and returns true if it was sent. If it was not, it never will be.
    pub(super) fn give_up(&self) -> bool {
        !self.swap(WAITING, GIVEN_UP) && self.state.load(Ordering::SeqCst) == SENT
    }

    fn swap(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// Encodes a message as a line, and returns the call that it contains.
pub(super) fn encode(
    message: &ClientJsonRpcMessage,
) -> Result<(Vec<u8>, Option<SendState>), serde_json::Error> {
    let mut line = serde_json::to_string(message)?;
    let outgoing = match message {
        JsonRpcMessage::Request(it) => match &it.request {
            ClientRequest::CallToolRequest(call) => call.extensions.get::<SendState>().cloned(),
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

/// Inserts the arguments into a call verbatim, so that large numbers and key order survive.
fn with_arguments(line: &str, arguments: &Json) -> Result<String, serde_json::Error> {
    let mut message: BTreeMap<&str, Box<RawValue>> = serde_json::from_str(line)?;
    if let Some(params) = message.get_mut("params") {
        let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_str(params.get())?;
        // Line ends are white space outside of strings and escaped inside, so replacing them is
        // safe.
        let arguments = arguments.as_str().replace(['\n', '\r'], " ");
        let arguments = RawValue::from_string(arguments)?;
        fields.insert("arguments", &arguments);
        *params = serde_json::value::to_raw_value(&fields)?;
    }
    serde_json::to_string(&message)
}

//! A scripted model: an HTTP server on loopback that plays the answers of a test.
//!
//! A prompt that contains `[[play:NAME]]` selects the script NAME, and the step is the number of
//! answers after that prompt in the request. The last such prompt of a request decides, so a
//! subagent whose prompt carries a directive of its own plays its own script.
//! The server keeps no state of a conversation; it only counts ids, and attempts at a step for
//! faults that occur once.

pub(crate) mod anthropic;
mod fault;
pub(crate) mod http;
mod json;
pub(crate) mod openai;
mod play;
pub(crate) mod protocol;
mod ready;
mod responses;
mod script;
mod select;
pub(crate) mod server;
pub(crate) mod stage;

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use self::stage::Stage;
pub use self::{
    fault::{Attempts, Fault, Place},
    ready::{SubagentTool, ready_scripts},
    script::{Block, Script, Step, StopReason, Usage},
    stage::{ModelRequest, PlayedStep},
};
use crate::TestkitError;

/// A running model, which stops when it is dropped.
///
/// It implements Anthropic Messages at `/v1/messages`, OpenAI Chat Completions at
/// `/v1/chat/completions` and OpenAI Responses at `/v1/responses`. A request without a directive gets
/// a short text, one that names no known script gets status 400, and one past the end of its script
/// gets a text which states that the script is over.
pub struct ScriptedModel {
    stage: Arc<Stage>,
    address: SocketAddr,
    server: Option<JoinHandle<()>>,
}

impl ScriptedModel {
    /// Starts a model that knows the [`ready_scripts`] for the newest Claude Code.
    pub fn start() -> Result<Self, TestkitError> {
        Self::builder().scripts(ready_scripts(SubagentTool::Agent)).start()
    }

    /// Returns a builder of a model that knows no script yet.
    pub fn builder() -> ModelBuilder {
        ModelBuilder { scripts: HashMap::new(), tools_required: false }
    }

    /// Returns `http://127.0.0.1:PORT`, without a slash at the end.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns where the model listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requests so far, in the order of their arrival.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.stage.requests()
    }

    /// Waits until `happened` returns true for the requests so far.
    pub fn wait_for(
        &self,
        limit: Duration,
        happened: impl Fn(&[ModelRequest]) -> bool,
    ) -> Result<(), TestkitError> {
        if self.stage.wait_for(limit, happened) {
            return Ok(());
        }
        let what = "the request that a test waits for".to_owned();
        Err(TestkitError::TimedOut { what, limit })
    }

    /// Releases all answers that are held at `gate`, now and later.
    pub fn release(&self, gate: &str) {
        self.stage.release(gate);
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.stage.stop();
        // The server notices the stop at its next connection; it may also have ended by itself.
        TcpStream::connect(self.address).ok();
        if let Some(server) = self.server.take() {
            server.join().ok();
        }
    }
}

/// Builds a [`ScriptedModel`].
pub struct ModelBuilder {
    scripts: HashMap<String, Script>,
    tools_required: bool,
}

impl ModelBuilder {
    /// Adds a script; one of the same name is replaced.
    #[must_use]
    pub fn script(mut self, script: Script) -> Self {
        self.scripts.insert(script.name().to_owned(), script);
        self
    }

    /// Adds several scripts.
    #[must_use]
    pub fn scripts(self, scripts: impl IntoIterator<Item = Script>) -> Self {
        scripts.into_iter().fold(self, Self::script)
    }

    /// Plays scripts only to requests that offer tools.
    ///
    /// Agents quote the prompt, including the directive, when they request a title; such a request
    /// offers no tools, and gets a short text.
    #[must_use]
    pub fn require_tools(mut self) -> Self {
        self.tools_required = true;
        self
    }

    /// Starts the model on a free port of 127.0.0.1.
    pub fn start(self) -> Result<ScriptedModel, TestkitError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .map_err(TestkitError::io("listen on 127.0.0.1"))?;
        let address =
            listener.local_addr().map_err(TestkitError::io("learn the port of the model"))?;

        let stage = Arc::new(Stage::new(self.scripts, self.tools_required));
        let shared = Arc::clone(&stage);
        let server = thread::Builder::new()
            .name("scripted-model".to_owned())
            .spawn(move || server::serve(&listener, &shared))
            .map_err(TestkitError::io("start the thread of the model"))?;

        Ok(ScriptedModel { stage, address, server: Some(server) })
    }
}

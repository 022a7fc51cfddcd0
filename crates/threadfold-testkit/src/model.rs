//! A scripted model: an HTTP server on loopback that says what a test told it to.
//!
//! A prompt that contains `[[play:NAME]]` picks the script NAME, and the step is the number of
//! answers after that prompt in the request. The last such prompt of a request decides, so a
//! subagent whose prompt carries a directive of its own plays its own script.
//! The server remembers nothing of a conversation; it counts ids, and attempts at a step for
//! faults that are to happen once.

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
    stage::{ModelRequest, Played},
};
use crate::TestkitError;

/// A running model, which stops when it is dropped.
///
/// It speaks Anthropic Messages at `/v1/messages`, OpenAI Chat Completions at
/// `/v1/chat/completions` and OpenAI Responses at `/v1/responses`. A request without a directive gets a short text, one that names no
/// known script status 400, and one past the end of its script is told so in a text.
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

    /// Waits until `happened` says yes to the requests so far.
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

    /// Lets all answers go on that are held at `gate`, now and later.
    pub fn release(&self, gate: &str) {
        self.stage.release(gate);
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.stage.stop();
        // The server looks up when a connection comes; it may also have ended by itself.
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
    /// Agents quote the prompt, directive and all, when they ask for a title; such a request
    /// offers no tools, and is told a short text.
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

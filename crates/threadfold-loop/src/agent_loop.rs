//! An agent: who is asked, with which tools, and how far it may go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use threadfold_core::{CallId, ConversationMessage, Effect, Json, Payload};
use threadfold_engine::holder;
use threadfold_store::{Holder, Store};
use tokio_util::sync::CancellationToken;

use crate::limits::{Limits, Retries};
use crate::progress::Progress;
use crate::provider::Provider;
use crate::recorder::NewTurn;
use crate::request::render_tools;
use crate::tool::{Tool, ToolDefinition};

type Watcher = Arc<dyn Fn(&Progress) + Send + Sync>;

/// An agent: a model, its tools, and the store in which all that it does is kept.
///
/// It holds no state of a run: any process with the same agent goes on with any run.
#[derive(Clone)]
pub struct AgentLoop {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) model: Arc<str>,
    pub(crate) system: Option<Arc<str>>,
    pub(crate) parameters: Option<Json>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) limits: Limits,
    pub(crate) retries: Retries,
    pub(crate) holder: Holder,
    pub(crate) lease: Duration,
    pub(crate) cancel: CancellationToken,
    pub(crate) watcher: Option<Watcher>,
    pub(crate) notes: Vec<Payload>,
}

/// What a person decided about a call of which nobody knows whether it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run it again.
    Retry,
    /// It happened, and gave this.
    Result(String),
    /// Tell the model that its outcome is not known.
    GiveUp,
}

/// How a run is gone on with.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// What was decided about calls.
    pub decisions: BTreeMap<CallId, Decision>,
    /// Go on though the prompt, the tools or the model changed: the conversation is sent anew.
    pub adopt: bool,
    /// Say something else instead of what was said last, if that found no answer.
    pub instead: bool,
}

impl AgentLoop {
    /// Returns an agent without tools.
    pub fn new(
        store: Arc<dyn Store>,
        provider: Arc<dyn Provider>,
        model: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            store,
            provider,
            model: model.into(),
            system: None,
            parameters: None,
            tools: Vec::new(),
            limits: Limits::default(),
            retries: Retries::default(),
            holder: holder("an agent"),
            lease: Duration::from_secs(30),
            cancel: CancellationToken::new(),
            watcher: None,
            notes: Vec::new(),
        }
    }

    /// Sets the system prompt, for prompts that bring none.
    #[must_use]
    pub fn system(mut self, system: impl Into<Arc<str>>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Sets what a request says beside the conversation: a JSON object, in the provider's words.
    #[must_use]
    pub fn parameters(mut self, parameters: Json) -> Self {
        self.parameters = Some(parameters);
        self
    }

    /// Adds a tool. Of equal names the last counts.
    #[must_use]
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        self.tools([Arc::new(tool) as Arc<dyn Tool>])
    }

    /// Adds tools. Of equal names the last counts.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        for tool in tools {
            let name = tool.definition().name;
            self.tools.retain(|known| known.definition().name != name);
            self.tools.push(tool);
        }
        self
    }

    /// Sets how far a run may go.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how often a provider is asked that gave no answer.
    #[must_use]
    pub fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// Sets who runs it, for others who want to.
    #[must_use]
    pub fn holder(mut self, holder: Holder) -> Self {
        self.holder = holder;
        self
    }

    /// Sets how long others wait for a process that was not heard of.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets what stops its runs; they can be resumed.
    #[must_use]
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Sets who is told of what a run does.
    #[must_use]
    pub fn watch(mut self, watcher: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.watcher = Some(Arc::new(watcher));
        self
    }

    /// Has something recorded with the next turn that a run begins, in the same write.
    #[must_use]
    pub fn noting(mut self, note: Payload) -> Self {
        self.notes.push(note);
        self
    }

    /// Returns a turn that says this, as the agent would begin it: for those who keep its ledger
    /// themselves.
    pub fn new_turn(&self, messages: Vec<ConversationMessage>) -> NewTurn {
        let dialect = self.provider.dialect();
        NewTurn {
            dialect,
            system: self.system.clone(),
            tools: render_tools(dialect, &self.definitions()),
            parameters: self.parameters.clone().or_else(|| Some(self.provider.parameters())),
            ..NewTurn::new(self.provider.name(), &self.model, messages)
        }
    }

    pub(crate) fn tell(&self, progress: &Progress) {
        if let Some(watcher) = &self.watcher {
            watcher(progress);
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.definition().name == name)
    }

    /// Returns what running a tool twice would do; of one that is not there, the worst.
    pub fn effect_of(&self, name: &str) -> Effect {
        self.find(name).map_or(Effect::Unsafe, |tool| tool.effect())
    }

    pub(crate) fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.iter().map(|tool| tool.definition()).collect()
    }
}
